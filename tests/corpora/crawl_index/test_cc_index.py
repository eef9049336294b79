"""A language out of a dump by its index, over a local server of ranges."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.corpora.crawl import document
from tests.corpora.crawl_index.dump import DUMP, Page, served, write_dump
from xling.core.commands.runner import run_local
from xling.core.errors import UserError
from xling.core.output import sealed
from xling.core.settings import config
from xling.corpora.common import ranges
from xling.corpora.common.download import Patience
from xling.corpora.common.ranges import RangeReader
from xling.corpora.common.shards import read_corpus
from xling.corpora.mono import MonoConfig
from xling.corpora.sources import cc_index
from xling.corpora.sources.source import Context, open_source
from xling.text.document import Document, Ledger

NUM_SWAHILI = 12
QUICK = Patience(num_tries=4, first_wait_s=0.001, longest_wait_s=0.002, timeout_s=5)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    def reader(*args: Any, **settings: Any) -> RangeReader:
        return RangeReader(*args, patience=QUICK, sleep=lambda seconds: None, **settings)

    monkeypatch.setattr(cc_index, "RangeReader", reader)


def pages(num: int = 300) -> list[Page]:
    """Pages of which `NUM_SWAHILI` are in Swahili, as the index says; no record is written of the others."""
    others = [
        Page(f"https://h{i % 37}.example/{i}", None, ["eng", "fra,eng", None][i % 3]) for i in range(num)
    ]
    ours = [
        Page(f"https://sw{i % 3}.example/{i}", document("sw", i), ["swa", "eng,swa", "swa,eng"][i % 3])
        for i in range(NUM_SWAHILI)
    ]
    return [page for i, other in enumerate(others) for page in (other, *ours[i : i + 1])]


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    write_dump(tmp_path / "site", pages())
    return tmp_path / "site"


def source(base: str, folder: Path, uri: str = f"cc-index:{DUMP}", lang: str = "sw", **index: Any) -> Any:
    context = Context(lang, base_urls={"cc": base}, cache=folder / "cache")
    return open_source(uri, replace(context, index=replace(context.index, **index)))


def read(opened: Any) -> tuple[list[Document], Ledger]:
    ledger = Ledger()
    shards = opened.shards()
    opened.fetch(shards, 4)
    return [doc for shard in shards for doc in opened.read(shard, ledger)], ledger


def urls(docs: list[Document]) -> set[str]:
    return {doc.url for doc in docs}


SWAHILI = {page.url for page in pages() if page.languages and "swa" in page.languages}


def test_the_rows_of_the_language_are_read_and_nothing_else(
    dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(dump) as server:
        docs, ledger = read(source(server.url, tmp_path, contact="me@example.org"))
        assert server.most_at_once <= ranges.CONNECTIONS
        assert all("subset=warc" in asked[0] for asked in server.of(".parquet"))
        agents = {agent for _, wanted, agent in server.asked if wanted}
        num_bytes = server.sent
    assert urls(docs) == SWAHILI
    (agent,) = agents
    assert agent.startswith("xling/") and "contact me@example.org" in agent
    said = capsys.readouterr().err
    assert "12 rows of CC-MAIN-2024-22 match" in said
    assert "MB of clean text" in said
    spent = sealed.read_json(next(tmp_path.glob("cache/cc-index/*/spent.json")))["bytes"]
    assert sum(spent.values()) == num_bytes
    assert ledger.notes[cc_index.RECORDS_NOTE] == spent["records"]
    assert not ledger.unaccounted_bytes()


def test_a_second_look_asks_for_nothing(dump: Path, tmp_path: Path) -> None:
    with served(dump) as server:
        first = read(source(server.url, tmp_path))[0]
        num = len(server.asked)
        assert read(source(server.url, tmp_path))[0] == first
        assert len(server.asked) == num
    with served(dump) as server:  # a folder has the layout of the server, too
        again = read(source(str(dump), tmp_path / "folder"))[0]
    assert [doc.text for doc in again] == [doc.text for doc in first]


@pytest.mark.parametrize("fault", ["403", "429", "503", "500", "short", "cut", "shifted"])
def test_errors_that_pass(dump: Path, tmp_path: Path, fault: str) -> None:
    with served(
        dump, lambda path, visit: fault if visit == 1 and zlib.crc32(path.encode()) % 2 else ""
    ) as server:
        assert urls(read(source(server.url, tmp_path))[0]) == SWAHILI


def test_repeated_refusals_end_the_work_and_a_later_run_goes_on(dump: Path, tmp_path: Path) -> None:
    with served(dump, lambda path, visit: "403" if "/warc/" in path and "part" not in path else "") as server:
        with pytest.raises(UserError, match=r"HTTP 403, 3 times in a row.*wait some hours"):
            read(source(server.url, tmp_path))
        records = [asked for asked in server.asked if asked[0].endswith(".warc.gz")]
        assert len(records) <= 3 * ranges.CONNECTIONS
        server.fault = lambda path, visit: ""
        server.asked.clear()
        assert urls(read(source(server.url, tmp_path))[0]) == SWAHILI
        assert not server.of(".parquet")


def test_a_server_without_ranges_is_refused(dump: Path, tmp_path: Path) -> None:
    with served(dump, lambda path, visit: "no ranges") as server:
        with pytest.raises(UserError, match="does not answer ranges"):
            read(source(server.url, tmp_path))
        assert server.most_at_once <= ranges.CONNECTIONS


def test_a_record_that_never_comes_whole_is_counted(dump: Path, tmp_path: Path) -> None:
    with served(dump, lambda path, visit: "short" if path.endswith("00001.warc.gz") else "") as server:
        docs, ledger = read(source(server.url, tmp_path))
    lost = NUM_SWAHILI - len(docs)
    assert 0 < lost < NUM_SWAHILI
    assert ledger.notes["Common Crawl: records that never came whole"] == lost
    assert not ledger.unaccounted_bytes()


def test_files_that_are_gone_are_counted(dump: Path, tmp_path: Path) -> None:
    (dump / f"crawl-data/{DUMP}/warc/00001.warc.gz").unlink()
    with served(dump) as server:
        docs, ledger = read(source(server.url, tmp_path))
    assert ledger.notes["Common Crawl: records that are gone"] == NUM_SWAHILI - len(docs) > 0


@pytest.mark.parametrize(
    "options", [{}, {"write_page_index": False}, {"compression": "zstd", "data_page_version": "2.0"}]
)
def test_the_layout_of_the_parts_makes_no_difference(tmp_path: Path, options: dict[str, Any]) -> None:
    write_dump(tmp_path / "site", pages(), **options)
    with served(tmp_path / "site") as server:
        assert urls(read(source(server.url, tmp_path))[0]) == SWAHILI


def test_pages_without_the_language_are_not_read(tmp_path: Path) -> None:
    """Of ten thousand rows, twelve match: their pages are a small part of the index."""
    sizes = {}
    write_dump(tmp_path / "site", pages(10_000), num_parts=2, data_page_size=2000, row_group_size=5000)
    with served(tmp_path / "site") as server:
        assert urls(read(source(server.url, tmp_path / "a"))[0]) == SWAHILI
        sizes["pages"] = server.sent
    write_dump(tmp_path / "site", pages(10_000), num_parts=2, row_group_size=5000, write_page_index=False)
    with served(tmp_path / "site") as server:
        assert urls(read(source(server.url, tmp_path / "b"))[0]) == SWAHILI
        sizes["chunks"] = server.sent
    assert sizes["pages"] < sizes["chunks"]


def test_what_is_left_out_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = document("sw", 1)
    made = [
        Page("https://a.example/1", text),
        Page("https://a.example/2", text),  # a copy by its digest
        Page("https://a.example/3", document("sw", 3), digest=None),
        Page("https://a.example/4", document("sw", 4), status=404),
        Page("https://a.example/5", document("sw", 5), mime="application/pdf"),
        Page("https://a.example/6", document("sw", 6), mime=None),
    ]
    write_dump(tmp_path / "site", made, num_parts=1)
    with served(tmp_path / "site") as server:
        docs, ledger = read(source(server.url, tmp_path))
    assert urls(docs) == {f"https://a.example/{i}" for i in (1, 3, 6)}
    left_out = {name.rpartition(": ")[2]: num for name, num in ledger.notes.items() if "left out" in name}
    assert left_out == {"copies by content_digest": 1, "HTTP status other than 200": 1, "not HTML": 1}
    assert ledger.notes[cc_index.UNCOMPARED_NOTE] == 1
    told = capsys.readouterr().err
    assert "left out: 1 copies by content_digest" in told
    assert f"1 {cc_index.UNCOMPARED_NOTE}" in told


def test_copies_that_a_small_size_lets_pass_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where bytes are scarce, digests that cost more than the copies are not read; here each costs more."""
    monkeypatch.setattr("xling.corpora.crawl_index.dump_index._DIGEST_SHARE", -1)
    monkeypatch.setattr("xling.corpora.crawl_index.dump_index._INDEX_SHARE", 0)
    text = document("sw", 1)
    made = [Page(f"https://a.example/{i}", text if i < 3 else document("sw", i)) for i in range(6)]
    write_dump(tmp_path / "site", made, num_parts=1)
    with served(tmp_path / "site") as server:
        _, ledger = read(source(server.url, tmp_path / "scarce", num_bytes=20_000))
        assert ledger.notes[cc_index.UNCOMPARED_NOTE] == 6
        assert f"6 {cc_index.UNCOMPARED_NOTE}" in capsys.readouterr().err
        _, ledger = read(source(server.url, tmp_path / "all", num_bytes=0))
    assert cc_index.UNCOMPARED_NOTE not in ledger.notes
    assert ledger.notes["rows of Common Crawl's index left out: copies by content_digest"] == 2
    assert cc_index.UNCOMPARED_NOTE not in capsys.readouterr().err


