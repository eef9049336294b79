"""Three small plots as inline SVG: a survival funnel, histograms on a logarithmic axis, a confusion matrix.

Colours are CSS classes (``kept``, ``lost``), defined by the page from the Okabe-Ito palette, which people with
any colour vision can tell apart; what is lost is hatched as well. Every mark carries its number as a tooltip.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xling.corpora.tally import BINS_PER_DECADE

WIDTH = 760
_LABEL, _NUMBER, _ROW = 150, 150, 30


@dataclass(frozen=True)
class Step:
    """One bar of the funnel: what a stage received and what it let through, in one unit."""

    name: str
    entered: int
    left: int
    title: str


def _svg(height: float, body: Sequence[str], label: str) -> str:
    return (
        f'<div class="scroll"><svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{html.escape(label)}">'
        '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect width="6" height="6" class="lost-ground"/>'
        '<line x1="0" y1="0" x2="0" y2="6" class="lost-line"/></pattern></defs>'
        f"{''.join(body)}</svg></div>"
    )


def _text(x: float, y: float, text: str, anchor: str = "start", css: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{css}">{html.escape(text)}</text>'


def _bar(x: float, y: float, width: float, height: float, css: str, title: str) -> str:
    size = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"'
    return f'<rect {size} class="{css}"><title>{html.escape(title)}</title></rect>'


def funnel(steps: Sequence[Step]) -> str:
    """Bars that shrink from stage to stage; the hatched end of each is what that stage dropped."""
    whole = max((step.entered for step in steps), default=0) or 1
    span = WIDTH - _LABEL - _NUMBER
    body: list[str] = []
    for row, step in enumerate(steps):
        y = row * _ROW + 4
        left = span * step.left / whole
        lost = span * max(step.entered - step.left, 0) / whole
        share = f"{100 * step.left / whole:.1f} %"
        lost_share = (
            f"{100 * (step.entered - step.left) / whole:.1f} %"
            if (step.entered - step.left) / whole >= 0.0005
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
    kept: Mapping[int, int], dropped: Mapping[int, int], unit: str, marks: Mapping[str, float] | None = None
) -> str:
    """Two histograms over one logarithmic axis, kept above the line and dropped below it.

    Args:
        kept: bin of `xling.corpora.tally.log_bin` -> documents.
        dropped: the same for dropped documents.
        unit: label of the axis.
        marks: name -> value: vertical lines, for example cut-offs.
    """
    bins = [*kept, *dropped, *(BINS_PER_DECADE * math.log10(v) for v in (marks or {}).values())]
    if not bins:
        return ""
    low = math.floor(min(bins) / BINS_PER_DECADE) * BINS_PER_DECADE
    high = math.ceil((max(bins) + 1) / BINS_PER_DECADE) * BINS_PER_DECADE
    step = (WIDTH - 20) / (high - low)
    up, down = max(kept.values(), default=0), max(dropped.values(), default=0)
    scale = 170 / (up + down or 1)
    base = 14 + 13 * len(marks or {}) + up * scale
    body: list[str] = []
    for counts, css in ((kept, "kept"), (dropped, "lost")):
        for number, count in sorted(counts.items()):
            x, height = 10 + (number - low) * step, count * scale
            start, end = (10 ** (b / BINS_PER_DECADE) for b in (number, number + 1))
            word = "kept" if css == "kept" else "dropped"
            title = f"{_short(start)} to {_short(end)} {unit}: {count:,} documents {word}"
            body.append(_bar(x + 0.5, base - height if css == "kept" else base, step - 1, height, css, title))
    body.append(f'<line x1="10" x2="{WIDTH - 10}" y1="{base:.1f}" y2="{base:.1f}" class="axis"/>')
    foot = base + down * scale
    for row, (name, value) in enumerate(sorted((marks or {}).items(), key=lambda item: item[1])):
        x = 10 + (BINS_PER_DECADE * math.log10(value) - low) * step
        body.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="4" y2="{foot:.1f}" class="mark"/>')
        at_end = x > WIDTH - 90
        label = _text(
            x - 4 if at_end else x + 4,
            12 + 13 * row,
            f"{name} {_short(value)}",
            "end" if at_end else "start",
            "quiet",
        )
        body.append(label)
    for number in range(low, high + 1, BINS_PER_DECADE):
        x = 10 + (number - low) * step
        body.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{foot:.1f}" y2="{foot + 5:.1f}" class="axis"/>')
        body.append(_text(x, foot + 18, _short(10 ** (number / BINS_PER_DECADE)), "middle", "quiet"))
    body.append(_text(WIDTH / 2, foot + 34, unit, "middle", "quiet"))
    return _svg(foot + 40, body, f"documents by {unit}")


def matrix(rows: Sequence[str], columns: Sequence[str], counts: Mapping[tuple[str, str], int]) -> str:
    """A confusion matrix; the darker a cell, the larger its share of its row.

    Args:
        rows: names of the rows, for example languages that sources declare.
        columns: names of the columns, for example languages that were identified.
        counts: ``(row, column)`` -> documents.
    """
    left, top, size = 96, 26, min(52.0, (WIDTH - 96) / max(len(columns), 1))
    height = 26.0
    body = [_text(left + (i + 0.5) * size, top - 8, name, "middle", "name") for i, name in enumerate(columns)]
    for row, name in enumerate(rows):
        y = top + row * height
        total = sum(counts.get((name, column), 0) for column in columns) or 1
        body.append(_text(left - 8, y + 17, name, "end", "name"))
        for i, column in enumerate(columns):
            count = counts.get((name, column), 0)
            if not count:
                continue
            share = count / total
            x = left + i * size
            opacity = 0.12 + 0.88 * share
            body.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{size - 2:.1f}" height="{height - 2:.1f}" class="kept" '
                f'fill-opacity="{opacity:.2f}"><title>{html.escape(f"{name} found as {column}: {count:,}")}'
                "</title></rect>"
            )
            css = "on-dark" if share > 0.55 else "number"
            body.append(_text(x + size / 2 - 1, y + 17, _short(count), "middle", css))
    return _svg(top + len(rows) * height + 6, body, "languages declared and identified")


def _short(value: float) -> str:
    """A number in few characters: 950, 1.2k, 35M."""
    for limit, ending in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            scaled = value / limit
            return f"{scaled:.1f}".removesuffix(".0") + ending if scaled < 10 else f"{scaled:.0f}{ending}"
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"
