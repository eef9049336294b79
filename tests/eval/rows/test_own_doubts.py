"""Own files that look as if they held something else: what is refused, and which message is printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.eval.rows.test_own_files import rows_of, suite_of, written
from xling.core.errors import UserError
from xling.core.settings.config import from_dict
from xling.eval.rows import own
from xling.eval.rows.own_files import OwnFiles


def test_labels_written_as_lists_or_with_unseen_characters_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "text,label\none,\"['x', 'y']\"\ntwo,['x']\nthree,x\nfour,x\u200b\n"
    suite_of("classes", written(tmp_path, "en.test.csv", text))
    out = capsys.readouterr().err
    assert "labels that are written as lists, each a class of its own: ['x', 'y'], ['x']" in out
    assert "labels that differ by case, blanks or the form of accents alone: x, x\u200b" in out


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("moja\tone\nmbili\ttwo\n", "tatu\tthree\nnne\tfour\n", "has rows of a table"),
        ('{"sw": "moja", "en": "one"}\n', '{"sw": "mbili", "en": "two"}\n', "has rows of a table"),
        ('<doc id="1">\n<seg id="1"> moja </seg>\n', "one\ntwo\n", "has markup"),
        ("<refset>\nmoja\n", "one\ntwo\n", "has markup"),
    ],
)
def test_tables_and_markup_are_no_line_aligned_texts(
    tmp_path: Path, first: str, second: str, message: str
) -> None:
    files = [written(tmp_path, name, text) for name, text in (("a", first), ("b", second))]
    with pytest.raises(UserError, match=f"a {message}, and is one of two line-aligned files"):
        own.define(from_dict(OwnFiles, {"retrieval": files, "test": {"sw-en": files}}), "en", "test")


def test_translations_that_stand_in_several_rows_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [written(tmp_path, "x.sw", "a\nb\na\nd\n"), written(tmp_path, "x.en", "q\nr\ns\nq\n")]
    suite_of("retrieval", *files)
    assert (
        "2 of 4 test rows in sw-en have a translation that stands in another row" in capsys.readouterr().err
    )
    suite_of("mt", *files)
    assert "stands in another row" not in capsys.readouterr().err


def test_a_column_with_the_language_or_split_of_all_rows_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = "language\tsplit\ttext\tlabel\nsw\ttrain\ta\tx\nsw\ttrain\tb\ty\n"
    suite_of("classes", written(tmp_path, "en.test.tsv", table))
    assert "not read: language, split; language is sw in all rows; split is train in all rows" in (
        capsys.readouterr().err
    )
    rows = [{"text": t, "label": t, "lang": "sw"} for t in "ab"]
    suite_of("classes", written(tmp_path, "en.test.jsonl", "".join(json.dumps(row) + "\n" for row in rows)))
    assert "not read: lang; lang is sw in all rows" in capsys.readouterr().err


def test_a_pointer_of_git_lfs_is_no_text(tmp_path: Path) -> None:
    text = "version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 12345\n"
    with pytest.raises(
        UserError, match="is a pointer of Git LFS, for which `git lfs pull` fetches the file, not text"
    ):
        suite_of("tags", written(tmp_path, "en.test.conll", text))


def test_marks_that_programs_leave_in_texts_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [
        written(tmp_path, "x.sw", "ha@@ bari\nmail@@home.org\n\u2581habari \u2581yako\nsawa\n"),
        written(tmp_path, "x.en", "hello\nit &apos;s\nhow are you\nAT&T;\n"),
    ]
    suite = suite_of("retrieval", *files)
    assert rows_of(suite, "sw-en")[0].fields["text_a"] == "ha@@ bari"
    assert capsys.readouterr().err.count("read as they are") == 3
    suite_of("retrieval", *[written(tmp_path, name, "a @@\nb\n") for name in ("y.sw", "y.en")])
    assert "read as they are" not in capsys.readouterr().err


def test_texts_that_a_database_had_none_for_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite_of("classes", written(tmp_path, "a.tsv", "text\tlabel\na b\tx\n\\N\ty\nNULL\tx\nno NULL\ty\n"))
    assert "2 with no text (NULL), read as they are" in capsys.readouterr().err
