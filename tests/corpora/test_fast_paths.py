"""Shortcuts of routing a crawl: each gives what the plain way gives, to the last bit."""

from __future__ import annotations

import unicodedata

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from tests.corpora.test_quantized import texts
from xling.corpora import identify, second_opinion
from xling.corpora.sources.source import paragraphs
from xling.corpora.stages.blocklist import _host
from xling.text.units import counted_units, units

_LINES = st.lists(st.text("ab.é中 -/", max_size=130), max_size=30).map("\n".join)


@given(st.text() | st.text("a \t\n\r\x0b\x1c\x85\u2028\u3000"))
def test_paragraphs_are_the_stripped_lines(text: str) -> None:
    lines = [line.strip() for line in text.splitlines()]
    assert paragraphs(text) == "\n".join(line for line in lines if line)


@given(_LINES)
def test_the_body_is_that_of_all_lines_by_length(text: str) -> None:
    body = identify._longest(text.split("\n"))[: identify.MAX_CHARS]
    is_short = len(text) <= identify.MAX_CHARS or "\n" not in text
    expected = unicodedata.normalize("NFC", (text if is_short else body).replace("\n", " ").lower())
    assert identify.body_of(text) == expected[: len(expected) if not is_short else identify.MAX_CHARS]


@given(_LINES)
def test_long_lines_are_those_over_the_limit(text: str) -> None:
    expected = [line for line in text.split("\n") if len(line) > identify._LONG_LINE]
    assert identify._long_lines(text) == expected


def test_second_opinions_are_those_of_the_library() -> None:
    ours, theirs = second_opinion.load(), LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    for text in texts():
        assert ours.rank(text) == theirs.rank(text), text
        assert ours.best(text, 5) == theirs.rank(text)[:5], text


def test_ngrams_of_many_texts_are_those_of_each() -> None:
    model, many = identify.built_in_ngrams(), texts()
    scores, nums = model.scores(many)
    for text, row, num in zip(many, scores, nums, strict=True):
        entries, counts, size = model._entries(text)
        sums = np.bincount(model.lang_of[entries], model.gain[entries] * counts, len(model.langs))
        assert num == size, text
        assert (row == sums / max(1, size)).all(), text


@given(st.text() | st.text("aB9½一中,\u0301\u0e01\u0e31 \n_\u200d²Σ", max_size=60))
def test_units_are_counted_as_they_are_made(text: str) -> None:
    made, counted = units(text), counted_units(text)
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