def test_copies_of_an_earlier_dump_are_not_fetched(tmp_path: Path) -> None:
    made = [Page(f"https://a.example/{i}", document("sw", i)) for i in range(4)]
    write_dump(tmp_path / "site", made[:3], num_parts=1)
    write_dump(tmp_path / "site", made[1:], num_parts=1, dump="CC-MAIN-2024-26")
    with served(tmp_path / "site") as server:
        docs, ledger = read(source(server.url, tmp_path, "cc-index:CC-MAIN-2024-26,CC-MAIN-2024-22"))
        assert len(server.of("22/warc/00000.warc.gz")) == 1
        assert len(server.of(".warc.gz")) == 4
    assert len(docs) == 4
    assert ledger.notes["rows of Common Crawl's index left out: copies by content_digest"] == 2


def test_the_size_is_never_exceeded(dump: Path, tmp_path: Path) -> None:
    with served(dump) as server:
        read(source(server.url, tmp_path / "all"))
        whole = server.sent
    kept = []
    for share in (0.2, 0.5, 0.9, 1.0):
        with served(
            dump, lambda path, visit: "cut" if visit == 1 and path.endswith("0.warc.gz") else ""
        ) as server:
            docs, ledger = read(source(server.url, tmp_path / str(share), num_bytes=int(share * whole)))
            assert server.sent <= share * whole
        kept.append(len(docs))
        left_out = sum(num for name, num in ledger.notes.items() if "size=" in name)
        assert not docs or left_out >= NUM_SWAHILI - len(docs)
    assert kept == sorted(kept)
    assert kept[-1] > 0


