"""The build of a corpus from its sources to its card: right, restartable at any moment, bounded in memory."""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import lzma
import os
import resource
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from tests.corpora.crawl import BOILERPLATE, SilentHandler, document, sentences, write_crawl
from tests.killed import attempts
from xling.core.commands.runner import run_local
from xling.core.errors import UserError
from xling.core.output import manifest, parts
from xling.core.sampling import rng
from xling.core.settings import config
from xling.corpora.common.shards import read_corpus
from xling.corpora.mono import MonoConfig
from xling.corpora.mono.build import resolve

LANGS = ["sw", "ar", "zh", "th"]
BUCKETS = ("head", "middle", "tail")


def build(out: Path, lang: str, source: str, workers: int = 1, **settings: Any) -> str:
    data = {"lang": lang, "out": str(out), "source": source, "part_mb": 0.03, "shard_mb": 0.01}
    data |= {"settings": {"length": {"min_chars": "100"}}, "near_dedup": "false"} | settings
    return str(run_local("corpus mono", config.from_dict(MonoConfig, data), workers))


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_crawl(tmp_path_factory.mktemp("crawl"))


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory, crawl: str) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("corpora")
    for lang in LANGS:
        build(root / lang, lang, crawl, export="txt")
    return {lang: root / lang for lang in LANGS}


def contents(out: Path) -> dict[str, bytes]:
    """Every published file but the manifest, which holds the time it took."""
    return {
        str(p.relative_to(out)): p.read_bytes()
        for p in sorted(out.rglob("*"))
        if p.is_file() and p.name != "manifest.json"
    }


@pytest.mark.parametrize("lang", LANGS)
def test_a_corpus_holds_its_language_and_nothing_else(corpora: dict[str, Path], lang: str) -> None:
    docs = list(read_corpus(corpora[lang]))
    known = sentences(lang)
    assert len(docs) == 18 + 4
    for doc in docs:
        assert doc.lang == lang
        assert doc.meta["lang_score"] > 0.5
        assert doc.url.startswith((f"http://{lang}.", "T"))
        assert all(
            paragraph == BOILERPLATE or any(s in paragraph for s in known)
            for paragraph in doc.text.split("\n")
        )
    # The first copy is the only one, whichever language its page is in.
    assert sum(BOILERPLATE in doc.text for doc in docs) == (lang == "ar")


@pytest.mark.parametrize("lang", LANGS)
def test_every_document_is_accounted_for(corpora: dict[str, Path], lang: str) -> None:
    stats = json.loads((corpora[lang] / "stats.json").read_text(encoding="utf-8"))
    ledger, partial = stats["ledger"], {"\t".join(pair) for pair in stats["partial"]}
    whole = sum(count for key, count in ledger["dropped"].items() if key not in partial)
    assert ledger["seen"]["read"] == 88 == ledger["seen"]["corpus"] + whole
    counters = stats["counters"]
    assert sum(counters["confusion"].values()) == ledger["seen"]["langid"]
    assert counters["confusion"][f"{lang}\t{lang}"] == 4
    assert counters["confusion"][f"\t{lang}"] == 18
    assert sum(counters["histograms"]["length kept"].values()) == 22
    assert sum(counters["histograms"]["length dropped"].values()) == 66
    rejects = pl.read_parquet(corpora[lang] / "rejects/*.parquet")
    assert len(rejects) == sum(ledger["dropped"].values())
    found = manifest.verify(corpora[lang])
    assert found.counts["documents"] == 22


def test_shards_are_readable_by_the_usual_libraries(corpora: dict[str, Path]) -> None:
    from datasets import load_dataset

    files = f"{corpora['ar']}/shards/*.parquet"
    frame = pl.scan_parquet(files).select("id", "text", "lang", "lang_score").collect()
    cache = str(corpora["ar"].parent / "hf")
    rows = load_dataset("parquet", data_files=files, split="train", cache_dir=cache)
    assert frame["text"].to_list() == rows["text"][:]
    assert rows.column_names == [
        "id", "text", "url", "source", "date", "lang", "lang_score", "perplexity", "bucket", "meta",
    ]  # fmt: skip


