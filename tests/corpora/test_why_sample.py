"""Questions to a corpus, and samples of several corpora."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.corpora.crawl import BOILERPLATE, sentences, write_crawl
from xling.cli import main
from xling.core.commands.runner import run_local
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings import config
from xling.corpora.common.shards import read_corpus, write_documents
from xling.corpora.inspect import sample, why
from xling.corpora.mono import MonoConfig
from xling.text.document import Document


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("root")
    source = write_crawl(root / "crawl")
    found = {}
    for lang, few in (("sw", 0), ("ar", 0), ("th", 2)):
        data = {
            "lang": lang,
            "out": str(root / lang),
            "source": source,
            "near_dedup": "false",
            "max_docs": few * 4,
        }
        run_local("corpus mono", config.from_dict(MonoConfig, data))
        found[lang] = root / lang
    return found


def ask(corpus: Path, query: str) -> str:
    return why.run(why.WhyConfig(query, str(corpus)))


def test_why_by_id(corpora: dict[str, Path]) -> None:
    answer = ask(corpora["sw"], "crawl-00001/1").splitlines()
    assert answer[0].startswith("crawl-00001/1: lost a part by paragraph_dedup: duplicate_paragraphs (")
    assert BOILERPLATE in answer[1]
    assert answer[2].startswith("crawl-00001/1: dropped by langid: other_language (identified as")
    kept = ask(corpora["sw"], "crawl-00001/0").splitlines()
    assert kept[-1].startswith("crawl-00001/0: kept (sw, lang_score ")
    assert kept[-1].endswith("http://sw.example/1/0)")


def test_why_by_text(corpora: dict[str, Path]) -> None:
    assert "dropped by langid: other_language" in ask(corpora["sw"], sentences("ar")[3])
    assert "kept (sw" in ask(corpora["sw"], sentences("sw")[3])
    assert "lost a part by paragraph_dedup" in ask(corpora["sw"], BOILERPLATE)
    assert "and more dropped" in ask(corpora["sw"], BOILERPLATE)


def test_why_by_a_paragraph_written_otherwise(corpora: dict[str, Path]) -> None:
    assert "lost a part by paragraph_dedup" in ask(
        corpora["sw"], f"  {BOILERPLATE.upper().replace('2024', '1999')} "
    )


@pytest.mark.parametrize("query", ["no such text anywhere", "ab", ""])
def test_why_of_nothing_is_told(corpora: dict[str, Path], query: str) -> None:
    with pytest.raises(UserError, match=r"neither in|too short"):
        ask(corpora["sw"], query)


def test_why_without_a_corpus_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no corpus in"):
        ask(tmp_path, "abc")


def test_why_on_the_command_line(corpora: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["corpus", "why", sentences("ar")[3], f"corpus={corpora['sw']}"]) == 0
    assert "other_language" in capsys.readouterr().out


def draw(out: Path, corpora: dict[str, Path], **settings: float | tuple[str, ...]) -> str:
    paths = {lang: str(path) for lang, path in corpora.items()}
    return sample.run(sample.SampleConfig(paths, str(out), **settings))  # type: ignore[arg-type]


def test_sample_balances_languages_and_reports_it(tmp_path: Path, corpora: dict[str, Path]) -> None:
    draw(tmp_path / "even", corpora, alpha=0, num_chars=60_000)
    found = manifest.read(tmp_path / "even").counts
    chars = {lang: found[lang]["characters"] for lang in corpora}
    assert all(abs(count - 20_000) < 2_500 for count in chars.values())
    assert found["th"]["epochs"] > 3 > 1.5 > found["sw"]["epochs"]
    drawn = list(read_corpus(tmp_path / "even"))
    assert sum(len(doc.text) for doc in drawn if doc.lang == "th") == chars["th"]
    assert len({doc.lang for doc in drawn[:12]}) == 3, "shards are shuffled"


def test_sample_at_alpha_one_is_everything_once(tmp_path: Path, corpora: dict[str, Path]) -> None:
    text = draw(tmp_path / "all", corpora, alpha=1)
    assert "alpha asked 1, realised 1.000" in text
    everything = sorted(doc.id for path in corpora.values() for doc in read_corpus(path))
    assert sorted(doc.id for doc in read_corpus(tmp_path / "all")) == everything


def test_sample_is_held_at_max_epochs(tmp_path: Path, corpora: dict[str, Path]) -> None:
    text = draw(tmp_path / "held", corpora, alpha=0, num_chars=600_000, max_epochs=3)
    assert "held at max_epochs=3: sw, ar, th" in text


def test_sample_is_repeatable_and_seeded(tmp_path: Path, corpora: dict[str, Path]) -> None:
    texts = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        draw(tmp_path / name, corpora, seed=seed)
        texts.append([(doc.id, doc.text) for doc in read_corpus(tmp_path / name)])
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("rehydrate", [("fineweb2",), ("1:1", "2:2", "3:3", "5:5", "100:8", "1000:1")])
def test_documents_of_large_clusters_are_drawn_more_often(tmp_path: Path, rehydrate: tuple[str, ...]) -> None:
    sizes = [1, 2, 3, 4, 5, 99, 100, 999, 1000]
    docs = [
        Document(str(size), "mstari wa maandishi", lang="sw", meta={"cluster_size": size} if size > 1 else {})
        for size in sizes
    ]
    (tmp_path / "sw" / "shards").mkdir(parents=True)
    write_documents(tmp_path / "sw" / "shards" / "sw-00000.parquet", docs)
    facts = {"stage": "corpus mono", "config": {}, "inputs": {}}
    (tmp_path / "sw" / "manifest.json").write_text(json.dumps(facts), encoding="utf-8")
    weights = [1, 2, 3, 3, 5, 5, 8, 8, 1]
    draw(
        tmp_path / "out",
        {"sw": tmp_path / "sw"},
        rehydrate=rehydrate,
        num_chars=sum(weights) * len(docs[0].text),
    )
    drawn = [int(doc.id) for doc in read_corpus(tmp_path / "out")]
    assert [drawn.count(size) for size in sizes] == weights


@pytest.mark.parametrize("rehydrate", ["2", "a:1", "1:0", "0:1", "1:nan"])
def test_sample_tells_wrong_weights(tmp_path: Path, corpora: dict[str, Path], rehydrate: str) -> None:
    with pytest.raises(UserError, match="rehydrate="):
        draw(tmp_path / "x", corpora, rehydrate=(rehydrate,))


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"alpha": 2}, "alpha=2"), ({"max_epochs": 0}, "max_epochs=0"), ({"num_chars": -1}, "num_chars=-1")],
)
def test_sample_tells_mistakes(
    tmp_path: Path, corpora: dict[str, Path], settings: dict[str, float], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        draw(tmp_path / "x", corpora, **settings)
    with pytest.raises(UserError, match="no corpora"):
        draw(tmp_path / "x", {})
    with pytest.raises(UserError, match=r"corpora\.swa: sw is given twice"):
        draw(tmp_path / "x", {"sw": corpora["sw"], "swa": corpora["sw"]})
    with pytest.raises(UserError, match="no corpus in"):
        draw(tmp_path / "x", {"sw": tmp_path})
