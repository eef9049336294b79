"""Tables that are made to cost memory or time: few lines are looked at first, and no row is read again and again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from xling.text.files import delimited
from xling.text.files.delimited import Rows


def test_of_long_lines_few_are_looked_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "_FIRST_CHARS", 1000)
    num_read = 0

    def lines() -> Iterator[str]:
        nonlocal num_read
        for _ in range(100):
            num_read += 1
            yield "x" * 400 + ",b"

    rows = Rows(lines(), ",")
    assert num_read == len(rows.first) == 3
    assert sum(row.cells == ("x" * 400, "b") for row in rows) == 100


@pytest.mark.parametrize("width", [0, 2, 10_000])
def test_quotes_that_open_on_every_line_are_split_few_times(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["a,b", *['x","'] * 300, '"a\nb",c']
    split, num_chars = delimited.split_row, 0

    def counted(text: str, *more: object) -> tuple[list[str], str]:
        nonlocal num_chars
        num_chars += len(text)
        return split(text, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(delimited, "split_row", counted)
    rows = Rows(iter(lines), ",")
    rows.width, num_chars = width, 0
    cells = [row.cells for row in rows]
    assert cells[0] == ("a", "b") and cells[1] is None and cells[-1] == ("a\nb", "c")
    assert num_chars < 400 * len(lines)  # 40 lines of 4 characters and a quote, twice


def test_a_row_may_have_several_cells_of_several_lines() -> None:
    rows = Rows(iter(['"a', 'b","c', 'd","e', 'f"', "1,2,3"]), ",")
    rows.width = 3
    assert [row.cells for row in rows] == [("a\nb", "c\nd", "e\nf"), ("1", "2", "3")]
