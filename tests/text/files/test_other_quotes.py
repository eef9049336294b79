"""Tables whose quotes are not those of RFC 4180, and tables of one column."""

from __future__ import annotations

import pytest

from xling.corpora.common.columns import open_rows
from xling.text.files.delimited import Rows

TEXTS = [f'He said "{word}" to me; it\'s late, no?' for word in ("yes", "no", "well", "hm", "oh", "ah")]


@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t"])
def test_backslashes_before_quotes(delimiter: str) -> None:
    lines = [f'"{text.replace(chr(34), chr(92) + chr(34))}"{delimiter}"{i}"' for i, text in enumerate(TEXTS)]
    assert [row.cells for row in Rows(iter(lines), delimiter)] == [
        (text, str(i)) for i, text in enumerate(TEXTS)
    ]


@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t"])
def test_single_quotes(delimiter: str) -> None:
    lines = [f"'{text.replace(chr(39), chr(39) * 2)}'{delimiter}'{i}'" for i, text in enumerate(TEXTS)]
    rows = [row.cells for row in Rows(iter(["en" + delimiter + "sw", *lines]), delimiter)][1:]
    assert [cells for cells in rows if cells] == [(t, str(i)) for i, t in enumerate(TEXTS)]


def test_quotes_of_the_text_stay() -> None:
    lines = ["'tis late,yes", "he said 'no','well'", 'a backslash \\" here,b', "a,b", "c,d", "'e','f'"]
    assert [row.cells for row in Rows(iter(lines), ",")] == [tuple(line.split(",")) for line in lines]


def test_a_comma_in_a_table_of_one_column_is_text() -> None:
    lines = ["text", "One, two, three.", '"Four, ""five"""', "six"]
    rows = open_rows(iter(lines), "csv:a.csv", "", [], lambda names: [0], ())
    assert [row.cells for row in rows] == [("One, two, three.",), ('Four, "five"',), ("six",)]
