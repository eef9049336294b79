"""Own tables of classes: what their columns and labels may mean besides, which is asked or told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.eval.rows.test_own_files import rows_of, suite_of, written
from xling.core.errors import UserError


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.tsv", "text\tlabel\tlang\na\tx\ten\nb\ty\tsw\n", "column 'lang' has rows of 2 languages: en, sw"),
        ("a.csv", "text,label,Split\na,x,train\nb,y,test\n", "column 'Split' has rows of 2 splits: test, train"),
        ("a.jsonl", '{"text":"a","label":"x","language":"en"}\n{"text":"b","label":"y","language":"fr"}\n',
         "column 'language' has rows of 2 languages"),
        ("a.csv", "text,text,label\na,b,x\nc,d,y\n", "2 columns are called 'text'"),
    ],
)  # fmt: skip
def test_what_one_table_mixes_is_asked(tmp_path: Path, name: str, text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        suite_of("classes", written(tmp_path, name, text))
    rest = text.replace("sw\n", "en\n").replace("train", "test").replace('"fr"', '"en"')
    if "text,text" not in text:
        assert suite_of("classes", written(tmp_path, name, rest)).labels == ("x", "y")


def test_a_tab_may_stand_behind_a_label_of_fasttext(tmp_path: Path) -> None:
    suite = suite_of("classes", written(tmp_path, "a.txt", "__label__x\ta b\n__label__y c d\n"))
    assert [(row.fields["text"], row.label) for row in rows_of(suite)] == [("a b", "x"), ("c d", "y")]


def test_labels_that_seem_to_be_others_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = "".join(f"a{i}\t{label}\n" for i, label in enumerate(("1", "1.0", "NaN", "b", "b,c", "c")))
    suite_of("classes", written(tmp_path, "a.tsv", "text\tlabel\n" + lines))
    told = capsys.readouterr().err
    assert "the same number: 1, 1.0" in told and "1 rows have the label 'NaN'" in told
    assert "labels with several others in them, each a class of its own: b,c" in told


def test_rows_of_one_label_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite_of("classes", written(tmp_path, "a.tsv", "text\tlabel\na\tx\nb\tx\n"))
    assert "all rows have one label: nothing can be learned" in capsys.readouterr().err
    suite_of("classes", written(tmp_path, "b.tsv", "text\tlabel\na\tx\nb\ty\n"))
    assert "all rows have one label" not in capsys.readouterr().err


def test_half_of_a_character_in_json_is_an_unknown_one(tmp_path: Path) -> None:
    lines = '{"text": "a \\uD83d b \\ud83d\\ude00", "label": "x"}\n{"text": "c \\\\ud83d", "label": "y"}\n'
    suite = suite_of("classes", written(tmp_path, "a.jsonl", lines))
    assert [row.fields["text"] for row in rows_of(suite)] == ["a \ufffd b \U0001f600", "c \\ud83d"]


def test_a_text_that_stands_for_a_label_does_not_fill_the_screen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite_of("classes", written(tmp_path, "a.tsv", f"text\tlabel\na\t{'x' * 9000}\nb\ty\n"))
    assert f"2 labels: {'x' * 60}... (1), y (1)" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    ['{"text": {"0": "a", "1": "b"}, "label": {"0": "x", "1": "y"}}', '{"text": ["a"], "label": ["x"]}'],
)
def test_columns_of_pandas_are_refused_with_what_writes_rows(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match=r"to_json\(FILE, orient='records', lines=True\)"):
        suite_of("classes", written(tmp_path, "a.json", text + "\n"))
