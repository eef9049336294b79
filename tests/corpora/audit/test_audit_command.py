"""`xling corpus audit`: what is drawn of documents, pairs and crawls, and what answers become, by the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.corpora.crawl import write_crawl
from xling.cli import main
from xling.core.commands.runner import run_local
from xling.core.output import manifest
from xling.core.settings import config
from xling.corpora.audit import labels
from xling.corpora.audit.sample import shorten
from xling.corpora.mono import MonoConfig
from xling.corpora.parallel.settings import ParallelConfig
from xling.corpora.toyworld import para


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("built")
    source = write_crawl(root / "crawl")
    for lang, out, more in (
        ("ar", "ar", {}),
        ("sw", "none", {"reject_chars": 0}),
        ("ar,sw", "many", {"others": "keep"}),
    ):
        data = {"lang": lang, "out": str(root / out), "source": source, "near_dedup": "false"}
        run_local("corpus mono", config.from_dict(MonoConfig, data | more))
    pairs = [*para("en", "de", 60, 1), ("Same here", "Same here"), ("Only this", "")]
    for side, code in enumerate(("en", "de")):
        (root / f"text.{code}").write_text("".join(p[side] + "\n" for p in pairs), encoding="utf-8")
    cfg = ParallelConfig("en-de", source=(f"moses:{root / 'text'}",), out=str(root / "en-de"))
    run_local("corpus parallel", cfg)
    return root


def audit(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    code = main(["corpus", "audit", *map(str, words)])
    said = capsys.readouterr()
    return code, said.out + said.err


def page_of(corpus: Path) -> dict[str, Any]:
    text = (corpus / "audit/audit.html").read_text(encoding="utf-8")
    return json.loads(text.partition('id="data">')[2].partition("</script>")[0])


def answer(corpus: Path, path: Path, reader: str, judge: Any, changes: Any = None) -> Path:
    data = page_of(corpus)
    given = {
        text["id"]: judge(data["strata"][text["stratum"]], number)
        for number, text in enumerate(data["texts"])
    }
    file = {"format": data["format"], "corpus": data["corpus"], "labels": data["labels"], "reader": reader}
    path.write_text(json.dumps(file | {"answers": given} | (changes or {})), encoding="utf-8")
    return path


def good(stratum: dict[str, Any], number: int) -> dict[str, list[str]]:
    return {"language": ["right"], "text": ["running"]}


def test_the_sample_has_every_kind_and_says_what_it_lacks(
    built: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = audit(capsys, built / "ar", "num_texts=5")
    data = page_of(built / "ar")
    kinds = {(s["kind"], s["stage"] or s["source"].partition(":")[0]) for s in data["strata"].values()}
    assert code == 0 and kinds == {
        ("kept", "wiki"),
        ("kept", "wet"),
        ("dropped", "langid"),
        ("dropped", "length"),
    }
    assert "paragraph_dedup/duplicate_paragraphs" in said and "stages= reads them" in said
    kept = manifest.read(built / "ar").counts["documents"]
    assert sum(s["size"] for s in data["strata"].values() if s["kind"] == "kept") == kept
    first = [text["stratum"] for text in data["texts"][:3]]
    assert len(set(first)) == 3, "one of each kind before the second of any"


def test_a_larger_sample_holds_the_smaller_one(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ids = []
    for num in (2, 4):
        audit(capsys, built / "ar", f"num_texts={num}")
        ids.append({text["id"] for text in page_of(built / "ar")["texts"]})
    assert ids[0] < ids[1]
    audit(capsys, built / "ar", "num_texts=2", "seed=2")
    assert {text["id"] for text in page_of(built / "ar")["texts"]} != ids[0]


def test_stages_that_compare_texts_are_read_where_they_are_named(
    built: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audit(capsys, built / "ar", "stages=paragraph_dedup")
    assert {s["stage"] for s in page_of(built / "ar")["strata"].values()} == {"paragraph_dedup"}
    assert audit(capsys, built / "ar", "stages=langit")[0] == 2


def test_dropped_texts_that_were_not_kept_are_told(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = audit(capsys, built / "none")
    assert code == 0 and "losses are only counted" in said and "reject_chars=" in said


def test_a_crawl_shows_its_languages_and_what_was_lost_before(
    built: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit(capsys, built / "many", "num_texts=3")[0] == 0
    names = {name.partition(":")[0] for name in page_of(built / "many")["strata"]}
    assert {"ar/kept wiki", "sw/kept wet", "routed zh", "routed th"} <= names
    assert audit(capsys, built / "many", "langs=Swahili")[0] == 0
    strata = page_of(built / "many")["strata"].values()
    assert {s["lang"] for s in strata} == {"sw"}
    code, said = audit(capsys, built / "many", "langs=de")
    assert code == 2 and "no text in de" in said
    assert audit(capsys, built / "ar", "langs=ar")[0] == 2


def test_dropped_before_routing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_crawl(tmp_path / "crawl", num_files=1)
    data = {"lang": "ar,sw", "out": str(tmp_path / "two"), "source": source, "near_dedup": "false"}
    run_local("corpus mono", config.from_dict(MonoConfig, data))
    assert audit(capsys, tmp_path / "two")[0] == 0
    lost = [s for s in page_of(tmp_path / "two")["strata"].values() if s["kind"] == "dropped"]
    assert [s["lang"] for s in lost] == ["", ""]
    assert [(s["stage"], s["reason"]) for s in lost] == [("langid", "other_language"), ("length", "short")]
    routed = json.loads((tmp_path / "two/routed/stats.json").read_text(encoding="utf-8"))
    assert lost[0]["size"] == routed["ledger"]["dropped"]["langid\tother_language"]


def test_pairs_by_filter(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(capsys, built / "en-de")[0] == 0
    data = page_of(built / "en-de")
    assert data["labels"] == "pairs" and all(len(text["texts"]) == 2 for text in data["texts"])
    assert {s["stage"] for s in data["strata"].values()} == {"", "empty"}
    assert audit(capsys, built / "en-de", "labels=hplt")[0] == 2
    assert audit(capsys, built / "ar", "labels=pairs")[0] == 2


def test_answers_become_precision_and_wrong_drops_and_the_card_shows_them(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = built / "ar"
    before, identity = manifest.read(corpus).files, manifest.digest(corpus)
    audit(capsys, corpus, "num_texts=4")

    def judge(stratum: dict[str, Any], number: int) -> dict[str, list[str]]:
        if stratum["kind"] == "dropped" or number == 1:
            return {"language": ["other"]}
        return {"language": ["right"], "text": ["running"], "more": ["adult"] if number == 0 else []}

    one = answer(corpus, tmp_path / "one.json", "A", judge)
    code, said = audit(capsys, corpus, f"answers={one}", "width=0.9")
    found = json.loads((corpus / "audit/result.json").read_text(encoding="utf-8"))
    shares = {(s["kind"], s["measure"]): s for s in found["shares"]}
    sizes = {name: s["size"] for name, s in page_of(corpus)["strata"].items()}
    kept = [text["stratum"] for text in page_of(corpus)["texts"][:2]]
    total = sum(size for name, size in sizes.items() if name.startswith("kept"))
    right = 1 - sizes[kept[1]] / total / 4 if kept[1].startswith("kept") else 1.0
    assert code == 0 and shares["kept", "right language"]["share"] == pytest.approx(right)
    assert shares["kept", "belongs"]["share"] == pytest.approx(right - sizes[kept[0]] / total / 4)
    assert shares["dropped", "wrongly dropped"]["share"] == 0
    assert shares["dropped", "wrongly dropped"]["enough"] and "enough" in said
    for name in ("card.html", "card.md"):
        text = (corpus / name).read_text(encoding="utf-8")
        assert "What readers found" in text and "dropped by langid: ar" in text
    after = manifest.verify(corpus)
    assert after.files == before and manifest.digest(corpus) == identity, (
        "what is made from it stays as it is"
    )
    assert set(after.amended) == {"card.html", "card.md"}


def test_two_readers_agree_or_not(built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = built / "ar"
    audit(capsys, corpus, "num_texts=4")
    one = answer(corpus, tmp_path / "one.json", "A", good)
    other = answer(
        corpus, tmp_path / "other.json", "B", lambda s, n: {"language": ["other"]} if n % 2 else good(s, n)
    )
    code, said = audit(capsys, corpus, f"answers={one},{other}")
    found = json.loads((corpus / "audit/result.json").read_text(encoding="utf-8"))
    num = len(page_of(corpus)["texts"])
    language = found["agreement"]["Language"]
    assert (
        code == 0 and language["raw"] == pytest.approx((num + 1) // 2 / num) and language["num_texts"] == num
    )
    assert "Krippendorff's alpha" in (corpus / "card.md").read_text(encoding="utf-8") and "alpha" in said
    same = answer(corpus, tmp_path / "same.json", "A", good)
    code, said = audit(capsys, corpus, f"answers={one},{same}")
    assert code == 2 and "two files of answers are by 'A'" in said


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"corpus": "0" * 16}, "are for corpus 000"),
        ({"format": "other"}, "holds no answers"),
        ({"labels": "mine"}, "labels 'mine'"),
        ({"answers": {}}, "no text is answered"),
        ({"answers": []}, "holds no answers"),
        ({"answers": {"x": {}}}, "not in this sample: 1"),
    ],
)
def test_answers_that_do_not_fit_are_refused(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], message: str
) -> None:
    audit(capsys, built / "ar", "num_texts=2")
    path = answer(built / "ar", tmp_path / "a.json", "A", good, changes)
    code, error = audit(capsys, built / "ar", f"answers={path}")
    assert code == 2 and message in error


@pytest.mark.parametrize(
    "given",
    [
        7,
        {"language": "right"},
        {"language": ["right", "other"]},
        {"mood": ["x"]},
        {"more": ["adult", "adult"]},
        {},
    ],
)
def test_answers_that_are_damaged_or_not_complete_are_counted(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], given: Any
) -> None:
    audit(capsys, built / "ar", "num_texts=2")
    path = answer(built / "ar", tmp_path / "a.json", "A", lambda s, n: good(s, n) if n else given)
    code, said = audit(capsys, built / "ar", f"answers={path}")
    assert code == 0 and "; left out: 1 " in said


def test_settings_that_change_nothing_and_files_that_are_none(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audit(capsys, built / "ar", "num_texts=2")
    path = answer(built / "ar", tmp_path / "a.json", "A", good)
    code, said = audit(capsys, built / "ar", f"answers={path}", "num_texts=3")
    assert code == 2 and "num_texts= changes nothing" in said
    path.write_bytes(b"\xff{")
    for name in (path, tmp_path / "no.json", tmp_path):
        assert audit(capsys, built / "ar", f"answers={name}")[0] == 2
    assert audit(capsys, tmp_path)[0] == 2
    assert audit(capsys, built / "ar", "width=1")[0] == 2


@pytest.mark.parametrize("preset", labels.PRESETS)
def test_no_key_is_bound_twice(preset: str) -> None:
    keys = [label.key for question in labels.PRESETS[preset] for label in question.labels]
    assert len({*keys, *"usi"}) == len(keys) + 3


def test_a_long_text_shows_start_middle_and_end() -> None:
    shown = shorten("a" * 1000 + "m" * 10 + "z" * 1000, 30)
    assert shown.split("\n") == [
        "a" * 10,
        "… (990 characters skipped) …",
        "m" * 10,
        "… (990 characters skipped) …",
        "z" * 10,
    ]
    assert shorten("short\x1b", 30) == "short␛"
