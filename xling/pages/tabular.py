"""A table of texts and numbers as Markdown, CSV, LaTeX or HTML, and the parts that other tables are made of."""

import csv
import html
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Cell = str | int | float | None
EMPTY_CELL = "-"
_FORMULA = re.compile(r"[\s\ufeff\u200b-\u200f\u2060]*[=+\-@\uff0b\uff0d\uff1d\uff20]|[\t\r\n]")
_NUMBER = re.compile(r"[+-]?[\d.,]*\d(?:[eE][+-]?\d+)?\s*%?|-")
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


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

    def cell_texts(self) -> list[list[str]]:
        """Return the cells of every row as text."""
        return [
            [format_cell(cell, spec) for cell, (_, spec) in zip(row, self.columns, strict=True)]
            for row in self.rows
        ]


def format_cell(cell: Cell, format_spec: str) -> str:
    """Format a cell as text."""
    if cell is None:
        return EMPTY_CELL
    return cell if isinstance(cell, str) else format(cell, format_spec)


def markdown_grid(rows: Sequence[Sequence[str]], is_number: Sequence[bool]) -> list[str]:
    """Return the lines of a GitHub table; the first row is its header, numbers are right-aligned."""
    widths = [max(3 + is_right, *(len(row[i]) for row in rows)) for i, is_right in enumerate(is_number)]

    def written(row: Sequence[str]) -> str:
        cells = zip(row, widths, is_number, strict=True)
        return "| " + " | ".join(c.rjust(w) if is_right else c.ljust(w) for c, w, is_right in cells) + " |"

    rule = "|".join(
        "-" * (w + 1) + (":" if is_right else "-") for w, is_right in zip(widths, is_number, strict=True)
    )
    return [written(rows[0]), f"|{rule}|", *map(written, rows[1:])]


def markdown_rows(table: Table, escape: Callable[[str], str] | None = None) -> list[str]:
    """Return the lines of a table as a GitHub table, without title and notes; ``escape`` escapes the texts."""
    body_rows = [[(escape or escape_markdown)(cell) for cell in row] for row in table.cell_texts()]
    return markdown_grid(
        [[escape_markdown(name) for name, _ in table.columns], *body_rows],
        [bool(spec) for _, spec in table.columns],
    )


def to_markdown(table: Table) -> str:
    """Format a GitHub table with right-aligned numbers; no text in it opens an HTML element."""
    lines = [f"## {table.title}", "", *markdown_rows(table)]
    text = "\n".join([*lines, "", *(f"- {note}" for note in table.notes)]).rstrip() + "\n"
    return show_controls(escape_html_tags(text))


def escape_markdown(text: str) -> str:
    """Escape what would end a cell of a GitHub table."""
    return text.replace("|", "\\|").replace("\n", " ")


def to_csv(table: Table) -> str:
    """Format a table as CSV: a header and one row per line, numbers with all digits."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([csv_text(name) for name, _ in table.columns])
    for row in table.rows:
        writer.writerow(
            [
                ""
                if c is None
                else repr(round(c, 6))
                if isinstance(c, float)
                else csv_text(c)
                if isinstance(c, str)
                else c
                for c in row
            ]
        )
    return show_controls(out.getvalue())


def csv_text(text: str) -> str:
    """Return a text for a cell of CSV: an apostrophe goes before what a spreadsheet would run as a formula.

    Source: OWASP, CSV injection.
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def show_controls(text: str, keep: str = "\n\t") -> str:
    """Return text with a visible sign for each control character but those in ``keep``.

    Such are ESC, and the marks that change the direction of what follows them, up to the end of the line.
    """
    return _CONTROLS.sub(
        lambda control: control[0] if control[0] in keep else _sign_of(ord(control[0])), text
    )


def _sign_of(point: int) -> str:
    if point > 0x9F:  # no escape of JSON, which a script of a page would read back
        return f"[U+{point:04X}]"
    return chr(0x2400 + point) if point < 0x20 else "\u2421" if point == 0x7F else "\ufffd"


