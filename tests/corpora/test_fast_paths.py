"""Shortcuts of routing a crawl: each gives what the plain way gives, to the last bit."""

from __future__ import annotations

import unicodedata
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from tests.corpora.langid.test_identify import texts
from xling.corpora.builtin.limits import Limits
from xling.corpora.langid import identify, ngrams, py3langid_model
from xling.corpora.sources.source import paragraphs
from xling.corpora.stages import filters, pii
from xling.corpora.stages import near_duplicates as near
from xling.corpora.stages.blocklist import _host
from xling.text.words import units as units_module
from xling.text.words.units import count_units, split_units

_LINES = st.lists(st.text("ab.é中 -/", max_size=130), max_size=30).map("\n".join)


_ANY = st.characters(exclude_characters="\x85\xa0")


@given(st.text(_ANY) | st.text("a \t\n\r\x0b\x1c\u2028\u3000"))
def test_paragraphs_are_the_stripped_lines(text: str) -> None:
    lines = [line.strip() for line in text.splitlines()]
    assert paragraphs(text) == "\n".join(line for line in lines if line)


@given(st.characters(min_codepoint=0xC2, max_codepoint=0xF4), st.sampled_from("\x85\xa0"), st.text("a \n"))
def test_bytes_of_letters_that_were_read_as_latin_1_are_no_line_ends(lead: str, byte: str, rest: str) -> None:
    lines = [line.strip(" ") for line in f"{lead}{byte}{rest}".split("\n")]
    assert paragraphs(lead + byte + rest) == "\n".join(line for line in lines if line)


@given(_LINES)
def test_the_body_is_that_of_all_lines_by_length(text: str) -> None:
    body = identify._longest_lines(text.split("\n"))[: identify.MAX_CHARS]
    is_short = len(text) <= identify.MAX_CHARS or "\n" not in text
    expected = unicodedata.normalize("NFC", (text if is_short else body).replace("\n", " ").lower())
    assert identify.body_of(text) == expected[: len(expected) if not is_short else identify.MAX_CHARS]


@given(_LINES)
def test_long_lines_are_those_over_the_limit(text: str) -> None:
    expected = [line for line in text.split("\n") if len(line) > identify._LONG_LINE]
    assert identify._long_lines(text) == expected


def test_second_opinions_are_those_of_the_library() -> None:
    ours, theirs = py3langid_model.load(), LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    for text, ranking in zip(texts(), ours.best(texts(), 5), strict=True):
        assert ranking == theirs.rank(text)[:5], text
        assert ours.best([text], 5) == [ranking], text


def test_ngrams_of_many_texts_are_those_of_each() -> None:
    model, many = identify.built_in_ngrams(), texts()
    scores, nums = model.scores(many)
    for text, row, num in zip(many, scores, nums, strict=True):
        hashes = np.concatenate([np.zeros(0, dtype=np.uint32), *ngrams.grams(text).values()])
        assert num == len(hashes), text
        assert (row == model.gains(hashes).sum(axis=0, dtype=np.float64) / max(1, len(hashes))).all(), text


@given(st.text() | st.text("aB9½一中,İIΣΑσ\u0301\u0e01\u0e31 \n_\u200d²Σ", max_size=60))
def test_units_are_counted_as_they_are_made(text: str) -> None:
    made, counted = split_units(text), count_units(text)
    assert counted.lengths.tolist() == [len(unit) for unit in made]
    assert counted.num_numeric == sum(map(str.isnumeric, made))
    hashes = counted.hashes.tolist()
    assert len(set(zip(made, hashes, strict=True))) == len(set(made)) == len(set(hashes))


def test_hosts_of_plain_and_odd_addresses() -> None:
    hosts = {"a.example/x:y@z": "a.example", "a.example": "a.example", "a-b.c?d": "a-b.c", "a.c#d": "a.c"}
    hosts |= {
        "a.example:80/": "a.example",
        "me@b.example/": "b.example",
        "[::1/": "[::1",
        "münchen.de/": "münchen.de",
    }
    assert {address: _host(address) for address in hosts} == hosts


@given(st.text("1٣𝟗:.a -()\u00a0", max_size=14))
def test_what_may_be_personal_is_what_either_pattern_finds(text: str) -> None:
    either = pii._MAYBE_IP.search(text) or pii._MAYBE_PHONE.search(text)
    assert bool(pii._maybe_private().search(text)) == bool(either)


def _share_of_runs(words: list[str], n: int) -> float:
    """Return the share of characters that runs of ``n`` words cover which occurred before, one run at a time."""
    seen, covered = set[tuple[str, ...]](), set[int]()
    for i in range(len(words) - n + 1):
        run = tuple(words[i : i + n])
        covered |= set(range(i, i + n)) if run in seen else set()
        seen.add(run)
    return sum(len(words[i]) for i in covered) / len("".join(words))


@given(
    st.lists(
        st.sampled_from(["a", "bb", "ccc", "b c a", "a bb a bb a ccc bb a a bb ccc"]), min_size=1, max_size=40
    )
)
def test_repetition_is_that_of_runs_compared_one_by_one(parts: list[str]) -> None:
    text = " ".join(parts)
    words = text.split()
    values = filters.measure(text, Limits())
    for n, name in ((2, "top_bigram"), (3, "top_trigram"), (4, "top_fourgram")):
        counts = Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
        run, num = counts.most_common(1)[0] if counts else ((), 0)
        assert values[name] == (num * len("".join(run)) / len("".join(words)) if num > 1 else 0)
    shares = [(n, _share_of_runs(words, n)) for n in range(5, 11)]
    assert values["repeated_runs"] == max(share + (n - 5) / 100 if share else 0.0 for n, share in shares)


def test_shingles_do_not_depend_on_how_letters_are_composed() -> None:
    words = "Der Fluß überschwemmte die Wiesen, später kamen Störche"
    composed, parts = (
        near.shingles(unicodedata.normalize(form, words), near.NearDedup()) for form in ("NFC", "NFD")
    )
    assert composed.tolist() == parts.tolist()


def test_shingles_use_the_units_that_the_filters_have_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "Kamati ya mji itakutana wiki ijayo ili kujadili mapendekezo ya maktaba"
    filters.measure(text, Limits())
    monkeypatch.setattr(units_module, "_count_units", None)
    assert len(near.shingles(text, near.NearDedup())) == 7


_TEXTS = st.lists(
    st.text("ab \n中文.", max_size=60) | st.sampled_from(["", "a b a b a b", "中文" * 30]), max_size=8
)


@given(_TEXTS, st.integers(1, 40))
def test_texts_measured_together_have_the_values_that_each_has_alone(
    texts: list[str], num_units: int
) -> None:
    limits = [Limits(units_per_word=2 + i % 2) for i in range(len(texts))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filters, "_BATCH_UNITS", num_units)
        together = filters.measure_each(texts, limits)
    assert together == [filters.measure(text, limit) for text, limit in zip(texts, limits, strict=True)]
