"""Three small charts as inline SVG without any package: a funnel, histograms on a logarithmic axis, a matrix.

Colours are CSS classes (``kept``, ``lost``) of `xling.pages.page`, from the Okabe-Ito palette, which people with
any colour vision can tell apart; what is lost is hatched as well. Every mark carries its number as a tooltip.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTH = 760
_LABEL, _NUMBER, _ROW = 150, 150, 30


@dataclass(frozen=True)
class Step:
    """One bar of the funnel: what a stage received and what it let through, in one unit."""

    name: str
    entered: int
    left: int
    title: str


@dataclass(frozen=True)
class Cell:
    """One cell of a matrix: what is written in it, how dark it is from 0 to 1, and its tooltip."""

    text: str
    shade: float
    title: str


def _svg(height: float, body: Sequence[str], label: str, width: float = 0) -> str:
    """Return an SVG chart as wide as the page, or ``width`` pixels wide."""
    drawn, fixed = "".join(body), f' style="width: {width:.0f}px"' if width else ""
    hatch = (
        '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect width="6" height="6" class="lost-ground"/>'
        '<line x1="0" y1="0" x2="0" y2="6" class="lost-line"/></pattern></defs>'
    )
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{html.escape(label)}">'
        f'<svg class="chart" viewBox="0 0 {width or WIDTH:.0f} {height:.0f}" role="img" '
        f'aria-label="{html.escape(label)}"{fixed}>'
        f"{hatch if 'lost' in drawn else ''}{drawn}</svg></div>"
    )


def _text(x: float, y: float, text: str, anchor: str = "start", css: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{css}">{html.escape(text)}</text>'


def _bar(x: float, y: float, width: float, height: float, css: str, title: str) -> str:
    size = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"'
    return f'<rect {size} class="{css}"><title>{html.escape(title)}</title></rect>'


def funnel(steps: Sequence[Step], each: bool = False) -> str:
    """Return a funnel chart; the hatched end of each bar is what that stage dropped.

    Args:
        steps: the bars.
        each: the bars are separate items, whose shares are of themselves, not of the longest bar.
    """
    whole = max((step.entered for step in steps), default=0) or 1
    span = WIDTH - _LABEL - _NUMBER
    body: list[str] = []
    for row, step in enumerate(steps):
        y = row * _ROW + 4
        left = span * step.left / whole
        lost = span * max(step.entered - step.left, 0) / whole
        of = (step.entered or 1) if each else whole
        share = f"{100 * step.left / of:.1f} %"
        lost_share = (
            f"{100 * (step.entered - step.left) / of:.1f} %"
            if (step.entered - step.left) / of >= 0.0005
            else ""
        )
        body += [
            _text(_LABEL - 10, y + 15, step.name, "end", "name"),
            _bar(_LABEL, y, left, _ROW - 9, "kept", f"{step.title}: {step.left:,} left ({share})"),
            _bar(
                _LABEL + left,
                y,
                lost,
                _ROW - 9,
                "lost",
                f"{step.title}: {step.entered - step.left:,} dropped",
            ),
            _text(WIDTH - _NUMBER + 62, y + 15, share, "end", "number"),
            _text(WIDTH, y + 15, f"−{lost_share}" if lost_share else "", "end", "quiet"),
        ]
    return _svg(len(steps) * _ROW + 4, body, "survival from stage to stage")


def histogram(
    kept: Mapping[int, int],
    dropped: Mapping[int, int],
    unit: str,
    marks: Mapping[str, float] | None = None,
    bins_per_decade: int = 10,
) -> str:
    """Return two histograms over one logarithmic axis, kept above the line and dropped below it.

    Args:
        kept: bin -> documents; bin 0 begins at 1.
        dropped: the same for dropped documents.
        unit: label of the axis.
        marks: name -> value: vertical lines, for example cut-offs.
        bins_per_decade: bins from a number to ten times as much.
    """
    bins = [*kept, *dropped, *(bins_per_decade * math.log10(v) for v in (marks or {}).values())]
    if not bins:
        return ""
    low = math.floor(min(bins) / bins_per_decade) * bins_per_decade
    high = math.ceil((max(bins) + 1) / bins_per_decade) * bins_per_decade
    step = (WIDTH - 20) / (high - low)
    up, down = max(kept.values(), default=0), max(dropped.values(), default=0)
    scale = 170 / (up + down or 1)
    base = 14 + 13 * len(marks or {}) + up * scale
    body: list[str] = []
    for counts, css in ((kept, "kept"), (dropped, "lost")):
        for number, count in sorted(counts.items()):
            x, height = 10 + (number - low) * step, count * scale
            start, end = (10 ** (b / bins_per_decade) for b in (number, number + 1))
            word = "kept" if css == "kept" else "dropped"
            title = f"{short(start)} to {short(end)} {unit}: {count:,} documents {word}"
            body.append(_bar(x + 0.5, base - height if css == "kept" else base, step - 1, height, css, title))
    body.append(f'<line x1="10" x2="{WIDTH - 10}" y1="{base:.1f}" y2="{base:.1f}" class="axis"/>')
    foot = base + down * scale
    for row, (name, value) in enumerate(sorted((marks or {}).items(), key=lambda item: item[1])):
        x = 10 + (bins_per_decade * math.log10(value) - low) * step
        body.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="4" y2="{foot:.1f}" class="mark"/>')
        at_end = x > WIDTH - 90
        label = _text(
            x - 4 if at_end else x + 4,
            12 + 13 * row,
            f"{name} {short(value)}",
            "end" if at_end else "start",
            "quiet",
        )
        body.append(label)
    for number in range(low, high + 1, bins_per_decade):
        x = 10 + (number - low) * step
        body.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{foot:.1f}" y2="{foot + 5:.1f}" class="axis"/>')
        # A label in the middle of the last mark would be cut off at the edge.
        end, anchor = (WIDTH, "end") if number == high else (x, "middle")
        body.append(_text(end, foot + 18, short(10 ** (number / bins_per_decade)), anchor, "quiet"))
    body.append(_text(WIDTH / 2, foot + 34, unit, "middle", "quiet"))
    return _svg(foot + 40, body, f"documents by {unit}")


def matrix(
    rows: Sequence[str], columns: Sequence[str], cells: Mapping[tuple[str, str], Cell], label: str
) -> str:
    """Return a matrix of numbers with darker cells for larger numbers; missing cells are empty.

    Args:
        rows: names of the rows, for example languages that sources declare.
        columns: names of the columns, for example languages that were identified.
        cells: ``(row, column)`` -> what stands there.
        label: what is read out in its place.
    """
    size, height = max(36.0, 8.0 * max(map(len, columns), default=0)), 26.0
    left, top = 24 + 7.5 * max(map(len, rows), default=0), 26
    body = [_text(left + (i + 0.5) * size, top - 8, name, "middle", "name") for i, name in enumerate(columns)]
    for row, name in enumerate(rows):
        y = top + row * height
        body.append(_text(left - 8, y + 17, name, "end", "name"))
        for i, column in enumerate(columns):
            if (cell := cells.get((name, column))) is None:
                continue
            x, opacity = left + i * size, 0.12 + 0.88 * cell.shade
            body.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{size - 2:.1f}" height="{height - 2:.1f}" class="kept" '
                f'fill-opacity="{opacity:.2f}"><title>{html.escape(cell.title)}</title></rect>'
            )
            css = "on-dark" if cell.shade > 0.55 else "number"
            body.append(_text(x + size / 2 - 1, y + 17, cell.text, "middle", css))
    return _svg(top + len(rows) * height + 6, body, label, left + size * len(columns))


def shades(
    rows: Sequence[str], columns: Sequence[str], cells: Mapping[tuple[str, str], Cell], label: str
) -> str:
    """Return a `matrix` without numbers for thousands of cells, one path per shade, with vertical column names.

    Args:
        rows, columns, cells, label: as of `matrix`.
    """
    size, height = 15.0, 15.0
    left, top = 24 + 7.5 * max(map(len, rows), default=0), 16 + 7.5 * max(map(len, columns), default=0)
    body = []
    for i, name in enumerate(columns):
        x = left + (i + 0.75) * size
        body.append(
            f'<text x="{x:.0f}" y="{top - 6:.0f}" transform="rotate(-90 {x:.0f} {top - 6:.0f})" class="name">'
            f"{html.escape(name)}</text>"
        )
    paths: dict[int, list[str]] = {}
    for row, name in enumerate(rows):
        body.append(_text(left - 8, top + row * height + 11, name, "end", "name"))
        for i, column in enumerate(columns):
            if cell := cells.get((name, column)):
                place = f"M{left + i * size:.0f} {top + row * height:.0f}h14v14h-14z"
                paths.setdefault(round(20 * cell.shade), []).append(place)
    body += [
        f'<path class="kept" fill-opacity="{0.12 + 0.044 * shade:.2f}" d="{"".join(places)}"/>'
        for shade, places in sorted(paths.items())
    ]
    return _svg(top + len(rows) * height + 6, body, label, left + size * len(columns) + 6)


def confusion(rows: Sequence[str], columns: Sequence[str], counts: Mapping[tuple[str, str], int]) -> str:
    """Return a confusion matrix; darker cells have a larger share of their row.

    Args:
        rows, columns: as of `matrix`.
        counts: ``(row, column)`` -> documents.
    """
    cells = {}
    for row in rows:
        total = sum(counts.get((row, column), 0) for column in columns) or 1
        for column in columns:
            if count := counts.get((row, column), 0):
                cells[row, column] = Cell(short(count), count / total, f"{row} found as {column}: {count:,}")
    return matrix(rows, columns, cells, "languages declared and identified")


def short(value: float) -> str:
    """Format a number in few characters: 950, 1.2k, 35M."""
    for limit, ending in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            scaled = value / limit
            return f"{scaled:.1f}".removesuffix(".0") + ending if scaled < 10 else f"{scaled:.0f}{ending}"
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"
