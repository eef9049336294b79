"""Pictures with axes as SVG by Matplotlib: curves, shares, and what a caller draws, each as wide as a phone.

Small pictures side by side take the place of a large one: they stand below each other on a phone and beside each
other on paper. Colours are Okabe and Ito's, which people with any colour vision can tell apart, and every line or
bar differs from the others in its dashes, marker or hatching. Equal numbers give equal bytes.
"""

import hashlib
import html
import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xling.pages import charts

FIGURE_WIDTH_IN, ROW_HEIGHT_IN = 3.4, 0.21
MAX_LINES = 8
MIN_UNMARKED = 6
"""Points of a line from which on only some have a marker; one of few points is seen by its markers."""
MAX_NUMBERED_CELLS = 1500
"""A larger matrix is shown without its numbers."""
ALL_LANGUAGES = "all"
"""The line of all languages together: first, and black."""
LINE_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#8C510A")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_REMOVED_FROM_SVG = re.compile(
    r' xmlns(:\w+)?="[^"]*"| version="[^"]*"|<metadata>.*?</metadata>\s*', re.DOTALL
)
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

_VARIABLE_OF = {"000000": "ink", "5b6470": "quiet", "d5dae0": "line", "ffffff": "ground"}
"""Colours of a page by day -> their names in `xling.pages.page`, which has other ones by night."""
_THEMED = re.compile(f": #({'|'.join(_VARIABLE_OF)})\\b", re.I)

CurvePoints = Sequence[tuple[float, float]]


def draw_figure(draw: Callable[[Any], None], caption: str, height_in: float = 2.5) -> str:
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
    with mpl.rc_context({**_STYLE, "svg.hashsalt": salt}), warnings.catch_warnings():
        # Text stays text: the reader's fonts show the letters that Matplotlib's own font has not.
        warnings.filterwarnings("ignore", message=r"Glyph \d+ ")
        figure = Figure(figsize=(FIGURE_WIDTH_IN, height_in), layout="constrained")
        draw(figure.add_subplot())
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = out.getvalue()
    label = html.escape(caption, quote=True)
    # Inside of HTML an SVG needs no names of namespaces, and nobody reads what it says of itself.
    svg = _REMOVED_FROM_SVG.sub("", svg[svg.index("<svg") :])
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
    # The names of parts are the same in every picture; what nothing refers to needs none.
    referenced_ids = set(re.findall(r"#([\w-]+)", svg))
    svg = re.sub(r' id="([^"]*)"', lambda match: match[0] if match[1] in referenced_ids else "", svg)
    return frame_figure(
        _THEMED.sub(lambda colour: f": var(--{_VARIABLE_OF[colour[1].lower()]})", svg), caption
    )


def frame_figure(picture: str, caption: str, fill_row: bool = False) -> str:
    """Return a figure element: a picture with its caption; a ``fill_row`` one fills the row."""
    return (
        f"<figure{' class=fill_row' if fill_row else ''}>{picture}"
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
    )


def arrange_figures(figures: Sequence[str]) -> str:
    """Arrange figures beside each other if there is room."""
    return f'<div class="figures">{"".join(figures)}</div>' if figures else ""


def line_charts(
    series: Mapping[str, CurvePoints], caption: str, y_label: str, x_label: str = "updates"
) -> list[str]:
    """Return line charts, of at most `MAX_LINES` lines each on one scale.

    Args:
        series: name -> points (x, y) in order of x.
        caption: text under them.
        y_label: what y is, with its unit.
        x_label: what x is.
    """
    names = sorted(
        (name for name, points in series.items() if points), key=lambda name: (name != ALL_LANGUAGES, name)
    )
    line_groups = [names[i : i + MAX_LINES] for i in range(0, len(names), MAX_LINES)]
    y_values = [y for name in names for _, y in series[name]]
    figures = []
    for number, line_group in enumerate(line_groups):

        def draw(axes: Any, line_group: Sequence[str] = line_group) -> None:
            for index, name in enumerate(line_group):
                x, y = zip(*series[name], strict=True)
                colour, width = LINE_COLOURS[index - (ALL_LANGUAGES in line_group)], 1.4
                if name == ALL_LANGUAGES:
                    colour, width = "#000000", 2.0
                axes.plot(
                    x, y, label=name, color=colour, linestyle=_DASHES[index], linewidth=width,
                    marker=MARKERS[index], markersize=3.5,
                    markevery=1 if len(x) < MIN_UNMARKED else (0.02 * index, 0.18),
                )  # fmt: skip
            if len(line_groups) > 1:
                margin = 0.05 * ((max(y_values) - min(y_values)) or 1.0)
                axes.set_ylim(min(y_values) - margin, max(y_values) + margin)
            if all(float(x).is_integer() for name in line_group for x, _ in series[name]):
                axes.xaxis.get_major_locator().set_params(integer=True)
            axes.set_xlabel(x_label)
            axes.set_ylabel(y_label)
            axes.grid()
            axes.figure.legend(loc="outside upper center", ncols=4, frameon=False, handlelength=2.6)

        group_label = f" ({number + 1} of {len(line_groups)})" if len(line_groups) > 1 else ""
        figures.append(draw_figure(draw, caption + group_label))
    return figures


def share_bars(available: Mapping[str, float], sampled: Mapping[str, float], caption: str) -> str:
    """Plot two bars per language: its share of the available and of the sampled text; largest first.

    Args:
        available: language or pair -> amount.
        sampled: the same after sampling.
        caption: text under the picture.
    """
    names = sorted(available, key=lambda name: (-available[name], name))

    def draw(axes: Any) -> None:
        for number, (label, amounts) in enumerate((("there is", available), ("drawn", sampled))):
            total = sum(amounts.values()) or 1.0
            values = [100 * amounts.get(name, 0) / total for name in names]
            places = [row + 0.4 * number - 0.2 for row in range(len(names))]
            axes.barh(
                places, values, 0.38, label=label, color=LINE_COLOURS[number],
                hatch=_HATCHES[number], edgecolor="white", linewidth=0,
            )  # fmt: skip
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_xlabel("share in %")
        axes.grid(axis="x")
        axes.figure.legend(loc="outside upper center", ncols=2, frameon=False)

    return draw_figure(draw, caption, 0.9 + 1.5 * ROW_HEIGHT_IN * len(names))


def heat_map(
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
    lowest, highest = scale or (min(cells.values()), max(cells.values()))
    value_range = (highest - lowest) or 1.0
    matrix_cells = {
        (row, column): charts.MatrixCell(
            f"{value:.1f}", (value - lowest) / value_range, f"{row}, {column}: {value:.1f}"
        )
        for (row, column), value in cells.items()
    }
    if len(cells) > MAX_NUMBERED_CELLS:
        return frame_figure(charts.shade_matrix(rows, columns, matrix_cells, caption), caption, True)
    return frame_figure(charts.matrix(rows, columns, matrix_cells, caption), caption, len(columns) > 6)
