"""Three small charts without any package: a funnel in HTML, histograms on a logarithmic axis and a matrix as SVG.

Colours are CSS classes (``kept``, ``lost``) of `xling.pages.page`, from the Okabe-Ito palette, which people with
any colour vision can tell apart; what is lost is hatched as well. Every mark carries its number as a tooltip.
"""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CHART_WIDTH = 760
_TEXT_ROW = 26
"""Height of a line of text, which is larger on a telephone."""


@dataclass(frozen=True)
class FunnelStep:
    """One bar of the funnel: what a stage received and what it let through, in one unit, and what the stage is."""

    name: str
    num_entered: int
    num_left: int
    title: str
    about: str = ""


@dataclass(frozen=True)
class MatrixCell:
    """One cell of a matrix: what is written in it, how dark it is from 0 to 1, and its tooltip."""

    text: str
    shade: float
    title: str


def _svg(height: float, elements: Sequence[str], label: str, width: float = 0) -> str:
    """Return an SVG chart as wide as the page, or ``width`` pixels wide."""
    shapes, width_style = "".join(elements), f' style="width: {width:.0f}px"' if width else ""
    hatch = (
        '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect width="6" height="6" class="lost-ground"/>'
        '<line x1="0" y1="0" x2="0" y2="6" class="lost-line"/></pattern></defs>'
    )
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{html.escape(label)}">'
        f'<svg class="chart{"" if width else " fit"}" viewBox="0 0 {width or CHART_WIDTH:.0f} {height:.0f}" role="img" '
        f'aria-label="{html.escape(label)}"{width_style}>'
        f"{hatch if 'lost' in shapes else ''}{shapes}</svg></div>"
    )


def _svg_text(x: float, y: float, text: str, anchor: str = "start", css_class: str = "") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{css_class}">{html.escape(text)}</text>'
    )


def _svg_line(x1: float, x2: float, y1: float, y2: float, css_class: str) -> str:
    ends = {"x1": x1, "x2": x2, "y1": y1, "y2": y2}
    places = " ".join(
        f'{name}="{v:.1f}"' if isinstance(v, float) else f'{name}="{v}"' for name, v in ends.items()
    )
    return f'<line {places} class="{css_class}"/>'


def funnel(steps: Sequence[FunnelStep], shares_of_own: bool = False) -> str:
    """Return a funnel chart as a list, as wide as the page; the hatched end of each bar is what that stage dropped.

    Args:
        steps: the bars.
        shares_of_own: the bars are separate items, whose shares are of themselves, not of the longest bar.
    """
    longest = max((step.num_entered for step in steps), default=0) or 1
    rows = []
    for step in steps:
        num_lost = max(step.num_entered - step.num_left, 0)
        share_base = (step.num_entered or 1) if shares_of_own else longest
        share = f"{100 * step.num_left / share_base:.1f} %"
        lost_share = f"−{100 * num_lost / share_base:.1f} %" if num_lost / share_base >= 0.0005 else ""
        about = f"<small>{html.escape(step.about)}</small>" if step.about else ""
        bars = (
            _html_bar(
                "kept", 100 * step.num_left / longest, f"{step.title}: {step.num_left:,} left ({share})"
            ),
            _html_bar("lost", 100 * num_lost / longest, f"{step.title}: {num_lost:,} dropped"),
        )
        rows.append(
            f'<li><span class="name">{html.escape(step.name)}{about}</span><span class="track">{"".join(bars)}</span>'
            f'<span class="number">{share}</span><span class="quiet">{lost_share}</span></li>'
        )
    head = (
        '<li aria-hidden="true"><span></span><span class="track"></span><span class="quiet">kept</span>'
        '<span class="quiet">dropped</span></li>'
    )
    return f'<ul class="bars" aria-label="survival from stage to stage">{head}{"".join(rows)}</ul>'


