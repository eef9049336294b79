"""Rows of taggers as WikiANN's original files write them: the language stands before each word."""

from __future__ import annotations

import gzip
import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from xling.core.errors import UserError
from xling.eval.rows.readers import columns
from xling.eval.rows.suite import Example, Suite, SuiteFile, load, suites
from xling.eval.rows.wikiann import without_language_marks

MARKED = "{0}:Peter\tB-PER\n{0}:,\tO\n{0}::\tO\n{0}:(\tO\n{0}:12:30\tO\n\n{0}:Nairobi\tB-LOC\n\n"
PLAIN = "Peter\tB-PER\n,\tO\n:\tO\n(\tO\n12:30\tO\n\nNairobi\tB-LOC\n\n"
WORDS = [("Peter", ",", ":", "(", "12:30"), ("Nairobi",)]


def read(
    suite: Suite, lang: str, folder: Path, text: str, name: str = "ner/panx/{}.dev.tsv"
) -> list[Example]:
    path = folder / name.format(lang)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return load(replace(suite, files=()), lang, "dev", folder)


@pytest.mark.parametrize("mark", ["sw", "ceb", "zh-min-nan", "be-x-old", "simple"])
def test_the_language_before_the_words_is_left_out_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mark: str
) -> None:
    rows = read(suites()["panx"], "sw", tmp_path, MARKED.format(mark))
    assert [row.fields["tokens"] for row in rows] == WORDS
    assert [row.label for row in rows] == [("B-PER", "O", "O", "O", "O"), ("B-LOC",)]
    assert f"in 2 of 2 sentences each word begins with {mark}: as in WikiANN's" in capsys.readouterr().err


def test_it_is_told_once_however_the_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [Example("0", {"tokens": ("sw:a", "sw:b")}, ("O", "O"))]
    for path in (Path("x.conll"), tmp_path / "x.conll", Path("x.conll")):
        assert without_language_marks(rows, path)[0].fields["tokens"] == ("a", "b")
    assert capsys.readouterr().err.count("it is left out") == 1
    without_language_marks(rows * 2, Path("x.conll"))
    assert "x.conll: in 2 of 2 sentences each word begins with sw: as" in capsys.readouterr().err


def test_files_of_both_kinds_and_of_several_languages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = MARKED.format("sw") + PLAIN + MARKED.format("lg")
    rows = read(suites()["panx"], "sw", tmp_path, text)
    assert [row.fields["tokens"] for row in rows] == WORDS * 3
    assert "in 4 of 6 sentences each word begins with lg: sw: as" in capsys.readouterr().err


@pytest.mark.parametrize(
    "tokens",
    [("12:30", "a"), ("en:Peter", "came"), ("de:x",), ("http://a", "http://b"), ("ftp://a", "ftp://b"), ()],
)
def test_words_that_only_look_so_stay(tokens: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    rows = [Example("0", {"tokens": tokens}, ("O",) * len(tokens))]
    assert without_language_marks(rows, Path("x")) == rows and not capsys.readouterr().err


@pytest.mark.parametrize("name", ["uner", "masakhaner", "conll"])
def test_every_suite_of_tags_reads_it(tmp_path: Path, name: str) -> None:
    suite = replace(
        suites()[name],
        files=(),
        reader=columns(),
        patterns=("x/{lang}.{split}.tsv.gz",),
        codes={},
        split_codes={},
    )
    rows = read(suite, "sw", tmp_path, MARKED.format("sw"), "x/{}.dev.tsv.gz")
    assert [row.fields["tokens"] for row in rows] == WORDS


def test_rows_in_our_own_format_are_read_too(tmp_path: Path) -> None:
    lines = [
        json.dumps({"id": "1", "fields": {"tokens": ["sw:a", "sw:b"]}, "label": ["O", "B-PER"]}),
        json.dumps({"id": "2", "fields": {"tokens": ["a", "b"]}, "label": ["O", "O"]}),
    ]
    rows = read(suites()["panx"], "sw", tmp_path, "\n".join(lines), "rows/panx/{}.dev.jsonl")
    assert [row.fields["tokens"] for row in rows] == [("a", "b")] * 2


@pytest.mark.parametrize("mark", ["sw", "zh-min-nan"])
def test_the_original_of_a_recorded_file_is_read_at_its_place(tmp_path: Path, mark: str) -> None:
    """Another file there is still refused, also one in which a line lacks the language or a word differs."""
    recorded = SuiteFile("sw", "dev", "ner/panx/sw.dev.tsv", 2, hashlib.sha256(PLAIN.encode()).hexdigest())
    suite, path = replace(suites()["panx"], files=(recorded,)), tmp_path / "ner/panx/sw.dev.tsv"
    path.parent.mkdir(parents=True)
    path.write_text(MARKED.format(mark), encoding="utf-8")
    assert [row.fields["tokens"] for row in load(suite, "sw", "dev", tmp_path)] == WORDS
    for changed in (MARKED.format(mark).replace(f"{mark}:,", ","), MARKED.format(mark).replace("P", "Q", 1)):
        path.write_text(changed, encoding="utf-8")
        with pytest.raises(UserError, match="another file than the one recorded"):
            load(suite, "sw", "dev", tmp_path)
