"""CSV files that a spreadsheet opens, and names that hold HTML or control characters in reports."""

import csv
import io

import pytest

from xling.eval.report.stage import _commands_markdown
from xling.eval.tables import render
from xling.eval.tables.score_table import Cell, Line, ScoreTable
from xling.pages import page, tabular
from xling.pages.tabular import Table, csv_text, show_controls

NAME = '<script>alert("1")</script>\x1b[2J'


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+cmd", "-cmd|x", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1", "=HYPERLINK(1)", "-1+2", "\ufeff=1"],
)
def test_formulas_become_text(text):
    assert csv_text(text) == f"'{text}"


@pytest.mark.parametrize("text", ["-1", "+1.5", "-1.5e-3", "-", "a=b", "1-2", "", "-12 %", "x@y"])
def test_numbers_and_other_texts_stay(text):
    assert csv_text(text) == text


def read_back(text):
    return list(csv.reader(io.StringIO(text)))


def test_tables_as_csv():
    table = Table("t", "T", (("=a", ""), ("n", ".1f")), (("=1", -2.5), ("b\x1b", None), ("-3", -4)))
    assert read_back(tabular.to_csv(table)) == [["'=a", "n"], ["'=1", "-2.5"], ["b␛", ""], ["-3", "-4"]]


def test_tables_as_latex():
    table = Table("t", "T\x1b", (("a\x1b", ""),), (("b\x9b\u202e",),), ("n\x07",))
    assert not set("\x1b\x9b\u202e\x07") & set(tabular.to_latex(table))
    score_table = ScoreTable(NAME, ((NAME, 1),), (NAME,), (Line(NAME, "lang", (Cell(1.0),)),), (NAME,))
    assert "\x1b" not in render.latex_table(score_table)


def test_score_tables_with_hostile_names():
    table = ScoreTable(
        NAME,
        ((NAME, 1),),
        ("=run|x\n",),
        (Line(NAME, "lang", (Cell(-1.0),)), Line("@x", "summary", (Cell(2.0),))),
        (NAME,),
    )
    rows = read_back(render.comma_separated(table))
    assert [row[1] for row in rows[1:]] == ['<script>alert("1")</script>␛[2J', "'@x"]
    assert rows[0][2].startswith("'=run") or "=run" in rows[0][2][1:]
    assert rows[1][2] == "-1.0"
    markdown = render.markdown_table(table)
    assert "<script" not in markdown
    assert all(line.count("|") - line.count("\\|") in (0, 3) for line in markdown.split("\n"))
    section = _commands_markdown(NAME + "\n# x", ["xling eval 'a\n```\n<script>'"])
    assert section.startswith("### &lt;script>")
    assert section.split("\n")[0].endswith("# x")
    assert section.split("\n")[2] == "````sh"
    assert section.endswith("\n````")


def test_pages_have_no_control_characters():
    assert show_controls("run\u202egpj.\u2066x\u2069\u200f") == "run[U+202E]gpj.[U+2066]x[U+2069]\u200f"
    assert show_controls("a\x00b\x1bc\x7fd\x9be\nf\tg") == "a␀b␛c␡d\ufffde\nf\tg"
    assert "\x1b" not in page.html_document(NAME, "<p>\x1b[2J</p>")
