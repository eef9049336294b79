"""A plain table of texts and numbers, as Markdown, CSV, LaTeX or HTML; `tables` has the tables of scores."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass

from xling.eval.report.render import tex
from xling.eval.report.tables import HOLE

Cell = str | int | float | None


@dataclass(frozen=True)
class Sheet:
    """Rows under named columns.

    Attributes:
        name: of its CSV file.
        title: heading.
        columns: (name, format specification of its numbers, "" for text).
        rows: as many cells as columns each; None is a hole.
        notes: sentences under it.
    """

    name: str
    title: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows), self.name

    def texts(self) -> list[list[str]]:
        """The cells of every row as they are shown."""
        return [
            [shown(cell, spec) for cell, (_, spec) in zip(row, self.columns, strict=True)]
            for row in self.rows
        ]


def shown(cell: Cell, spec: str) -> str:
    """A cell as text."""
    if cell is None:
        return HOLE
    return cell if isinstance(cell, str) else format(cell, spec)


def markdown(sheet: Sheet) -> str:
    """A GitHub table; numbers to the right."""
    rows = [[name for name, _ in sheet.columns], *([_plain(c) for c in row] for row in sheet.texts())]
    widths = [max(4, *(len(row[i]) for row in rows)) for i in range(len(sheet.columns))]
    is_number = [bool(spec) for _, spec in sheet.columns]

    def written(row: Sequence[str]) -> str:
        cells = zip(row, widths, is_number, strict=True)
        return "| " + " | ".join(c.rjust(w) if right else c.ljust(w) for c, w, right in cells) + " |"

    rule = (
        "|"
        + "|".join(
            "-" * (w + 1) + (":" if right else "-") for w, right in zip(widths, is_number, strict=True)
        )
        + "|"
    )
    lines = [f"## {sheet.title}", "", written(rows[0]), rule, *map(written, rows[1:])]
    return "\n".join([*lines, "", *(f"- {note}" for note in sheet.notes)]).rstrip() + "\n"


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def comma_separated(sheet: Sheet) -> str:
    """A header and one row a line, numbers with all digits."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([name for name, _ in sheet.columns])
    for row in sheet.rows:
        writer.writerow(["" if c is None else repr(round(c, 6)) if isinstance(c, float) else c for c in row])
    return out.getvalue()


def latex(sheet: Sheet) -> str:
    """A table with the rules of the LaTeX packages booktabs and longtable, which breaks over pages."""
    spec = "".join("r" if number else "l" for _, number in sheet.columns)
    head = " & ".join(tex(name) for name, _ in sheet.columns) + r" \\"
    caption = rf"\caption{{{tex(sheet.title)}. {' '.join(map(tex, sheet.notes))}}} \\".replace(". }", ".}")
    rows = [" & ".join(map(tex, row)) + r" \\" for row in sheet.texts()]
    body = [caption, r"\toprule", head, r"\midrule", r"\endhead", *rows, r"\bottomrule"]
    return "\n".join([rf"\begin{{longtable}}{{{spec}}}", *body, r"\end{longtable}", ""])


def html_table(sheet: Sheet, heading: bool = True) -> str:
    """A table element in a box that scrolls sideways, with its heading, if that stands nowhere else, and notes."""
    numbers = ["num" if spec else "text" for _, spec in sheet.columns]
    head = "".join(
        f'<th scope="col" class="{css}">{html.escape(name)}</th>'
        for (name, _), css in zip(sheet.columns, numbers, strict=True)
    )
    body = "\n".join(
        "<tr>"
        + "".join(
            f'<{"th scope=row" if i == 0 else "td"} class="{css}">{html.escape(cell)}</{"th" if i == 0 else "td"}>'
            for i, (cell, css) in enumerate(zip(row, numbers, strict=True))
        )
        + "</tr>"
        for row in sheet.texts()
    )
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in sheet.notes)
    return (
        (f"<h3>{html.escape(sheet.title)}</h3>\n" if heading else "")
        + f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>\n'
        + (f'<ul class="notes">{notes}</ul>\n' if notes else "")
    )
