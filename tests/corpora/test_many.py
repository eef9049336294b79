"""Many languages from one reading: the same documents as one by one, read once, restartable, with an overview."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from browser import Browser

from tests.corpora.crawl import write_crawl
from tests.corpora.test_mono import LANGS, contents
from xling.core.commands.runner import run_local, run_part
from xling.core.errors import UserError
from xling.core.settings import config
from xling.corpora.card.counters import Counters
from xling.corpora.common.shards import read_corpus, read_documents
from xling.corpora.mono import MonoConfig, many, parts, phases
from xling.corpora.mono.build import resolve
from xling.corpora.sources import routed
from xling.corpora.sources import source as sources
from xling.text.document import Document, Ledger


def settings(out: Path, lang: str, source: str, **changes: Any) -> MonoConfig:
    data = {"lang": lang, "out": str(out), "source": source, "part_mb": 0.03, "shard_mb": 0.01}
    data |= {"settings": {"length": {"min_chars": "100"}}, "near_dedup": "false"} | changes
    return config.from_dict(MonoConfig, data)


def build(out: Path, lang: str, source: str, workers: int = 1, **changes: Any) -> str:
    return str(run_local("corpus mono", settings(out, lang, source, **changes), workers))


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_crawl(tmp_path_factory.mktemp("crawl"))


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory, crawl: str) -> Path:
    out = tmp_path_factory.mktemp("many") / "out"
    build(out, "all", crawl)
    return out


def documents(out: Path) -> list[tuple[str, str]]:
    return [(doc.id, doc.text) for doc in read_corpus(out)]


def test_each_language_has_what_it_has_alone(tmp_path: Path, crawl: str, everything: Path) -> None:
    assert sorted(path.name for path in everything.iterdir()) == sorted([*LANGS, "overview", "routed"])
    for lang in LANGS:
        build(tmp_path / lang, lang, crawl, dedup="false")
        build(tmp_path / f"{lang}-many", f"{lang},eu", crawl, dedup="false")
        alone = documents(tmp_path / lang)
        assert documents(tmp_path / f"{lang}-many" / lang) == alone
        assert [name for name, _ in documents(everything / lang)] == [name for name, _ in alone]
        assert {doc.lang for doc in read_corpus(everything / lang)} == {lang}
        stats = json.loads((everything / lang / "stats.json").read_text(encoding="utf-8"))
        assert [source["uri"] for source in stats["sources"]] == crawl.split(",")


@pytest.mark.browser
@pytest.mark.axe
def test_the_overview_in_a_browser(everything: Path, tmp_path: Path) -> None:
    with Browser(tmp_path / "profile") as window:
        assert window.flaws(everything / "overview" / "card.html") == []


def test_the_overview_accounts_for_every_document(everything: Path) -> None:
    stats = json.loads((everything / "overview" / "stats.json").read_text(encoding="utf-8"))
    rows = {row["lang"]: row for row in stats["languages"]}
    ledger = stats["routed"]["ledger"]
    assert ledger["seen"]["read"] == 88 == sum(row["found_documents"] for row in rows.values())
    assert {lang: row["kept_documents"] for lang, row in rows.items()} == dict.fromkeys(LANGS, 22)
    assert 2 * ledger["num_bytes"]["stored\tin"] == sum(
        n for key, n in ledger["num_bytes"].items() if key.startswith("stored")
    )
    page = (everything / "overview" / "card.html").read_text(encoding="utf-8")
    for lang, row in rows.items():
        assert f'<a href="../{lang}/card.html">{row["name"]}</a>' in page
        assert f'<blockquote dir="auto" lang="{lang}">' in page
        assert row["worst"] == ""


def test_every_file_is_read_once_and_a_later_language_reads_what_was_routed(
    tmp_path: Path, crawl: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    original = sources.open_source

    def counting(uri: str, context: Any) -> Any:
        source = original(uri, context)
        read = source.read

        def wrapped(shard: Any, ledger: Any) -> Any:
            if not uri.startswith("routed:"):
                opened.append(shard.location)
            return read(shard, ledger)

        monkeypatch.setattr(source, "read", wrapped, raising=False)
        return source

    monkeypatch.setattr("xling.corpora.mono.parts.open_source", counting)
    build(tmp_path / "out", "sw,ar", crawl, others="keep")
    assert len(opened) == len(set(opened)) == 7
    build(tmp_path / "out", "sw,ar,zh", crawl, others="keep")
    assert len(opened) == 7
    assert len(documents(tmp_path / "out" / "zh")) == 22
    with pytest.raises(UserError, match="holds no document in eu; valid: ar, sw, th, zh"):
        original(f"routed:{tmp_path}/out/routed", sources.Context("eu")).shards()
    with pytest.raises(UserError, match="no routed crawl"):
        original(f"routed:{tmp_path}", sources.Context("eu"))


def test_workers_and_a_stop_after_any_part_change_no_byte(
    tmp_path: Path, crawl: str, everything: Path
) -> None:
    cfg = settings(tmp_path / "out", "all", crawl)
    # One part at a time, each in a fresh look at the phases, as array jobs do; every part twice.
    position = 0
    while position < len(known := phases(cfg)):
        for index in range(known[position].num_parts):
            run_part("corpus mono", cfg, known[position].name, index)
            if known[position].name != "overview":
                run_part("corpus mono", cfg, known[position].name, index)
        position += 1
    assert not resolve(cfg).workspace.root.exists()
    for lang in LANGS:
        first, second = contents(everything / lang), contents(tmp_path / "out" / lang)
        assert {name: data for name, data in first.items() if name.endswith(".parquet")} == {
            name: data for name, data in second.items() if name.endswith(".parquet")
        }
    again = build(tmp_path / "out", "all", crawl, workers=2)
    assert again.count("22 of 22 documents") == 4


def test_a_language_without_text_is_in_the_overview_and_stops_nothing(tmp_path: Path, crawl: str) -> None:
    said = build(tmp_path / "out", "sw,eu", crawl)
    assert "eu: 0 of 0 documents" in said
    strict = {"length": {"min_chars": "100"}, "filters": {"per_lang": {"zh": {"min_words": "100000"}}}}
    said = build(tmp_path / "strict", "sw,zh", crawl, settings=strict)
    assert "zh: 0 of 22 documents" in said
    assert not (tmp_path / "strict" / "zh").exists()


def test_of_a_crawl_that_nobody_has_begun_the_plan_alone_is_known(tmp_path: Path) -> None:
    cfg = MonoConfig("sw,ar", str(tmp_path / "out"), source=(f"text:{write_crawl(tmp_path / 'crawl')}",))
    assert [phase.name for phase in phases(cfg)] == ["plan"]


def test_the_line_of_a_language_is_rather_long_than_a_heading(tmp_path: Path) -> None:
    sentence = "We are at a unique point in the history of science, " * 5 + "says the article."
    for lang, text in {"en": f"Areas of interest:\n{sentence}", "sw": "Habari za leo:"}.items():
        (tmp_path / lang).mkdir()
        counters = Counters(samples=[(1, "a/1", text)]).to_json()
        (tmp_path / lang / "stats.json").write_text(json.dumps({"counters": counters}), encoding="utf-8")
    assert many._sample_sentence(tmp_path, "en") == sentence
    assert many._sample_sentence(tmp_path, "sw") == "Habari za leo:"


def test_a_routed_file_is_opened_once_for_all_languages(
    tmp_path: Path, everything: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "routed"
    shutil.copytree(everything / "routed", folder)
    opened = list[Path]()
    monkeypatch.setattr(
        routed.pq, "read_metadata", lambda path: opened.append(path) or pq.ParquetFile(path).metadata
    )

    def texts() -> dict[str, list[str]]:
        found = {}
        for lang in LANGS:
            source = sources.open_source(f"routed:{folder}", sources.Context(lang=lang, cache=tmp_path))
            found[lang] = [doc.text for shard in source.shards() for doc in source.read(shard, Ledger())]
        return found

    first = texts()
    assert len(opened) == len(set(opened)) == len(list((folder / "parts").iterdir()))
    assert texts() == first
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    (folder / "index.json").write_text(json.dumps(index | {"sw": index["ar"]}), encoding="utf-8")
    assert texts() == first | {"sw": first["ar"]}


def test_a_crawl_without_reference_text_is_not_read_for_the_language_model(
    tmp_path: Path, crawl: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Counter[str]()

    def read(path: Path) -> Iterator[Document]:
        opened[path.parent.parent.name] += 1
        return read_documents(path)

    monkeypatch.setattr(parts, "read_documents", read)
    build(tmp_path / "out", "sw", crawl.rpartition(",")[2], part_mb=9)
    assert opened == {"read": 1, "filter": 1, "score": 1}


@pytest.mark.parametrize("lang", ["ALL", "All", " all"])
def test_all_is_read_in_any_case(lang: str, tmp_path: Path) -> None:
    assert MonoConfig(lang, str(tmp_path), source=("text:a",)).lang == "all"


def test_all_beside_a_language_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="lang=all,sw"):
        MonoConfig("all,sw", str(tmp_path), source=("text:a",))