def _html_bar(css_class: str, percent: float, title: str) -> str:
    """Return one part of a bar; nothing for an empty one."""
    width = f'style="width: {percent:.2f}%"'
    return f'<i class="{css_class}" {width} title="{html.escape(title)}"></i>' if percent > 0 else ""


def histogram(
    kept_counts: Mapping[int, int],
    dropped_counts: Mapping[int, int],
    unit: str,
    cut_offs: Mapping[str, float] | None = None,
    bins_per_decade: int = 10,
) -> str:
    """Return two histograms over one logarithmic axis, kept above the line and dropped below it.

    Args:
        kept_counts: bin -> documents; bin 0 begins at 1.
        dropped_counts: the same for dropped documents.
        unit: label of the axis.
        cut_offs: name -> value: vertical lines, for example cut-offs.
        bins_per_decade: bins from a number to ten times as much.
    """
    cut_offs = cut_offs or {}
    bins = [*kept_counts, *dropped_counts, *(bins_per_decade * math.log10(v) for v in cut_offs.values())]
    if not bins:
        return ""
    low = math.floor(min(bins) / bins_per_decade) * bins_per_decade
    high = math.ceil((max(bins) + 1) / bins_per_decade) * bins_per_decade
    bin_width = (CHART_WIDTH - 20) / (high - low)
    max_kept, max_dropped = max(kept_counts.values(), default=0), max(dropped_counts.values(), default=0)
    scale = 170 / (max_kept + max_dropped or 1)
    axis_y = 14 + _TEXT_ROW * len(cut_offs) + max_kept * scale
    elements: list[str] = []
    for counts, css_class, outcome in ((kept_counts, "kept", "kept"), (dropped_counts, "lost", "dropped")):
        for number, count in sorted(counts.items()):
            x, height = 10 + (number - low) * bin_width, count * scale
            start, end = (10 ** (b / bins_per_decade) for b in (number, number + 1))
            title = f"{short_number(start)} to {short_number(end)} {unit}: {count:,} documents {outcome}"
            y = axis_y - height if css_class == "kept" else axis_y
            size = f'x="{x + 0.5:.1f}" y="{y:.1f}" width="{max(bin_width - 1, 0):.1f}" height="{max(height, 0):.1f}"'
            elements.append(f'<rect {size} class="{css_class}"><title>{html.escape(title)}</title></rect>')
    elements.append(_svg_line(10, CHART_WIDTH - 10, axis_y, axis_y, "axis"))
    bottom_y = axis_y + max_dropped * scale
    for row, (name, value) in enumerate(sorted(cut_offs.items(), key=lambda item: item[1])):
        x = 10 + (bins_per_decade * math.log10(value) - low) * bin_width
        elements.append(_svg_line(x, x, 4, bottom_y, "mark"))
        end_x, anchor = (x - 4, "end") if x > CHART_WIDTH - 180 else (x + 4, "start")
        elements.append(
            _svg_text(end_x, 20 + _TEXT_ROW * row, f"{name} {short_number(value)}", anchor, "quiet")
        )
    for number in range(low, high + 1, bins_per_decade):
        x = 10 + (number - low) * bin_width
        elements.append(_svg_line(x, x, bottom_y, bottom_y + 5, "axis"))
        # A label in the middle of the first or last mark would be cut off at the edge.
        at_edge = {low: (0.0, "start"), high: (float(CHART_WIDTH), "end")}
        end_x, anchor = at_edge.get(number, (x, "middle"))
        label = short_number(10 ** (number / bins_per_decade))
        elements.append(_svg_text(end_x, bottom_y + _TEXT_ROW, label, anchor, "quiet"))
    elements.append(_svg_text(CHART_WIDTH / 2, bottom_y + 2 * _TEXT_ROW, unit, "middle", "quiet"))
    return _svg(bottom_y + 2 * _TEXT_ROW + 8, elements, f"documents by {unit}")


