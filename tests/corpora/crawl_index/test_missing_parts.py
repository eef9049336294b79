"""Parts of an index that are missing, damaged or gone while they are read."""

from __future__ import annotations

import errno
from pathlib import Path

import polars as pl
import pytest

from tests.corpora.crawl_index.dump import served, write_dump
from tests.corpora.crawl_index.test_cc_index import NUM_SWAHILI, SWAHILI, pages, quick, read, source, urls
from xling.core.errors import UserError
from xling.corpora.crawl_index.dump_index import LOST_ROWS
from xling.corpora.sources import cc_index

__all__ = ["quick"]


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    write_dump(tmp_path / "site", pages())
    return tmp_path / "site"


@pytest.mark.parametrize("fault", ["404", "410", "416", "short", "footer"])
def test_a_part_of_the_index_that_is_not_there_costs_its_rows_and_is_asked_for_again(
    dump: Path, tmp_path: Path, fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    part = sorted(dump.rglob("*.parquet"))[2]  # that with the pages in Swahili
    whole = part.read_bytes()
    if fault == "footer":
        part.write_bytes(whole[:-60] + b"\xff" * 56 + whole[-4:])
    with served(dump, lambda path, visit: fault if path.endswith(part.name) else "") as server:
        if fault == "footer":
            server.fault = lambda path, visit: ""
        docs, ledger = read(source(server.url, tmp_path))
        said = capsys.readouterr().err
        assert docs == [] and ledger.notes[f"{cc_index._LEFT_OUT}missing or damaged parts of the index"] == 1
        assert part.name in said and "overwrite=true asks for such parts again" in said
        server.fault = lambda path, visit: ""
        part.write_bytes(whole)
        assert urls(read(source(server.url, tmp_path))[0]) == SWAHILI


def test_a_part_that_goes_while_its_rows_are_read_costs_its_rows(dump: Path, tmp_path: Path) -> None:
    with served(dump) as server:
        read(source(server.url, tmp_path / "all"))
        num = len(server.of(".parquet"))
        server.fault = lambda path, visit: "404" if len(server.of(".parquet")) >= 2 * num else ""
        docs, ledger = read(source(server.url, tmp_path))
        lost = NUM_SWAHILI - len(docs)
        server.fault = lambda path, visit: ""
        assert ledger.notes[f"{cc_index._LEFT_OUT}{LOST_ROWS}"] == lost > 0
        assert urls(read(source(server.url, tmp_path))[0]) == SWAHILI


def test_an_index_of_which_no_part_is_there_is_refused(dump: Path, tmp_path: Path) -> None:
    with served(dump, lambda path, visit: "404" if "part-" in path else "") as server:
        for ask in (source(server.url, tmp_path).shards, source(server.url, tmp_path).estimate):
            with pytest.raises(UserError, match="HTTP 404; none of 3 parts of the index can be read"):
                ask()


def test_a_full_disk_is_no_damaged_part(dump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_nothing(table: pl.DataFrame, file: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", write_nothing)
    with pytest.raises(OSError, match="No space left"):
        read(source(str(dump), tmp_path))
