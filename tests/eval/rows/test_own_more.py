"""Own files as R, spaCy, OntoNotes, Universal Dependencies and Windows leave them."""

from __future__ import annotations

from pathlib import Path

import pytest

from xling.core.errors import UserError
from xling.eval.rows.own import define
from xling.eval.rows.own_files import OwnFiles, resolved


def rows_of(path: Path, kind: str) -> list[tuple[object, object]]:
    suite = define(OwnFiles(**{kind: (str(path),)}), "en", "test")
    (paths,) = suite.own.values()
    return [(example.fields, example.label) for _, _, example in suite.reader(paths)]


@pytest.mark.parametrize(
    "text", ['"text","label"\n"1","a b","pos"\n"2","c","neg"\n', "text\tlabel\n1\ta b\tpos\n2\tc\tneg\n"]
)
def test_r_names_no_column_for_the_numbers_of_rows(tmp_path: Path, text: str) -> None:
    (tmp_path / "sw.test.csv").write_text(text)
    assert rows_of(tmp_path / "sw.test.csv", "classes") == [({"text": "a b"}, "pos"), ({"text": "c"}, "neg")]


def test_a_row_with_fewer_cells_is_no_header_of_r(tmp_path: Path) -> None:
    (tmp_path / "sw.test.tsv").write_text("u\tv\n1\ta b\tpos\n2\tc\tneg\n3\td\tneg\n")
    with pytest.raises(UserError, match=":1: 2 columns by tabs"):
        rows_of(tmp_path / "sw.test.tsv", "classes")


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("tags", '["Ana vive", {"entities": [[0, 3, "PER"]]}]'),
        ("classes", '["good day", "pos"]'),
        ("pairs", '["a", "b", "yes"]'),
    ],
)  # fmt: skip
def test_lists_of_json_on_lines_are_refused(tmp_path: Path, kind: str, line: str) -> None:
    (tmp_path / "en.test.jsonl").write_text(f"{line}\n{line}\n")
    with pytest.raises(UserError, match=":1: a JSON list"):
        rows_of(tmp_path / "en.test.jsonl", kind)


def test_lines_that_begin_with_a_bracket_are_text(tmp_path: Path) -> None:
    (tmp_path / "en.test.tsv").write_text("[1] a\tx\n[2] b\ty\n[3] c\tx\n")
    assert rows_of(tmp_path / "en.test.tsv", "classes")[0] == ({"text": "[1] a"}, "x")


def test_brackets_of_conll_2012_are_no_tags(tmp_path: Path) -> None:
    (tmp_path / "en.test.conll").write_text(
        "In *\nHong (GPE*\nKong *)\nLima (GPE)\n\nok *\n".replace("(GPE)", "(GPE*)")
    )
    with pytest.raises(UserError, match=r":1: tag '\*' is a bracket of CoNLL-2012"):
        rows_of(tmp_path / "en.test.conll", "tags")
    (tmp_path / "pos.conll").write_text("( (\nso ADV\n* *\n) )\n\nok ADV\n")
    assert rows_of(tmp_path / "pos.conll", "tags")[0][1] == ("(", "ADV", "*", ")")


@pytest.mark.parametrize(
    ("labels", "told"), [(("0", "-1"), True), (("-1", "1", "2"), True), (("-1", "up"), False)]
)
def test_a_hidden_label_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], labels: tuple[str, ...], told: bool
) -> None:
    (tmp_path / "en.test.tsv").write_text("text\tlabel\n" + "".join(f"a {name}\t{name}\n" for name in labels))
    rows_of(tmp_path / "en.test.tsv", "classes")
    assert ("1 rows have the label -1: many data sets hide labels by it" in capsys.readouterr().err) == told


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("fr_gsd-ud-test.conllu", ("fr", "test")),
        ("sw_x-ud-train.conllu", ("sw", "train")),
        ("Swahili test.tsv", ("sw", "test")),
        ("sw-train (1).tsv", ("sw", "train")),
        ("test.tok.sw", ("sw", "test")),
        ("dev.src.sw", ("sw", "dev")),
        ("my_topics_test.tsv", ("en", "test")),
        ("dev.src", ("en", "dev")),
    ],
)
def test_language_and_split_of_names(tmp_path: Path, name: str, key: tuple[str, str]) -> None:
    (tmp_path / name).write_text("a\tx\n")
    assert [*resolved(OwnFiles(classes=(str(tmp_path / name),)), "classes", "en", "test")] == [key]


def test_translations_that_moses_has_tokenised_are_a_pair(tmp_path: Path) -> None:
    for lang in ("sw", "en"):
        (tmp_path / f"test.tok.{lang}").write_text("a\n")
    files = tuple(str(tmp_path / f"test.tok.{lang}") for lang in ("sw", "en"))
    assert [*resolved(OwnFiles(mt=files), "mt", "en", "test")] == [("sw-en", "test")]