def matrix(
    rows: Sequence[str], columns: Sequence[str], cells: Mapping[tuple[str, str], MatrixCell], label: str
) -> str:
    """Return a matrix of numbers with darker cells for larger numbers; missing cells are empty.

    Args:
        rows: names of the rows, for example languages that sources declare.
        columns: names of the columns, for example languages that were identified.
        cells: ``(row, column)`` -> what stands there.
        label: what is read out in its place.
    """
    cell_width, height = max(36.0, 8.0 * max(map(len, columns), default=0)), 26.0
    left_margin, top_margin = 24 + 7.5 * max(map(len, rows), default=0), 26
    elements = [
        _svg_text(left_margin + (i + 0.5) * cell_width, top_margin - 8, name, "middle", "name")
        for i, name in enumerate(columns)
    ]
    for row, name in enumerate(rows):
        y = top_margin + row * height
        elements.append(_svg_text(left_margin - 8, y + 17, name, "end", "name"))
        for i, column in enumerate(columns):
            if (cell := cells.get((name, column))) is None:
                continue
            x, opacity = left_margin + i * cell_width, 0.12 + 0.88 * cell.shade
            elements.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{cell_width - 2:.1f}" height="{height - 2:.1f}" class="kept" '
                f'fill-opacity="{opacity:.2f}"><title>{html.escape(cell.title)}</title></rect>'
            )
            css_class = "on-dark" if cell.shade > 0.55 else "number"
            elements.append(_svg_text(x + cell_width / 2 - 1, y + 17, cell.text, "middle", css_class))
    return _svg(top_margin + len(rows) * height + 6, elements, label, left_margin + cell_width * len(columns))


def shade_matrix(
    rows: Sequence[str], columns: Sequence[str], cells: Mapping[tuple[str, str], MatrixCell], label: str
) -> str:
    """Return a `matrix` without numbers for thousands of cells, one path per shade, with vertical column names."""
    cell_size, height = 15.0, 15.0
    left_margin = 24 + 7.5 * max(map(len, rows), default=0)
    top_margin = 16 + 7.5 * max(map(len, columns), default=0)
    elements = []
    for i, name in enumerate(columns):
        x = left_margin + (i + 0.75) * cell_size
        elements.append(
            f'<text x="{x:.0f}" y="{top_margin - 6:.0f}" transform="rotate(-90 {x:.0f} '
            f'{top_margin - 6:.0f})" class="name">'
            f"{html.escape(name)}</text>"
        )
    paths: dict[int, list[str]] = {}
    for row, name in enumerate(rows):
        elements.append(_svg_text(left_margin - 8, top_margin + row * height + 11, name, "end", "name"))
        for i, column in enumerate(columns):
            if cell := cells.get((name, column)):
                cell_path = f"M{left_margin + i * cell_size:.0f} {top_margin + row * height:.0f}h14v14h-14z"
                paths.setdefault(round(20 * cell.shade), []).append(cell_path)
    elements += [
        f'<path class="kept" fill-opacity="{0.12 + 0.044 * shade:.2f}" d="{"".join(places)}"/>'
        for shade, places in sorted(paths.items())
    ]
    return _svg(
        top_margin + len(rows) * height + 6, elements, label, left_margin + cell_size * len(columns) + 6
    )


def confusion_matrix(
    rows: Sequence[str], columns: Sequence[str], counts: Mapping[tuple[str, str], int]
) -> str:
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
                cells[row, column] = MatrixCell(
                    short_number(count), count / total, f"{row} found as {column}: {count:,}"
                )
    return matrix(rows, columns, cells, "languages declared and identified")


def short_number(value: float) -> str:
    """Format a number in few characters: 950, 1.2k, 35M."""
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            mantissa = value / limit
            return (
                f"{mantissa:.1f}".removesuffix(".0") + suffix if mantissa < 10 else f"{mantissa:.0f}{suffix}"
            )
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"