def test_a_larger_size_keeps_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xling.corpora.crawl_index.selection._BATCH_RECORDS", 3)
    write_dump(tmp_path / "site", pages(), num_files=12)
    with served(tmp_path / "site") as server:
        read(source(server.url, tmp_path / "all"))
        whole = server.sent
        server.asked.clear()
        few, _ = read(source(server.url, tmp_path / "b", num_bytes=int(0.97 * whole)))
        num = len(server.of(".warc.gz"))
        many, _ = read(source(server.url, tmp_path / "b", num_bytes=2 * whole))
        assert urls(few) < urls(many) == SWAHILI
        assert len(server.of(".warc.gz")) - num <= NUM_SWAHILI - len(few) + 3


def test_time_ends_the_downloads(dump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(dump) as server:
        opened = source(server.url, tmp_path, seconds=1000.0)
        shards = opened.shards()
        monkeypatch.setattr(ranges.Limits, "spent_seconds", property(lambda limits: 1e4))
        opened.fetch(shards, 4)
        ledger = Ledger()
        assert [doc for shard in shards for doc in opened.read(shard, ledger)] == []
    assert ledger.notes["Common Crawl: not fetched (size= or time=)"] == NUM_SWAHILI


def faults_at(dump: Path, tmp_path: Path) -> Iterator[tuple[int, Path]]:
    with served(dump) as server:
        read(source(server.url, tmp_path / "whole"))
        num = len([asked for asked in server.asked if asked[1]])
    yield from ((at, tmp_path / str(at)) for at in range(1, num + 1))


def test_killed_at_any_request_it_goes_on(
    dump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {doc.id: doc.text for doc in read(source(str(dump), tmp_path / "folder"))[0]}
    once = RangeReader._once
    for at, folder in faults_at(dump, tmp_path):
        seen = [0]

        def dying(self: RangeReader, *args: Any, at: int = at, seen: list[int] = seen) -> tuple[bytes, int]:
            seen[0] += 1
            if seen[0] == at:
                raise KeyboardInterrupt
            return once(self, *args)

        with served(dump) as server:
            monkeypatch.setattr(RangeReader, "_once", dying)
            with pytest.raises(KeyboardInterrupt):
                read(source(server.url, folder))
            monkeypatch.setattr(RangeReader, "_once", once)
            docs, _ = read(source(server.url, folder))
            most = max(server.visits.values())
        assert [doc.text for doc in docs] == [whole[doc.id] for doc in docs]
        assert urls(docs) == SWAHILI
        assert most <= 3


def test_a_file_that_ends_elsewhere_than_its_journal_is_mended(dump: Path, tmp_path: Path) -> None:
    with served(dump) as server:
        opened = source(server.url, tmp_path)
        docs, _ = read(opened)
        (shard,) = opened.shards()
        path = Path(shard.location)
        content, journal = path.read_bytes(), path.with_suffix(".journal")
        lines = journal.read_bytes()
        for cut in (0, 10, len(content) // 2, len(content) - 1):
            path.write_bytes(content[:cut])
            assert read(source(server.url, tmp_path))[0] == docs
            assert path.read_bytes() == content
        for cut in (0, 5, len(lines) // 2, len(lines) - 1):
            path.write_bytes(content + b"junk")
            journal.write_bytes(lines[:cut])
            assert read(source(server.url, tmp_path))[0] == docs
            assert (path.read_bytes(), journal.read_bytes()) == (content, lines)


@pytest.mark.parametrize("damage", ["no parquet", "footer", "column"])
def test_a_damaged_part_of_the_index_costs_its_rows(tmp_path: Path, damage: str) -> None:
    write_dump(tmp_path / "site", pages(), num_parts=3)
    part = sorted((tmp_path / "site").rglob("*.parquet"))[2]  # whose second half are the pages in Swahili
    content = bytearray(part.read_bytes())
    at = {"no parquet": len(content) - 2, "footer": len(content) - 60, "column": len(content) // 4}[damage]
    content[at : at + 40] = b"\xff" * len(content[at : at + 40])
    part.write_bytes(content)
    with served(tmp_path / "site") as server:
        docs, ledger = read(source(server.url, tmp_path))
    assert not docs or damage == "column"
    assert docs or any("or damaged parts" in name for name in ledger.notes)


def hosts_dump(folder: Path) -> set[str]:
    """A dump in which the index does not name the language: pages of two hosts are in Swahili, of others in none."""
    made, good = [], set()
    for i in range(120):
        host = ["ast.example", "b.example", "c.example", "d.other"][i % 4]
        is_good = host == "ast.example" or (host == "b.example" and i % 8 == 1)
        made.append(Page(f"https://{host}/{i}", document("sw" if is_good else "zh", i), [None, "spa"][i % 2]))
        good |= {made[-1].url} if is_good else set()
    write_dump(folder, made)
    return good


def is_swahili(docs: list[Document]) -> list[bool]:
    return [" wa " in doc.text for doc in docs]


def test_hosts_are_ranked_by_a_sample_and_their_table_serves_another_dump(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("xling.corpora.crawl_index.hosts.sample.__defaults__", (12,))
    good = hosts_dump(tmp_path / "site")
    with served(tmp_path / "site") as server:
        opened = source(server.url, tmp_path, lang="ast", identify=is_swahili)
        docs, ledger = read(opened)
        assert urls(docs) >= good
        assert len([doc for doc in docs if "d.other" in doc.url]) == 3  # of the sample
        table = next(tmp_path.glob("cache/cc-index/*/hosts.tsv"))
        rows = [line.split("\t") for line in table.read_text().splitlines()]
        assert rows[0] == ["host", "pages", "in_language", "share"]
        assert rows[1][0] == "ast.example" and float(rows[1][3]) == 1.0
        assert {row[0]: float(row[3]) for row in rows[1:]}["d.other"] == 0.0
        said = capsys.readouterr().err
        assert f"hosts={table}" in said
        assert said.index("120 rows of CC-MAIN-2024-22 may match") < said.index("of the first 12 pages")
        assert "was tried" not in said
        assert sum(num for name, num in ledger.notes.items() if "hosts with few pages" in name) == 27
        again, _ = read(source(server.url, tmp_path / "b", lang="ast", hosts=str(table)))
        assert urls(again) >= good
        assert not [doc for doc in again if "d.other" in doc.url]
        source(server.url, tmp_path / "c", lang="ast", only_plan=True).shards()
        assert "MB of clean text, if all are in the language: none was tried" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("table", "message"),
    [("", "is empty"), ("a.example\tmany\t1\t.5\n", "line 1.*many"), ("a.example\t1\t2\t.5\n", "line 1")],
)
def test_a_table_of_hosts_that_is_none(tmp_path: Path, dump: Path, table: str, message: str) -> None:
    (tmp_path / "hosts.tsv").write_text(table)
    with pytest.raises(UserError, match=message):
        source(str(dump), tmp_path, hosts=str(tmp_path / "hosts.tsv")).shards()
    with pytest.raises(UserError, match="no such file"):
        source(str(dump), tmp_path, hosts=str(tmp_path / "other.tsv")).shards()


def settings(base: str, tmp_path: Path, **more: Any) -> MonoConfig:
    data = {
        "lang": "sw",
        "source": f"cc-index:{DUMP}",
        "out": str(tmp_path / "sw"),
        "base_urls": {"cc": base},
        "cache": str(tmp_path / "cache"),
        "near_dedup": "false",
        "settings": {"length": {"min_chars": "100"}},
    }
    return config.from_dict(MonoConfig, data | more)


def test_a_corpus_says_what_a_clean_megabyte_cost(dump: Path, tmp_path: Path) -> None:
    with served(dump) as server:
        answer = run_local("corpus mono", settings(server.url, tmp_path, size="5MB"))
    assert urls(list(read_corpus(tmp_path / "sw"))) == SWAHILI
    assert "MB read per clean MB" in answer
    stats = json.loads((tmp_path / "sw" / "stats.json").read_text())
    texts = sum(len(doc.text.encode()) for doc in read_corpus(tmp_path / "sw"))
    assert stats["crawl_clean_bytes"] == texts
    run_local("corpus mono", settings(server.url, tmp_path, size="5MB"))  # the server is gone


def test_a_dry_run_reads_the_index_and_no_record(
    dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(dump) as server:
        answer = run_local("corpus mono", settings(server.url, tmp_path, dry_run="true"))
        assert server.of(".parquet") and not server.of(".warc.gz")
    assert "12 rows of CC-MAIN-2024-22 match" in capsys.readouterr().err
    assert "the index was read, and no record" in answer
    assert not (tmp_path / "sw").exists()


def test_several_languages_from_one_index(dump: Path, tmp_path: Path) -> None:
    with served(dump) as server:
        run_local("corpus mono", settings(server.url, tmp_path, lang="sw,ar", out=str(tmp_path / "two")))
    assert urls(list(read_corpus(tmp_path / "two" / "sw"))) == SWAHILI


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"source": "cc-index:"}, "names no dump"),
        ({"source": "cc-index:2024"}, "'2024'"),
        ({"source": f"cc-index:{DUMP},x"}, "'x'"),
        ({"size": "100"}, "cc-index: takes bytes"),
        ({"size": "20XB"}, "size=20XB"),
        ({"size": "-1"}, "size=-1"),
        ({"time": "2"}, "time=2"),
        ({"time": "0h"}, "time=0h"),
        ({"neighbours": "spx"}, "spx"),
        ({"contact": "a\nb"}, "contact"),
        ({"lang": "all"}, "lang=all names none"),
        ({"source": "text:x", "size": "20GB"}, "bytes are for cc-index:"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        run_local("corpus mono", settings(str(tmp_path), tmp_path, **more))
    assert not list(tmp_path.iterdir())


def test_a_turned_bit_in_the_cache_is_noticed(dump: Path, tmp_path: Path) -> None:
    first, counted = read(source(str(dump), tmp_path))
    kept = [path for path in sorted(tmp_path.glob("cache/cc-index/*/**/*")) if path.is_file()]
    assert {path.suffix for path in kept} >= {".npz", ".parquet", ".json", ".journal", ".gz", ".notes"}
    assert len(kept) > 5
    for path in kept:
        whole = path.read_bytes()
        for place in {len(whole) // 3, len(whole) // 2}:
            content = bytearray(whole)
            content[place] ^= 1
            path.write_bytes(content)
            try:
                docs, ledger = read(source(str(dump), tmp_path))
            except UserError as error:
                assert path.name in error.given  # noqa: PT017 - it need not be raised
            else:
                assert docs == first or ledger.num_bytes != counted.num_bytes, path
            path.write_bytes(whole)
