"""Plot of a suite's main metric by language and system."""

from collections.abc import Sequence
from typing import Any

from xling.eval.scores.score_file import CONTROLS, Score
from xling.eval.tables import score_table
from xling.eval.tables.columns import ScoresBySeed, by_column, column_name, languages_of, sorted_columns
from xling.pages.figure import LINE_COLOURS, MARKERS, MAX_LINES, ROW_HEIGHT_IN, draw_figure


def dots(suite: str, scores: Sequence[Score]) -> str:
    """Plot the main metric of a suite: one mark per language and system, with its 95 % interval.

    The first system is joined to the first control.
    """
    table = {c: v for c, v in by_column(scores).items() if c.suite == suite}
    columns = sorted_columns(table)
    columns = [c for c in columns if c.metric == columns[0].metric]
    main, langs = columns[0], languages_of(table, suite)
    control = next((c for c in columns[1:] if c.system in CONTROLS), None)
    intervals = score_table.row_intervals(scores)
    systems = [c for c in columns if c.system not in CONTROLS][: MAX_LINES - 1] or [main]

    def draw(axes: Any) -> None:
        rows = range(len(langs))
        for number, column in enumerate(systems):
            values = [_mean(table[column], lang) for lang in langs]
            name = column_name(column, columns)
            points_with_intervals = [
                (x, row, *intervals[column, lang])
                for row, (lang, x) in enumerate(zip(langs, values, strict=True))
                if (column, lang) in intervals
            ]
            for x, row, low, high in points_with_intervals:
                ends, colour = [min(x, low), max(x, high)], LINE_COLOURS[number]
                axes.plot(ends, [row, row], color=colour, linewidth=0.9, zorder=2.5)
            axes.scatter(
                values, rows, s=22, marker=MARKERS[number], color=LINE_COLOURS[number], zorder=3, label=name
            )
        if control and control is not main:
            values = [_mean(table[control], lang) for lang in langs]
            axes.scatter(
                values, rows, s=26, marker="o", facecolors="white", edgecolors="black", zorder=2,
                label=f"{control.system} (control)",
            )  # fmt: skip
            lines = [(_mean(table[control], x), _mean(table[main], x), row) for row, x in enumerate(langs)]
            complete = [(a, b, row) for a, b, row in lines if a == a and b == b]
            if complete:
                left, right, at = zip(*complete, strict=True)
                axes.hlines(at, left, right, color="#9aa5b1", linewidth=1.5, zorder=1)
        axes.set_yticks(rows, langs)
        axes.set_ylim(len(langs) - 0.5, -0.5)
        axes.set_xlim(0, 100)
        axes.grid(axis="x")
        axes.figure.legend(loc="outside upper center", ncols=2, frameon=False)

    high = 0.65 + 0.15 * -(-(len(systems) + 1) // 2) + ROW_HEIGHT_IN * len(langs)
    return draw_figure(draw, f"{suite}, {main.metric} by language; bars: 95 % intervals", high)


def _mean(values: ScoresBySeed, lang: str) -> float:
    mean = score_table.mean_over_seeds(list(values[lang].values())).value if lang in values else None
    return float("nan") if mean is None else mean
