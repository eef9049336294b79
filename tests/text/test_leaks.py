"""The index of texts that no corpus should hold: what is found, what is not, and what a damaged file says."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.core.errors import UserError
from xling.core.sampling import rng
from xling.text import leaks
from xling.text.leaks import Entry, Leaks
from xling.text.words.units import hash_units, split_units

WORDS = [f"{a}{b}{c}" for a in "bdkmst" for b in "aeiou" for c in "lnr"]
LONG_ROWS = 40


def sentence(*key: object, length: int = 24) -> list[str]:
    return [WORDS[i] for i in rng("leaks", *key).integers(len(WORDS), size=length)]


def index() -> Leaks:
    long = [Entry("xnli de test text_a", " ".join(sentence("row", i))) for i in range(LONG_ROWS)]
    short = [Entry("panx af dev tokens", f"Kaap die {WORDS[i]}") for i in range(20)]
    again = [Entry("xnli de test text_b", " ".join(sentence("row", 3)).title() + "!")]
    return Leaks.build([*long, *short, *again, Entry("panx af dev tokens", "?!")])


def held(text: str) -> set[tuple[str, int]]:
    """The groups of what is found and the number of each row: the long rows come first, then the short ones."""
    made = index()
    return {(group, row) for row in made.find(text).tolist() for group in made.groups_of([row])}


@given(st.text("aB\u0301é茶中ไก่, .\n-1\u200dहि", max_size=40))
def test_units_are_those_that_are_hashed(text: str) -> None:
    composed = unicodedata.normalize("NFC", text)
    hashes, lines = hash_units(text)
    assert len(hashes) == len(lines) == len(split_units(composed))
    number = dict(zip(split_units(composed), hashes.tolist(), strict=True))
    assert [number[unit] for unit in split_units(composed)] == hashes.tolist()
    assert len(set(number.values())) == len(number)
    in_lines = [split_units(line) for line in composed.split("\n")]
    assert [i for i, line in enumerate(in_lines) for _ in line] == lines.tolist()


def test_a_row_is_found_anywhere_and_under_all_its_names() -> None:
    before, after = (" ".join(sentence(name, length=200)) for name in ("before", "after"))
    row = " ".join(sentence("row", 3))
    both = {("xnli de test text_a", 3), ("xnli de test text_b", 3)}
    assert held(f"{before}, {row.upper()}! {after}") == both
    assert held(row) == both
    assert held(before + after) == set()
    assert held("") == held("?!") == set()
    assert index().groups_of(index().find(row).tolist()) == ["xnli de test text_a", "xnli de test text_b"]


@pytest.mark.parametrize("first", range(6))
def test_a_row_with_each_sixth_word_replaced_is_found(first: int) -> None:
    for i in range(LONG_ROWS):
        words = [w if place % 6 != first else "other" for place, w in enumerate(sentence("row", i))]
        assert ("xnli de test text_a", i) in held(f"A b c. {' '.join(words)}. D e f.")
        half = [w if place % 2 else "other" for place, w in enumerate(sentence("row", i))]
        assert held(" ".join(half)) == set()


def test_a_short_row_counts_as_a_line_and_in_company() -> None:
    one, two = f"Kaap die {WORDS[1]}", f"Kaap die {WORDS[2]}"
    found = {("panx af dev tokens", LONG_ROWS + 1), ("panx af dev tokens", LONG_ROWS + 2)}
    assert held(f"x y\n{one}.\nz\n«{two}»") == found
    assert held(f"x y\n{one}\nz") == set(), "alone it is a common line"
    assert held(f"x {one}\n{two} z") == set(), "part of a line"
    row = " ".join(sentence("row", 3))
    assert held(f"{one}\n{row}") == held(row), "a row of another test is no company"


def test_a_line_of_six_words_may_have_another_one() -> None:
    rows = [" ".join(sentence("six", i, length=6 + i % 2)) for i in range(8)]
    made = Leaks.build([Entry("g", row) for row in rows])
    for place in range(6):
        lines = [" ".join("other" if i == place else w for i, w in enumerate(row.split())) for row in rows]
        assert made.find("\n".join(lines)).tolist() == list(range(8))
    twice = [" ".join("other" if i in (1, 4) else w for i, w in enumerate(row.split())) for row in rows]
    assert made.find("\n".join(twice)).tolist() == []


def test_texts_beside_each_other_are_told_apart() -> None:
    made = index()
    row = " ".join(sentence("row", 3))
    texts = [
        "a b",
        f"x {row}",
        "c\nd",
        f"Kaap die {WORDS[1]}",
        *["e"] * leaks.NEIGHBOURS,
        f"Kaap die {WORDS[2]}",
    ]
    assert made.find_in(texts) == [(1, 3)]
    near = ["a", f"Kaap die {WORDS[1]}", f"Kaap die {WORDS[2]}"]
    assert [place for place, _ in made.find_in(near)] == [1, 2]
    assert made.find_in([]) == made.find_in([""]) == []


def test_phrases_of_many_rows_do_not_hide_them() -> None:
    phrase = " ".join(sentence("phrase", length=6))
    rows = [
        Entry("g", f"{phrase} {' '.join(sentence('own', i, length=10))}")
        for i in range(leaks.MAX_ROWS_PER_RUN + 5)
    ]
    made = Leaks.build(rows)
    assert made.find(f"so {phrase} it is").tolist() == []
    assert made.find(rows[9].text).tolist() == [9]


def test_an_index_is_written_and_read(tmp_path: Path) -> None:
    made = index()
    made.write(tmp_path)
    again = leaks.read(tmp_path)
    for name in leaks.ARRAY_NAMES:
        assert np.array_equal(getattr(made, name), getattr(again, name))
    assert again.groups == made.groups
    with pytest.raises(UserError, match=r"no index of test rows at .*none; fix: xling eval leaks"):
        leaks.read(tmp_path / "none")
    (tmp_path / leaks.FILE_NAME).write_bytes(b"PK\x03\x04 torn")
    with pytest.raises(UserError, match="is not an index of test rows"):
        leaks.read(tmp_path)


def test_nothing_to_look_for_is_never_found() -> None:
    assert Leaks.build([]).find("a b c d e f g h i j").tolist() == []
