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
        (["sport\tthe match was won"] * 9, "most lines hold whole texts; .*classes="),
        (["the match was won\tsport"] * 9, "most lines hold whole texts; .*classes="),
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


WORDS = [word for word, _ in SENTENCE]
SECOND = ("Juma", "B-PER")
BY_LINE = {
    "joined by slashes": "Amina/B-PER Mwangi/I-PER arrived/O Monday/B-DATE\nJuma/B-PER\n",
    "joined by slashes, a word a line": "Amina/B-PER\nMwangi/I-PER\narrived/O\nMonday/B-DATE\n\nJuma/B-PER\n",
    "joined by low lines": "Amina_B-PER Mwangi_I-PER arrived_O Monday_B-DATE\n\nJuma_B-PER\n",
    "WikiNER": "Amina|NOM|I-PER Mwangi|NOM|I-PER arrived|V|O Monday|NOM|I-DATE\nJuma|NOM|I-PER\n",
    "tags below the words": "Amina Mwangi arrived Monday\nB-PER I-PER O B-DATE\n\nJuma\nB-PER\n",
    "lists of Python": "words,ner_tags\n"
    f"\"{WORDS}\",\"{list(TAGS)}\"\n\"['Juma', 'ate']\",\"['B-PER', 'O']\"\n\"['Juma']\",\"['B-PER']\"\n",
}


@pytest.mark.parametrize("text", BY_LINE.values(), ids=BY_LINE.keys())
def test_a_line_may_have_a_whole_sentence(tmp_path: Path, text: str) -> None:
    suite = suite_of("tags", written(tmp_path, "en.test.txt", text))
    rows = [(row.fields["tokens"], row.label) for row in rows_of(suite)]
    assert rows[0] == (tuple(WORDS), TAGS) and rows[-1] == (("Juma",), ("B-PER",))


def test_the_sign_between_word_and_tag_may_stand_in_the_word(tmp_path: Path) -> None:
    suite = suite_of("tags", written(tmp_path, "en.test.txt", "1/2/NUM of/ADP ///PUNCT\nand/or/CCONJ\n"))
    assert [row.fields["tokens"] for row in rows_of(suite)] == [("1/2", "of", "//"), ("and/or",)]
    addresses = "a/b NOUN\nc/d NOUN\n"
    assert suite_of("tags", written(tmp_path, "sw.test.txt", addresses)).labels == ("NOUN",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<PER>Amina</PER> ate\n", "'</PER>' marks a span in running text"),
        ("[PER Amina Mwangi] ate\n", "marks a span in running text"),
        ("Amina B-PER|B-ORG\nate O\n", r":1: tag 'B-PER\|B-ORG' has several tags"),
        ("Amina O\nate B-PER+O\n", ":2: tag .* has several tags"),
    ],
)
def test_marks_that_no_column_has_are_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        suite_of("tags", written(tmp_path, "en.test.txt", text))
