"""The dump that is made while it is downloaded: its files, and what is deleted when it is read."""

from __future__ import annotations

import gzip
import itertools
import json
import urllib.request
from pathlib import Path

import pytest

from benchmarks.crawl import altered, streamed
from xling.corpora.sources.records import records
from xling.text.document import Ledger

_PAGES = [
    "Kamati ya mji\nKamati itakutana tena wiki ijayo kujadili maktaba ya umma.",
    "城市图书馆\n委员会下周将再次开会讨论新的公共图书馆提案。",
]


@pytest.fixture
def dump(monkeypatch: pytest.MonkeyPatch) -> streamed.Dump:
    monkeypatch.setattr(altered, "pages", lambda data, seed: itertools.cycle(_PAGES))
    monkeypatch.setattr(streamed, "FILE_BYTES", 600)
    monkeypatch.setattr(streamed, "_BASE_BYTES", 100)
    return streamed.Dump(Path(), 1500)


def _bodies(packed: bytes) -> list[str]:
    ledger = Ledger()
    bodies = [record.body.decode() for record in records([gzip.decompress(packed)], ledger)]
    assert not ledger.dropped
    return bodies


def test_files_are_served_with_the_size_asked_for_and_no_line_in_common(dump: streamed.Dump) -> None:
    assert dump.sizes == [600, 600, 300]
    with streamed.serving(dump) as address:
        listing = urllib.request.urlopen(f"{address}/crawl-data/{streamed.DUMP}/wet.paths.gz").read()
        paths = gzip.decompress(listing).decode().split()
        files = [urllib.request.urlopen(f"{address}/{path}").read() for path in paths]
    assert len(files) == 3
    for file, number in zip(files, range(3), strict=True):
        assert file == b"".join(dump.file(number))
        total = sum(len(body.encode()) for body in _bodies(file))
        assert dump.sizes[number] <= total < dump.sizes[number] + 200
    lines = [
        {line for body in _bodies(file) for line in body.split("\n") if len(line) > 20} for file in files
    ]
    assert all(lines)
    assert lines[0].isdisjoint(lines[1])


@pytest.mark.parametrize("part", ["out/.overview.work/a1/route/00000", ".out.work/a1/read/00000"])
def test_what_a_finished_part_has_read_is_deleted(tmp_path: Path, part: str) -> None:
    cache, folder = tmp_path / "downloads", tmp_path / part
    cache.mkdir()
    folder.mkdir(parents=True)
    for name in ("D_0", "D_1"):
        (cache / name).write_bytes(b"12345")
    (folder / "inputs.json").write_text(json.dumps({"D/0": {}}), encoding="utf-8")
    assert streamed.delete_read(tmp_path / "out", cache) == 5
    assert [path.name for path in cache.iterdir()] == ["D_1"]
