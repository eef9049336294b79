"""Own files of words and tags that can be read in several ways: what is read, and what is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.eval.rows.test_own_files import SENTENCE, TAGS, rows_of, suite_of, written
from xling.core.errors import UserError
from xling.eval.rows.own_columns import Reading
from xling.eval.rows.own_formats import read_table


def test_a_column_numbers_the_sentences(tmp_path: Path) -> None:
    lines = "".join(f"{n};{w};{t}\n" for n in (7, 8, 9) for w, t in SENTENCE)
    suite = suite_of("tags", written(tmp_path, "en.test.csv", "sentence_id;word;tag\n" + lines))
    assert [row.label for row in rows_of(suite)] == [TAGS] * 3


def test_words_to_be_tagged_may_have_names_and_numbers_of_sentences(tmp_path: Path) -> None:
    path = written(tmp_path, "words.csv", "sentence_id,word\n1,Juma\n1,alifika\n2,Amina\n")
    found = read_table([Path(path)], Reading(("token",)))
    assert [row.cells["token"] for row in found.rows] == [("Juma", "alifika"), ("Amina",)]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["1 Aachen B-LOC O", "2 is O B-LOC"], r"which column is the tag\? .* B-LOC, stand in 3 and 4"),
        (["B-LOC 0 Aachen", "O 0 is"], r"which column is the tag\?"),
        (["Aachen 3", "is 0"], ":1: tag '3' is a number; .*scheme=plain"),
        (["Aachen LOC-B", "is O"], ":1: tag 'LOC-B' has its mark elsewhere"),
        (["Aachen B.LOC", "is O"], ":1: tag 'B.LOC' has its mark elsewhere"),
        (["Aachen B-LOC", "is O"] * 300, "one sentence of 600 words; .*blank line .*sentence_id word tag"),
    ],
)
def test_what_can_be_read_in_two_ways_is_asked(tmp_path: Path, lines: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        suite_of("tags", written(tmp_path, "en.test.conll", "\n".join(lines) + "\n"))


def test_answers_to_these_questions(tmp_path: Path) -> None:
    path = written(tmp_path, "en.test.conll", "1 Aachen B-LOC B-ORG\n2 Rome B-ORG O\n")
    assert suite_of("tags", path, columns={"tag": "3"}).labels == ("LOC", "ORG")
    assert suite_of("tags", path, columns={"tag": "4"}).labels == ("ORG",)
    numbers = written(tmp_path, "en.test.txt", "Aachen 3\nis 0\n")
    assert suite_of("tags", numbers, scheme="plain").labels == ("0", "3")
