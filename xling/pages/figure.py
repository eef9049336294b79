"""Pictures with axes as SVG by Matplotlib: curves, shares, and what a caller draws, each as wide as a phone.

Small pictures side by side take the place of a large one: they stand below each other on a phone and beside each
other on paper. Colours are Okabe and Ito's, which people with any colour vision can tell apart, and every line or
bar differs from the others in its dashes, marker or hatching. Equal numbers give equal bytes.
"""

from __future__ import annotations

import hashlib
import html
import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xling.pages import charts

WIDTH_IN, ROW_IN = 3.4, 0.21
MAX_LINES = 8
MOST_CELLS = 1500
"""A larger matrix is shown without its numbers."""
ALL = "all"
"""The line of all languages together: first, and black."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#8C510A")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_NOT_SHOWN = re.compile(r' xmlns(:\w+)?="[^"]*"| version="[^"]*"|<metadata>.*?</metadata>\s*', re.DOTALL)
_HATCHES = ("", "////")
_STYLE = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#5b6470",
    "axes.axisbelow": True,
    "grid.color": "#d5dae0",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "svg.fonttype": "none",
}

Points = Sequence[tuple[float, float]]


def drawn(draw: Callable[[Any], None], caption: str, height_in: float = 2.5) -> str:
    """Return a figure element with the picture drawn by ``draw``.

    Args:
        draw: called with Matplotlib's axes.
        caption: text under the picture, which is read out in its place too.
        height_in: height in inches.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Ids inside of the picture are made from this salt; several pictures share one page.
    salt = hashlib.sha256(caption.encode()).hexdigest()[:8]
    with mpl.rc_context({**_STYLE, "svg.hashsalt": salt}):
        figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
        draw(figure.add_subplot())
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = out.getvalue()
    label = html.escape(caption, quote=True)
    # Inside of HTML an SVG needs no names of namespaces, and nobody reads what it says of itself.
    svg = _NOT_SHOWN.sub("", svg[svg.index("<svg") :])
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
    # The names of parts are the same in every picture; what nothing refers to needs none.
    used = set(re.findall(r"#([\w-]+)", svg))
    svg = re.sub(r' id="([^"]*)"', lambda match: match[0] if match[1] in used else "", svg)
    return framed(svg, caption)


def framed(picture: str, caption: str, wide: bool = False) -> str:
    """Return a figure element: a picture with its caption; a ``wide`` one fills the row."""
    return (
        f"<figure{' class=wide' if wide else ''}>{picture}"
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
    )


def grid(figures: Sequence[str]) -> str:
    """Arrange figures beside each other if there is room."""
    return f'<div class="figures">{"".join(figures)}</div>' if figures else ""


def curves(series: Mapping[str, Points], caption: str, y_label: str, x_label: str = "updates") -> list[str]:
    """Return line charts, of at most `MAX_LINES` lines each on one scale.

    Args:
        series: name -> points (x, y) in order of x.
        caption: text under them.
        y_label: what y is, with its unit.
        x_label: what x is.
    """
    names = sorted((name for name, points in series.items() if points), key=lambda name: (name != ALL, name))
    parts = [names[i : i + MAX_LINES] for i in range(0, len(names), MAX_LINES)]
    heights = [y for name in names for _, y in series[name]]
    figures = []
    for number, part in enumerate(parts):

        def draw(axes: Any, part: Sequence[str] = part) -> None:
            for index, name in enumerate(part):
                x, y = zip(*series[name], strict=True)
                colour, width = COLOURS[index - (ALL in part)], 1.4
                if name == ALL:
                    colour, width = "#000000", 2.0
                axes.plot(
                    x, y, label=name, color=colour, linestyle=_DASHES[index], linewidth=width,
                    marker=MARKERS[index], markersize=3.5, markevery=(0.02 * index, 0.18),
                )  # fmt: skip
            if len(parts) > 1:
                room = 0.05 * ((max(heights) - min(heights)) or 1.0)
                axes.set_ylim(min(heights) - room, max(heights) + room)
            axes.set_xlabel(x_label)
            axes.set_ylabel(y_label)
            axes.grid()
            axes.figure.legend(loc="outside upper center", ncols=4, frameon=False, handlelength=2.6)

        part_of = f" ({number + 1} of {len(parts)})" if len(parts) > 1 else ""
        figures.append(drawn(draw, caption + part_of))
    return figures


def shares(before: Mapping[str, float], after: Mapping[str, float], caption: str) -> str:
    """Plot two bars per language: its share of the available and of the sampled text; largest first.

    Args:
        before: language or pair -> amount.
        after: the same after sampling.
        caption: text under the picture.
    """
    names = sorted(before, key=lambda name: (-before[name], name))

    def draw(axes: Any) -> None:
        for number, (label, amounts) in enumerate((("there is", before), ("drawn", after))):
            total = sum(amounts.values()) or 1.0
            values = [100 * amounts.get(name, 0) / total for name in names]
            places = [row + 0.4 * number - 0.2 for row in range(len(names))]
            axes.barh(
                places, values, 0.38, label=label, color=COLOURS[number],
                hatch=_HATCHES[number], edgecolor="white", linewidth=0,
            )  # fmt: skip
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_xlabel("share in %")
        axes.grid(axis="x")
        axes.figure.legend(loc="outside upper center", ncols=2, frameon=False)

    return drawn(draw, caption, 0.9 + 1.5 * ROW_IN * len(names))


def heat(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Mapping[tuple[str, str], float],
    caption: str,
    scale: tuple[float, float] | None = None,
) -> str:
    """Plot a matrix with its numbers, the largest the darkest; missing cells are empty.

    Args:
        rows: names of the rows.
        columns: names of the columns.
        cells: (row, column) -> number.
        caption: text under the picture.
        scale: numbers of the lightest and the darkest colour; default: the least and the largest of ``cells``.
    """
    low, high = scale or (min(cells.values()), max(cells.values()))
    span = (high - low) or 1.0
    drawn = {
        (row, column): charts.Cell(f"{value:.1f}", (value - low) / span, f"{row}, {column}: {value:.1f}")
        for (row, column), value in cells.items()
    }
    if len(cells) > MOST_CELLS:
        return framed(charts.shades(rows, columns, drawn, caption), caption, True)
    return framed(charts.matrix(rows, columns, drawn, caption), caption, len(columns) > 6)