def to_latex(table: Table) -> str:
    """Format a table with the LaTeX packages booktabs and longtable, which allows page breaks."""
    column_spec = "".join("r" if number else "l" for _, number in table.columns)
    header_line = " & ".join(escape_latex(name) for name, _ in table.columns) + r" \\"
    caption = (
        rf"\caption{{{escape_latex(table.title)}. {' '.join(map(escape_latex, table.notes))}}} \\".replace(
            ". }", ".}"
        )
    )
    rows = [" & ".join(map(escape_latex, row)) + r" \\" for row in table.cell_texts()]
    body = [caption, r"\toprule", header_line, r"\midrule", r"\endhead", *rows, r"\bottomrule"]
    return "\n".join([rf"\begin{{longtable}}{{{column_spec}}}", *body, r"\end{longtable}", ""])


def html_table(
    table: Table,
    heading: bool = True,
    max_rows: int | None = None,
    script_marks: Mapping[str, str] | None = None,
    break_underscores: bool = False,
) -> str:
    """Return a table element in a horizontally scrolling box, with its heading (if requested) and notes.

    Args:
        table: the table.
        heading: whether its title stands above it.
        max_rows: rows that are shown; a note says how many more its CSV file has.
        script_marks: name of a column -> what a script knows the column by.
        break_underscores: whether a text may go on in the next line after an underscore, for narrow tables; on a
            telephone their rows are blocks.
    """
    cell_classes = ["num" if spec else "text" for _, spec in table.columns]
    mark_attribute = {name: f' data-of="{html.escape(mark)}"' for name, mark in (script_marks or {}).items()}
    header_cells = "".join(
        f'<th scope="col" class="{css}"{mark_attribute.get(name, "")}>{html.escape(name)}</th>'
        for (name, _), css in zip(table.columns, cell_classes, strict=True)
    )
    texts = table.cell_texts()

    def escaped(cell: str) -> str:
        return html.escape(cell).replace("_", "_<wbr>") if break_underscores else html.escape(cell)

    # In a narrow table each cell names its column: on a telephone the cells of a row stand below each other.
    labels = [
        f' data-label="{html.escape(name)}"' if break_underscores and i else ""
        for i, (name, _) in enumerate(table.columns)
    ]
    body_rows = "\n".join(
        "<tr>"
        + "".join(
            f'<{"td" if i else "th scope=row"} class="{css}"{label}>{escaped(cell)}</{"td" if i else "th"}>'
            for i, (cell, css, label) in enumerate(zip(row, cell_classes, labels, strict=True))
        )
        + "</tr>"
        for row in texts[:max_rows]
    )
    notes = list(table.notes)
    if max_rows is not None and len(texts) > max_rows:
        notes.append(f"{max_rows:,} of {len(texts):,} rows; all are in {table.name}.csv.")
    title = f"<h3>{html.escape(table.title)}</h3>\n" if heading else ""
    stacked = " class=stack" if break_underscores else ""
    return title + html_table_box(f"<tr>{header_cells}</tr>", body_rows, notes, table.title, stacked)


def html_table_box(
    header_rows: str, body_rows: str, notes: Sequence[str] = (), title: str = "", data_attributes: str = ""
) -> str:
    """Return a table element from its rows, in a box that scrolls horizontally, with notes below.

    Args:
        title: what the box is called where it is read out.
        data_attributes: attributes of the element that a script reads.
    """
    note_items = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    label = html.escape(title or "Table", quote=True)
    content = f"<thead>{header_rows}</thead>\n<tbody>\n{body_rows}\n</tbody>"
    table = f'<table data-title="{label}"{data_attributes}>\n{content}</table>'
    # What scrolls has to be reached by the keyboard, and what is reached needs a name.
    scroll_box = f'<div class="scroll" role="region" tabindex="0" aria-label="{label}">{table}</div>'
    return f"{scroll_box}\n" + (f'<ul class="notes">{note_items}</ul>\n' if note_items else "")


def escape_html_tags(text: str) -> str:
    """Escape Markdown so that no name opens an HTML element; a lone ``<`` is kept."""
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)


def escape_latex(text: str) -> str:
    """Escape LaTeX's special characters, and show control characters."""
    replacements = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    replacements |= {sign: f"\\{sign}" for sign in "&%$#_{}"}
    replacements |= {"±": r"$\pm$", "–": "--"}
    return "".join(replacements.get(character, character) for character in show_controls(text))