def test_the_text_export_is_cc100s_format(corpora: dict[str, Path]) -> None:
    text = (corpora["zh"] / "zh.txt").read_text(encoding="utf-8")
    assert text == "".join(doc.text + "\n\n" for doc in read_corpus(corpora["zh"]))


@pytest.mark.parametrize("ending", ["txt.gz", "txt.xz", "txt.zst"])
def test_the_text_export_compressed(tmp_path: Path, crawl: str, ending: str) -> None:
    build(tmp_path / "a", "sw", crawl, export=ending)
    packed = (tmp_path / "a" / f"sw.{ending}").read_bytes()
    if ending == "txt.zst":
        import zstandard

        with zstandard.open(tmp_path / "a" / f"sw.{ending}", "rb") as handle:
            text = handle.read()
    else:
        text = (gzip if ending == "txt.gz" else lzma).decompress(packed)
    assert text.decode() == "".join(doc.text + "\n\n" for doc in read_corpus(tmp_path / "a"))


def kept(out: Path) -> int:
    return sum(len(doc.text) for doc in read_corpus(out))


def test_a_second_copy_of_a_source_adds_nothing_and_takes_nothing(tmp_path: Path, crawl: str) -> None:
    first = crawl.partition(",wet:")[2]
    second = shutil.copytree(Path(first).parent, tmp_path / "again")
    build(tmp_path / "one", "sw", f"wet:{first}")
    build(tmp_path / "two", "sw", f"wet:{first},wet:{second}/*.wet.gz")
    assert kept(tmp_path / "two") == kept(tmp_path / "one") > 0
    build(tmp_path / "each", "sw", f"wet:{first},wet:{second}/*.wet.gz", dedup_scope="dump")
    assert kept(tmp_path / "each") == 2 * kept(tmp_path / "one")
    build(tmp_path / "group", "sw", f"wet:{first}", dedup_scope="group", dedup_group=1)
    boilerplate = [BOILERPLATE in doc.text for doc in read_corpus(tmp_path / "group")]
    assert sum(boilerplate) == 3, "once in each file"


def test_a_reference_keeps_its_paragraphs_wherever_it_is_listed(tmp_path: Path) -> None:
    text = document("sw", "mirrored")
    (tmp_path / "web.txt").write_text(text, encoding="utf-8")
    page = f"<page><title>T</title><ns>0</ns><id>1</id><revision><text>{text}</text></revision></page>"
    (tmp_path / "swwiki.xml").write_text(f"<mediawiki>{page}</mediawiki>", encoding="utf-8")
    build(tmp_path / "out", "sw", f"text:{tmp_path}/web.txt,wiki:{tmp_path}/swwiki.xml")
    assert [doc.source for doc in read_corpus(tmp_path / "out")] == [f"wiki:{tmp_path}/swwiki.xml"]


def test_workers_and_parts_do_not_change_a_byte(tmp_path: Path, crawl: str, corpora: dict[str, Path]) -> None:
    build(tmp_path / "two", "sw", crawl, workers=2, export="txt", memory_mb=1)
    assert contents(tmp_path / "two") == contents(corpora["sw"])


def test_a_rerun_does_nothing_and_changed_input_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, out = write_crawl(tmp_path / "crawl"), tmp_path / "sw"
    first = build(out, "sw", source)
    stamp = (out / "manifest.json").stat().st_mtime_ns
    assert build(out, "sw", source) == f"{first}\n  up to date: nothing to do"
    assert (out / "manifest.json").stat().st_mtime_ns == stamp
    write_crawl(tmp_path / "crawl", num_files=4)
    with pytest.raises(UserError, match="overwrite=true"):
        build(out, "sw", source)
    monkeypatch.setenv(manifest.OVERWRITE_VARIABLE, "true")
    assert build(out, "sw", source) != first
    assert len(list(read_corpus(out))) == 28
    (tmp_path / "crawl" / "crawl-00003.warc.wet.gz").write_bytes(b"")
    build(out, "sw", source)
    assert len(list(read_corpus(out))) == 22
    assert not list(tmp_path.glob(".*"))


