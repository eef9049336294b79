"""A table of texts and numbers as Markdown, CSV, LaTeX or HTML, and the parts that other tables are made of."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Cell = str | int | float | None
HOLE = "-"


@dataclass(frozen=True)
class Table:
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
        """Return the cells of every row as text."""
        return [
            [shown(cell, spec) for cell, (_, spec) in zip(row, self.columns, strict=True)]
            for row in self.rows
        ]


def shown(cell: Cell, spec: str) -> str:
    """Format a cell as text."""
    if cell is None:
        return HOLE
    return cell if isinstance(cell, str) else format(cell, spec)


def grid(rows: Sequence[Sequence[str]], is_number: Sequence[bool]) -> list[str]:
    """Return the lines of a GitHub table; the first row is its header, numbers are right-aligned."""
    widths = [max(3 + right, *(len(row[i]) for row in rows)) for i, right in enumerate(is_number)]

    def written(row: Sequence[str]) -> str:
        cells = zip(row, widths, is_number, strict=True)
        return "| " + " | ".join(c.rjust(w) if right else c.ljust(w) for c, w, right in cells) + " |"

    rule = "|".join(
        "-" * (w + 1) + (":" if right else "-") for w, right in zip(widths, is_number, strict=True)
    )
    return [written(rows[0]), f"|{rule}|", *map(written, rows[1:])]


def markdown_rows(table: Table, plain: Callable[[str], str] | None = None) -> list[str]:
    """Return the lines of a table as a GitHub table, without title and notes; ``plain`` escapes the texts."""
    body = [[(plain or _plain)(cell) for cell in row] for row in table.texts()]
    return grid([[name for name, _ in table.columns], *body], [bool(spec) for _, spec in table.columns])


def markdown(table: Table) -> str:
    """Format a GitHub table with right-aligned numbers; no text in it opens an HTML element."""
    lines = [f"## {table.title}", "", *markdown_rows(table)]
    return without_html("\n".join([*lines, "", *(f"- {note}" for note in table.notes)]).rstrip() + "\n")


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def comma_separated(table: Table) -> str:
    """Format a table as CSV: a header and one row per line, numbers with all digits."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([name for name, _ in table.columns])
    for row in table.rows:
        writer.writerow(["" if c is None else repr(round(c, 6)) if isinstance(c, float) else c for c in row])
    return out.getvalue()


def latex(table: Table) -> str:
    """Format a table with the LaTeX packages booktabs and longtable, which allows page breaks."""
    spec = "".join("r" if number else "l" for _, number in table.columns)
    head = " & ".join(tex(name) for name, _ in table.columns) + r" \\"
    caption = rf"\caption{{{tex(table.title)}. {' '.join(map(tex, table.notes))}}} \\".replace(". }", ".}")
    rows = [" & ".join(map(tex, row)) + r" \\" for row in table.texts()]
    body = [caption, r"\toprule", head, r"\midrule", r"\endhead", *rows, r"\bottomrule"]
    return "\n".join([rf"\begin{{longtable}}{{{spec}}}", *body, r"\end{longtable}", ""])


def html_table(
    table: Table,
    heading: bool = True,
    most: int | None = None,
    marks: Mapping[str, str] | None = None,
    breaks: bool = False,
) -> str:
    """Return a table element in a horizontally scrolling box, with its heading (if requested) and notes.

    Args:
        table: the table.
        heading: whether its title stands above it.
        most: rows that are shown; a note says how many more its CSV file has.
        marks: name of a column -> what a script knows the column by.
        breaks: whether a text may go on in the next line after an underscore, for narrow tables.
    """
    numbers = ["num" if spec else "text" for _, spec in table.columns]
    of = {name: f' data-of="{html.escape(mark)}"' for name, mark in (marks or {}).items()}
    head = "".join(
        f'<th scope="col" class="{css}"{of.get(name, "")}>{html.escape(name)}</th>'
        for (name, _), css in zip(table.columns, numbers, strict=True)
    )
    texts = table.texts()

    def escaped(cell: str) -> str:
        return html.escape(cell).replace("_", "_<wbr>") if breaks else html.escape(cell)

    body = "\n".join(
        "<tr>"
        + "".join(
            f'<{"th scope=row" if i == 0 else "td"} class="{css}">{escaped(cell)}</{"th" if i == 0 else "td"}>'
            for i, (cell, css) in enumerate(zip(row, numbers, strict=True))
        )
        + "</tr>"
        for row in texts[:most]
    )
    notes = list(table.notes)
    if most is not None and len(texts) > most:
        notes.append(f"{most:,} of {len(texts):,} rows; all are in {table.name}.csv.")
    title = f"<h3>{html.escape(table.title)}</h3>\n" if heading else ""
    return title + html_grid(f"<tr>{head}</tr>", body, notes, table.title)


def html_grid(head: str, body: str, notes: Sequence[str] = (), title: str = "", data: str = "") -> str:
    """Return a table element from its rows, in a box that scrolls horizontally, with notes below.

    Args:
        head: rows of its head.
        body: its other rows.
        notes: sentences.
        title: what the box is called where it is read out.
        data: attributes of the element that a script reads.
    """
    listed = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    named = html.escape(title or "Table", quote=True)
    table = f'<table data-title="{named}"{data}>\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody></table>'
    # What scrolls has to be reached by the keyboard, and what is reached needs a name.
    box = f'<div class="scroll" role="region" tabindex="0" aria-label="{named}">{table}</div>'
    return f"{box}\n" + (f'<ul class="notes">{listed}</ul>\n' if listed else "")


def without_html(text: str) -> str:
    """Escape Markdown so that no name opens an HTML element; a lone ``<`` is kept."""
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)


def tex(text: str) -> str:
    """Escape LaTeX's special characters."""
    signs = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    signs |= {sign: f"\\{sign}" for sign in "&%$#_{}"}
    signs |= {"±": r"$\pm$", "–": "--"}
    return "".join(signs.get(character, character) for character in text)
