"""The toy world: what its data promise."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.core.errors import UserError
from xling.core.output.manifest import verify
from xling.corpora.toyworld import (
    LANGS,
    ToyworldConfig,
    dictionary,
    mono,
    ner,
    nli,
    para,
    render,
    run,
    stream,
)
from xling.corpora.toyworld.draw import digest
from xling.corpora.toyworld.lexicon import WORLD, load
from xling.corpora.toyworld.meaning import Meaning, Org, Person, Place, entities
from xling.corpora.toyworld.tokens import Token, text_of
from xling.corpora.toyworld.world import HELD_OUT_DRAW_PERCENT, HELD_OUT_PERCENT, held_out_names

SPLITS = st.sampled_from(stream.SPLITS)
SEEDS = st.integers(0, 2**40)


@pytest.mark.parametrize("lang", LANGS)
def test_lexicon_has_every_concept(lang: str) -> None:
    lexicon = load(lang)
    for section in ("noun", "verb", "adjective", "place", "role", "time"):
        missing = set(WORLD[section]) - set(lexicon[section])
        assert not missing, (section, missing)
    if lang == "ru":
        for section in ("first", "last", "bank"):
            assert set(WORLD[section]) == set(lexicon[section])


def test_antonyms_are_mutual() -> None:
    for section in ("verb", "adjective"):
        for concept, row in WORLD[section].items():
            if row["antonym"]:
                assert WORLD[section][row["antonym"]]["antonym"] == concept


@given(seed=SEEDS, split=SPLITS, index=st.integers(0, 10**9))
def test_tags_are_iob2_and_the_same_entities_in_every_language(seed: int, split: str, index: int) -> None:
    meaning = stream.ner_meaning(seed, split, index)
    for lang in LANGS:
        tokens = render(lang, meaning)
        assert sorted(t.tag[2:] for t in tokens if t.tag[0] == "B") == entities(meaning), (lang, tokens)
        for before, token in zip([Token("", "O", True), *tokens], tokens, strict=False):
            if token.tag.startswith("I-"):
                assert before.tag[2:] == token.tag[2:], (lang, tokens)
            assert token.form
            assert not token.form.isspace()


@given(seed=SEEDS, index=st.integers(0, 10**9), lang=st.sampled_from(LANGS))
def test_sentences_are_clean_text(seed: int, index: int, lang: str) -> None:
    for meaning in stream.mono_meanings(seed, lang, index):
        text = text_of(render(lang, meaning))
        assert text[0].isupper() or text[0].isdigit()
        assert text.endswith(".")
        assert not set("\t\n%_|") & set(text)
        assert "  " not in text
        assert " ," not in text
        assert "' " not in text


@given(seed=SEEDS, index=st.integers(0, 10**9), split=SPLITS)
def test_items_depend_on_their_key_alone(seed: int, index: int, split: str) -> None:
    wanted = stream.nli_pair(seed, split, index), stream.ner_meaning(seed, split, index)
    stream.nli_pair.cache_clear()
    stream.ner_meaning.cache_clear()
    stream.ner_meaning(seed, split, index + 1)
    assert (stream.nli_pair(seed, split, index), stream.ner_meaning(seed, split, index)) == wanted


def test_tagged_and_inferred_items_are_those_of_earlier_versions() -> None:
    """Scores of the quickstart are comparable over versions only with the same rows: a renamed field changes splits."""
    items = [stream.ner_meaning(1, split, i) for split in stream.SPLITS for i in range(20)]
    pairs = [stream.nli_pair(1, split, i) for split in stream.SPLITS for i in range(20)]
    assert (digest(items) % 10**9, digest(pairs) % 10**9) == (565619660, 403466036)


def test_a_longer_stream_begins_like_a_shorter_one() -> None:
    assert list(mono("sw", 5, seed=3)) == list(mono("sw", 9, seed=3))[:5]
    assert list(mono("sw", 5, seed=3)) != list(mono("sw", 5, seed=4))
    assert list(para("de", "ru", 5, seed=3)) == list(para("de", "ru", 9, seed=3))[:5]


def test_mono_is_not_parallel() -> None:
    english = {m for i in range(200) for m in stream.mono_meanings(1, "en", i)}
    german = {m for i in range(200) for m in stream.mono_meanings(1, "de", i)}
    assert len(english & german) < 0.05 * len(english)


def test_documents_come_back_to_their_people() -> None:
    recurring = 0
    for i in range(50):
        clauses = stream.mono_meanings(1, "en", i)
        assert 4 <= len(clauses) <= 8
        mentions = Counter(n for m in clauses for n in _names(m))
        recurring += max(mentions.values()) > 1
    assert recurring >= 45


@given(seed=SEEDS, split=SPLITS, index=st.integers(0, 10**9))
def test_every_item_belongs_to_one_split(seed: int, split: str, index: int) -> None:
    for item in ((stream.ner_meaning(seed, split, index),), stream.nli_pair(seed, split, index)[:2]):
        assert [s for s in stream.SPLITS if stream.is_in_split(s, *item)] == [split]


def test_splits_share_no_sentence() -> None:
    train, dev, test = ({stream.ner_meaning(1, split, i) for i in range(1000)} for split in stream.SPLITS)
    assert not train & dev
    assert not train & test
    assert not dev & test


def _names(entity: object) -> tuple[str, ...]:
    match entity:
        case Person(first, last, show):
            return {"full": (first, last), "first": (first,), "last": (last,)}[show]
        case Org() | Place():
            return (entity.name,)
        case Meaning():
            places = tuple(p for p in (entity.place, entity.source) if p)
            inner = (_names(part) for part in (entity.agent, entity.other, entity.said))
            return sum(inner, places)
    return ()


def test_held_out_names_are_not_in_train_and_half_of_test() -> None:
    held = held_out_names()
    everything = {n.lower() for s in ("first", "last", "brand", "bank", "place") for n in WORLD[s]}
    assert abs(100 * len(held) / len(everything) - HELD_OUT_PERCENT) < 1
    train = [n.lower() for i in range(1000) for n in _names(stream.ner_meaning(1, "train", i))]
    assert not held & set(train)
    for split in ("dev", "test"):
        names = [n.lower() for i in range(1000) for n in _names(stream.ner_meaning(1, split, i))]
        share = 100 * sum(n in held for n in names) / len(names)
        assert abs(share - HELD_OUT_DRAW_PERCENT) < 5


def test_one_surface_form_has_several_types() -> None:
    types: dict[str, set[str]] = {}
    for i in range(2500):
        for form, tag in ((t.form, t.tag) for t in render("en", stream.ner_meaning(1, "test", i))):
            types.setdefault(form, set()).add(tag)
    ambiguous = [form for form, tags in types.items() if len({t[2:] for t in tags if t != "O"}) > 1]
    assert len(ambiguous) >= 10
    assert {"B-PER", "B-LOC"} <= types["Washington"] | types["Jordan"] | types["Houston"]
    assert {"B-ORG", "B-LOC"} <= types["Madrid"] | types["Moscow"]


def test_dictionaries_hold_single_words_of_every_kind() -> None:
    pairs = dictionary("en", "sw")
    assert {("car", "gari"), ("cars", "magari"), ("bought", "alinunua"), ("two", "mbili")} <= set(pairs)
    assert ("expensive", "teuer") in dictionary("en", "de")
    assert ("köpek", "собака") in dictionary("tr", "ru")
    assert all(" " not in word for pair in dictionary("en", "fr") for word in pair)


@pytest.mark.parametrize("lang", ["xx", "enn", ""])
def test_unknown_language_is_a_user_error(lang: str) -> None:
    for call in (
        lambda: render(lang, Meaning("rain", place="paris")),
        lambda: dictionary("en", lang),
        lambda: run(ToyworldConfig(langs=("en", lang))),
    ):
        with pytest.raises(UserError, match="unknown toyworld language"):
            call()


def test_negative_amount_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="num_docs=-1"):
        run(ToyworldConfig(out=str(tmp_path / "out"), num_docs=-1))


def test_run_publishes_what_it_counts(tmp_path: Path) -> None:
    cfg = ToyworldConfig(out=str(tmp_path / "out"), num_docs=6, num_pairs=5, num_ner=8, num_nli=10)
    counts = run(cfg)
    out = Path(cfg.out)
    assert verify(out).counts == counts
    assert "SYNTHETIC" in (out / "README.txt").read_text()
    for lang in LANGS:
        assert (out / f"mono/{lang}.txt").read_text().count("\n\n") == counts[f"mono/{lang}"] == 6
        for split, num_ner, num_nli in (("train", 8, 10), ("dev", 2, 2), ("test", 2, 2)):
            tagged = (out / f"ner/{lang}.{split}.tsv").read_text()
            assert tagged.count("\n\n") == counts[f"ner/{lang}.{split}"] == num_ner
            rows = (out / f"nli/{lang}.{split}.tsv").read_text().splitlines()
            assert rows[0] == "premise\thypothesis\tlabel"
            assert len(rows) - 1 == counts[f"nli/{lang}.{split}"] == num_nli
    for lang in LANGS[1:]:
        for code in ("en", lang):
            assert (out / f"para/en-{lang}.{code}").read_text().count("\n") == counts[f"para/en-{lang}"] == 5
        lines = (out / f"dict/en-{lang}.tsv").read_text().splitlines()
        assert len(lines) == counts[f"dict/en-{lang}"]
    before = (out / "manifest.json").stat().st_mtime_ns
    assert run(cfg) == counts
    assert (out / "manifest.json").stat().st_mtime_ns == before


def test_streams_agree_with_the_grammar() -> None:
    tagged = next(ner("fr", "test", 1, seed=1))
    assert tagged == [(t.form, t.tag) for t in render("fr", stream.ner_meaning(1, "test", 0))]
    premise, hypothesis, label = next(nli("tr", "dev", 1, seed=1))
    wanted = stream.nli_pair(1, "dev", 0)
    assert (premise, hypothesis) == tuple(text_of(render("tr", m)) for m in wanted[:2])
    assert label == wanted[2]