def test_a_comma_in_the_name_of_a_file(tmp_path: Path) -> None:
    for name in ("a,b", "c"):
        (tmp_path / f"{name}.txt").write_text(document("sw", name), encoding="utf-8")
    build(tmp_path / "out", "sw", f"text:{tmp_path}/a,b.txt,text:{tmp_path}/c.txt")
    assert [doc.id for doc in read_corpus(tmp_path / "out")] == ["a,b/0", "c/0"]


def test_parts_of_other_code_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cfg = MonoConfig("sw", out=str(tmp_path / "a"))
    first = resolve(cfg).workspace.root
    assert resolve(cfg).workspace.root == first
    code = tmp_path / "xling_code"
    code.mkdir()
    (code / "stage.py").write_text("RULE = 1", encoding="utf-8")
    found = SimpleNamespace(submodule_search_locations=[str(code)])
    monkeypatch.setattr(parts, "find_spec", lambda name: found)
    digests = set()
    for text in ("RULE = 1", "RULE = 2"):
        (code / "stage.py").write_text(text, encoding="utf-8")
        monkeypatch.delenv("XLING_CODE_DIGEST", raising=False)
        digests.add(resolve(cfg).workspace.root)
    (code / "stage.py").write_text("RULE = 3", encoding="utf-8")  # while the build runs
    digests.add(resolve(cfg).workspace.root)
    assert len(digests | {first}) == 3


@pytest.mark.parametrize("how", ["full", "name"])
def test_a_disk_that_is_full_and_a_name_that_is_no_text_are_told(
    tmp_path: Path, crawl: str, how: str
) -> None:
    words = [*COMMAND, f"source={crawl}", f"out={tmp_path / 'th'}"]
    if how == "name":
        bad = os.fsencode(tmp_path) + b"/a\xff.txt"
        with open(bad, "wb") as handle:  # noqa: PTH123 - the name is bytes
            handle.write(b"text")
        words = [*COMMAND, f"source=text:{tmp_path}/*.txt", f"out={tmp_path / 'th'}"]

    def limit() -> None:
        if how == "full":
            resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))

    child = subprocess.run(words, capture_output=True, text=True, preexec_fn=limit)
    assert child.returncode == 2, child.stderr
    assert "Traceback" not in child.stderr
    assert ("ulimit -f" if how == "full" else "is not UTF-8; fix:") in child.stderr
    assert not (tmp_path / "th").exists()


