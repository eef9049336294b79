"""Rendering of a `ScoreTable` as Markdown, CSV, LaTeX, JSON or HTML."""

import csv
import html
import io
import json
from collections.abc import Callable
from dataclasses import asdict

from xling.core.registry import Registry
from xling.eval.tables.score_table import Cell, Line, ScoreTable
from xling.pages.tabular import (
    EMPTY_CELL,
    csv_text,
    escape_html_tags,
    escape_latex,
    escape_markdown,
    html_table_box,
    markdown_grid,
    show_controls,
)

SYNTHETIC = "SYNTHETIC data"

FORMATS: Registry[Callable[[ScoreTable], str]] = Registry("table format")


def number_text(cell: Cell) -> str:
    """Format the score with one decimal and its mark; a missing score is a dash."""
    return EMPTY_CELL if cell.value is None else f"{cell.value:.1f}{cell.mark}"


def spread_text(cell: Cell) -> str:
    """Return ``±`` the standard deviation over seeds, else the 95 % interval, else nothing."""
    if cell.value is None:
        return ""
    if cell.spread is not None:
        return f"±{cell.spread:.1f}"
    return interval_text(cell)


def interval_text(cell: Cell) -> str:
    """Return the 95 % interval, or nothing."""
    return "" if cell.low is None or cell.high is None else f"{cell.low:z.1f}–{cell.high:z.1f}"


def uncertainty_text(line: Line, cell: Cell) -> str:
    """Return the text beside a number: the interval for an average, `spread_text` for a language."""
    return (interval_text(cell) if line.kind == "summary" else "") or spread_text(cell)


def _cell_text(line: Line, cell: Cell) -> str:
    return " ".join(part for part in (number_text(cell), uncertainty_text(line, cell)) if part)


def _column_heads(table: ScoreTable) -> list[str]:
    """Return column names with the group's name in front."""
    groups = [name for name, width in table.groups for _ in range(width)]
    return [f"{group}: {name}" for group, name in zip(groups, table.columns, strict=True)]


@FORMATS.register("md")
def markdown_table(table: ScoreTable) -> str:
    """Return a GitHub table with aligned columns; summary rows in bold."""
    rows = [["", *map(escape_markdown, _column_heads(table))]]
    for line in table.lines:
        cells = [_cell_text(line, cell) for cell in line.cells]
        bold = line.kind == "summary"
        name = escape_markdown(line.name)
        rows.append([f"**{name}**" if bold else name, *cells])
    title = f"## {table.title}" + (f" ({SYNTHETIC})" if table.synthetic else "")
    body = markdown_grid(rows, [False, *(True for _ in table.columns)])
    text = "\n".join([title, "", *body, "", *(f"- {note}" for note in table.notes)]) + "\n"
    return show_controls(escape_html_tags(text))


@FORMATS.register("csv")
def comma_separated(table: ScoreTable) -> str:
    """Format one row per line: kind, name, then value and spread of each column with all digits."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    heads = [part for head in _column_heads(table) for part in (head, f"{head}: sd")]
    writer.writerow(["kind", "name", *map(csv_text, heads), *(["data"] if table.synthetic else [])])
    for line in table.lines:
        values = [v for c in line.cells for v in (c.value, c.spread)]
        cells = ["" if v is None else repr(round(v, 6)) for v in values]
        writer.writerow([line.kind, csv_text(line.name), *cells, *([SYNTHETIC] if table.synthetic else [])])
    return show_controls(out.getvalue())


@FORMATS.register("json")
def as_json(table: ScoreTable) -> str:
    """Return every field of the table as one object."""
    return json.dumps(asdict(table), ensure_ascii=False, indent=1) + "\n"


@FORMATS.register("tex")
def latex_table(table: ScoreTable) -> str:
    """Return a table with the rules of the LaTeX package booktabs."""
    column_spec = "l" + "".join("r" * width for _, width in table.groups)
    heads = " & ".join(
        rf"\multicolumn{{{width}}}{{c}}{{{escape_latex(name)}}}" for name, width in table.groups
    )
    start, group_rules = 2, []
    for _, width in table.groups:
        group_rules.append(rf"\cmidrule(lr){{{start}-{start + width - 1}}}")
        start += width
    body, before = [], "lang"
    for line in table.lines:
        if line.kind != before:
            body.append(r"\midrule")
            before = line.kind
        body.append(" & ".join([escape_latex(line.name), *(_tex_cell(line, c) for c in line.cells)]) + r" \\")
    title = escape_latex(table.title + (f" ({SYNTHETIC})" if table.synthetic else ""))
    notes = " ".join(map(escape_latex, table.notes))
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{title}. {notes}}}",
            rf"\begin{{tabular}}{{{column_spec}}}",
            r"\toprule",
            rf" & {heads} \\",
            " ".join(group_rules),
            " & ".join(["", *map(escape_latex, table.columns)]) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


@FORMATS.register("html")
def html_table(table: ScoreTable) -> str:
    """Return a table element in a box that scrolls sideways, for a page with `xling.pages.page.PAGE_STYLE`."""
    return html_with_heading("h2", table)


def html_with_heading(heading: str, table: ScoreTable) -> str:
    """Return `html_table` under a heading of another level."""
    groups = "".join(f'<th colspan="{w}" scope="colgroup">{html.escape(n)}</th>' for n, w in table.groups)
    starts, position = set(), 0
    for _, width in table.groups:
        starts.add(position)
        position += width
    heads = "".join(
        f'<th scope="col"{_column_class(i, starts)}>{html.escape(n)}</th>'
        for i, n in enumerate(table.columns)
    )
    body = "\n".join(_html_line(line, starts) for line in table.lines)
    flag = f' <span class="synthetic">{SYNTHETIC}</span>' if table.synthetic else ""
    head = f"<tr><td></td>{groups}</tr>\n<tr><td></td>{heads}</tr>"
    title = f"<{heading}>{html.escape(table.title)}{flag}</{heading}>\n"
    return title + html_table_box(head, body, table.notes, table.title, ' data-rows="languages"')


def _html_line(line: Line, starts: set[int]) -> str:
    cells = []
    for i, cell in enumerate(line.cells):
        small = uncertainty_text(line, cell)
        under = f"<small>{small}</small>" if small else ""
        cells.append(f"<td{_column_class(i, starts)}>{number_text(cell)}{under}</td>")
    return f'<tr class="{line.kind}"><th scope="row">{html.escape(line.name)}</th>{"".join(cells)}</tr>'


def _column_class(position: int, starts: set[int]) -> str:
    return ' class="first"' if position in starts else ""


def _tex_cell(line: Line, cell: Cell) -> str:
    under = uncertainty_text(line, cell)
    return escape_latex(number_text(cell)) + (rf" {{\scriptsize {escape_latex(under)}}}" if under else "")