def test_changed_lists_of_a_stage_are_seen(
    tmp_path: Path, crawl: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, out = tmp_path / "held.txt", tmp_path / "sw"
    settings = {"contamination": {"files": str(held)}}
    held.write_text("moja mbili tatu nne tano sita saba nane tisa kumi\n", encoding="utf-8")
    build(out, "sw", crawl, settings=settings)
    document = next(iter(read_corpus(out)))
    held.write_text(document.text.replace("\n", " ") + "\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"files.*now.*overwrite=true"):
        build(out, "sw", crawl, settings=settings)
    assert document.text in {doc.text for doc in read_corpus(out)}
    monkeypatch.setenv(manifest.OVERWRITE_VARIABLE, "true")
    build(out, "sw", crawl, settings=settings)
    assert document.text not in {doc.text for doc in read_corpus(out)}


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        text = "\n\n".join(f"Hii ni hati ya {name} namba {i}, kuhusu {name * (i + 1)}." for i in range(20))
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
    plain: dict[str, Any] = dict.fromkeys(("before_dedup", "after_dedup"), ()) | {"settings": {}}
    plain |= dict.fromkeys(("dedup", "near_dedup"), False)
    build(tmp_path / "all", "sw", f"text:{tmp_path}/*.txt", **plain)
    build(tmp_path / "twice", "sw", f"text:{tmp_path}/one.txt,text:{tmp_path}/*.txt", **plain)
    texts = [sorted(doc.text for doc in read_corpus(tmp_path / name)) for name in ("all", "twice")]
    assert texts[0] == texts[1] and len(texts[0]) == 40
    assert f"{tmp_path}/one.txt: named twice, read once" in capsys.readouterr().err


def test_settings_reach_the_stages_and_the_card(tmp_path: Path, crawl: str) -> None:
    settings = {"length": {"min_chars": "100000"}}
    with pytest.raises(UserError, match="none of 88 documents is left: length/short 88"):
        build(tmp_path / "a", "sw", crawl, settings=settings)
    assert not (tmp_path / "a").exists()


def test_without_any_stage_everything_stays(tmp_path: Path, crawl: str) -> None:
    build(tmp_path / "a", "sw", crawl, dedup="false", before_dedup=[], after_dedup=[], settings={})
    docs = list(read_corpus(tmp_path / "a"))
    assert len(docs) == 88
    assert {doc.lang for doc in docs} == {"sw"}


def test_the_first_documents_only(tmp_path: Path, crawl: str) -> None:
    build(tmp_path / "a", "sw", crawl, max_docs=4)
    assert len(list(read_corpus(tmp_path / "a"))) == 3 + 4
    with pytest.raises(UserError, match="length/short 248, read/longer than max_chars 72"):
        build(tmp_path / "b", "sw", crawl, max_chars=50)


def test_without_dedup_boilerplate_stays(tmp_path: Path, crawl: str) -> None:
    build(tmp_path / "a", "sw", crawl, dedup="false")
    assert all(BOILERPLATE in doc.text for doc in read_corpus(tmp_path / "a"))


@pytest.mark.parametrize(("min_jaccard", "num_dropped"), [(0.85, 3), (0.99, 0)])
def test_near_duplicates_go_but_for_the_first(tmp_path: Path, min_jaccard: float, num_dropped: int) -> None:
    docs = [f"{document('sw', 'near', i)}\n{sentences('sw')[i]}" for i in range(6)]
    again = [doc.replace("Mwalimu", "Profesa") for doc in docs[:3]]
    (tmp_path / "a.txt").write_text("\n\n".join(docs), encoding="utf-8")
    (tmp_path / "b.txt").write_text("\n\n".join(again), encoding="utf-8")
    settings = {
        "dedup": "false",
        "near_dedup": "true",
        "part_mb": 0.001,
        "near": {"min_jaccard": str(min_jaccard)},
    }
    build(tmp_path / "out", "sw", f"text:{tmp_path}/*.txt", **settings)
    kept = [doc.id for doc in read_corpus(tmp_path / "out")]
    assert len([name for name in kept if name.startswith("b/")]) == 3 - num_dropped
    stats = json.loads((tmp_path / "out" / "stats.json").read_text(encoding="utf-8"))
    assert stats["ledger"]["dropped"] == ({"near_dedup\tnear_duplicate": num_dropped} if num_dropped else {})


def test_a_language_model_of_the_reference_splits_the_corpus(tmp_path: Path, crawl: str) -> None:
    # The more words of a text stand in another order, the less it reads like the reference.
    texts = []
    for i in range(12):
        words = document("sw", "web", i).split(" ")
        moved = rng("words", i).permutation(len(words))[: 2 + 8 * i]
        for a, b in itertools.pairwise(moved.tolist()):
            words[a], words[b] = words[b], words[a]
        texts.append(" ".join(words))
    (tmp_path / "web.txt").write_text("\n\n".join(texts), encoding="utf-8")
    source = f"{crawl.partition(',')[0]},text:{tmp_path}/web.txt"
    build(tmp_path / "all", "sw", source, lm={"min_chars": "1000"}, dedup="false", after_dedup=["langid"])
    docs = list(read_corpus(tmp_path / "all"))
    web = {b: [d for d in docs if d.meta["bucket"] == b and d.source[:4] == "text"] for b in BUCKETS}
    assert [len(found) for found in web.values()] == [3, 4, 5]
    order = [int(doc.id.partition("/")[2]) for found in web.values() for doc in found]
    assert set(order[:3]) <= set(range(5)), "the least shuffled are the head"
    assert all(doc.meta["perplexity"] > 1 for doc in docs)
    stats = json.loads((tmp_path / "all" / "stats.json").read_text(encoding="utf-8"))
    assert 0 < stats["cutoffs"]["head"] < stats["cutoffs"]["tail"]
    assert "Language model trained on" in stats["lm_note"]
    build(tmp_path / "head", "sw", source, lm={"min_chars": "1000", "keep": "head,middle"}, dedup="false")
    assert {doc.meta["bucket"] for doc in read_corpus(tmp_path / "head")} == {"head", "middle"}


def test_too_little_reference_text_is_said(corpora: dict[str, Path]) -> None:
    note = json.loads((corpora["sw"] / "stats.json").read_text(encoding="utf-8"))["lm_note"]
    assert note.startswith("No perplexity: ")
    assert note in (corpora["sw"] / "card.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lang": "swx"}, "unknown language"),
        ({"part_mb": "0"}, "part_mb=0"),
        ({"part_mb": "nan"}, "part_mb=nan"),
        ({"shard_mb": "inf"}, "shard_mb=inf"),
        ({"settings": {"langid": {"threshold": "nan"}}}, "settings.langid: threshold=nan"),
        ({"source": "text:/nowhere,else.txt"}, "no file matches '/nowhere,else.txt'"),
        ({"before_dedup": "repair,lenght"}, "unknown corpus stage 'lenght'.*'length'"),
        ({"before_dedup": "repair,repair"}, "listed twice"),
        ({"settings": {"length": {"min_char": "3"}}}, "settings.length.*min_char"),
        ({"settings": {"lenght": {}}}, "unknown stage in settings"),
        ({"after_dedup": "perplexity"}, "set it up with lm"),
        ({"lm": {"percentiles": "30"}}, "two numbers"),
        ({"lm": {"percentiles": "60,30"}}, "0 <= head <= tail"),
        ({"source": "x:y"}, "unknown source 'x'"),
        ({"source": "text:/nowhere"}, "no file matches"),
    ],
)
def test_mistakes_are_told_before_anything_is_made(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    data = {"lang": "sw", "out": str(tmp_path / "a"), "source": "toyworld"} | settings
    with pytest.raises(UserError, match=message):
        run_local("corpus mono", config.from_dict(MonoConfig, data))
    assert not list(tmp_path.iterdir())


def test_the_download_is_announced_and_an_offline_machine_is_told(
    tmp_path: Path, crawl: str, capsys: pytest.CaptureFixture[str]
) -> None:
    base = {"cc": "http://127.0.0.1:1/", "wiki": "http://127.0.0.1:1/"}
    cfg = MonoConfig("sw", out=str(tmp_path / "a"), base_urls=base, cache=str(tmp_path / "cache"))
    assert resolve(cfg).uris == ("wiki:", "cc-index:CC-MAIN-2024-22")
    cfg = replace(cfg, size="4")
    assert resolve(cfg).uris == ("wiki:", "cc:CC-MAIN-2024-22")
    import xling.corpora.common.download

    quick = xling.corpora.common.download.Patience(num_tries=1)
    original = xling.corpora.common.download.fetch.__defaults__
    xling.corpora.common.download.fetch.__defaults__ = (quick, None)
    try:
        with pytest.raises(UserError, match=r"off-line.*source=wet:GLOB"):
            run_local("corpus mono", cfg)
    finally:
        xling.corpora.common.download.fetch.__defaults__ = original
    said = capsys.readouterr().err
    assert (
        "no source= given: its Wikipedia dump from http://127.0.0.1:1/ and 4 files of CC-MAIN-2024-22" in said
    )
    assert "about 315 MB" in said


COMMAND = [sys.executable, "-m", "xling.cli", "corpus", "mono", "lang=th", "part_mb=0.03"]
COMMAND += ["shard_mb=0.01", "settings.length.min_chars=100", "near_dedup=false"]


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_at_many_renames_it_ends_in_the_same_bytes(
    tmp_path: Path, crawl: str, corpora: dict[str, Path], workers: int
) -> None:
    words = [*COMMAND[3:], f"source={crawl}", f"out={tmp_path / 'th'}", "export=txt", f"workers={workers}"]
    code, deaths = attempts(
        words, "polars,xling.corpora.mono.build,xling.corpora.langid.identify:_py3langid", 5, stride=3
    )
    assert code == 0 and deaths > 1
    assert contents(tmp_path / "th") == contents(corpora["th"])


@pytest.mark.data
@pytest.mark.parametrize("lang", ["eu", "sw", "zh", "ar", "th"])
def test_real_samples_give_a_corpus(tmp_path: Path, lang: str) -> None:
    data = os.environ["XLING_DATA"]
    near = {"eu": ("eu", "fr"), "sw": ("sw", "id"), "zh": ("zh", "ja"), "ar": ("ar", "ur"), "th": ("zh",)}
    wikis = [f"wiki:{data}/wiki/{code}wiki-mini.xml.bz2" for code in near[lang]]
    web = f"wet:{data}/web/*.wet*,warc:{data}/web/*.warc.gz,jsonl:{data}/web/*.jsonl.gz"
    source = ",".join([*wikis, web])
    if lang == "th":  # the samples hold no page in Thai
        source += f",text:{data}/ntrex/ntrex.tha.txt"
    build(tmp_path / lang, lang, source)
    docs = list(read_corpus(tmp_path / lang))
    assert docs
    assert all(doc.lang == lang for doc in docs)
    if lang == "zh":
        build(tmp_path / "again", lang, source)
        assert contents(tmp_path / "again") == contents(tmp_path / lang)


def test_the_default_sources_from_a_mirror_over_http(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mirror = tmp_path / "mirror"
    write_crawl(mirror / "files")
    wet, wiki = mirror / "crawl-data" / "CC-MAIN-2024-22", mirror / "swwiki" / "latest"
    wet.mkdir(parents=True)
    wiki.mkdir(parents=True)
    paths = [f"files/crawl-{i:05d}.warc.wet.gz" for i in range(3)]
    (wet / "wet.paths.gz").write_bytes(gzip.compress("\n".join(paths).encode()))
    dump = (mirror / "files" / "swwiki.xml.bz2").read_bytes()
    (wiki / "swwiki-latest-pages-articles.xml.bz2").write_bytes(dump)
    sums = f"{hashlib.sha1(dump).hexdigest()}  swwiki-20240601-pages-articles.xml.bz2\n"
    (wiki / "swwiki-latest-sha1sums.txt").write_text(sums, encoding="utf-8")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SilentHandler, directory=str(mirror))) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}"
        settings = {
            "source": "",
            "size": 2,
            "base_urls": {"cc": address, "wiki": address},
            "cache": str(tmp_path / "cache"),
        }
        build(tmp_path / "sw", "sw", **settings)
        server.shutdown()
        thread.join()
    docs = list(read_corpus(tmp_path / "sw"))
    assert {doc.source for doc in docs} == {"wiki:", "cc:CC-MAIN-2024-22"}
    assert len(docs) == 4 + 2 * 6
    said = capsys.readouterr().err
    assert "to download: 3 of 3 files, about" in said
    assert f"{address}/swwiki/latest/swwiki-latest-pages-articles.xml.bz2" in said
    # A second build with other settings finds the downloads in place: the server is gone.
    build(tmp_path / "again", "sw", **settings | {"reject_chars": 0})
