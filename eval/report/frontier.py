"""The section of a report on what ``xling measure`` found: size and latency of models beside their scores.

A model is on the Pareto front of a measure if no other one is at least as good in score and in the measure, and better
in one.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from xling.eval.report.artifacts import Run
from xling.eval.report.sections import Section
from xling.eval.scores.score_file import Score
from xling.pages.figure import LINE_COLOURS, MARKERS, draw_figure
from xling.pages.tabular import Table

STAGE, MEASUREMENTS_FILE = "measure", "measured.json"
MEASURES = {"megabytes": "MB", "ms": "ms a text, one core"}
MeasuredModel = Mapping[str, Any]


def section(runs: Sequence[Run], scores: Sequence[Score]) -> Section:
    """Show every measured model that has a score: for each suite a table, and a plot against each measure."""
    size = Section(
        "Size and latency",
        "Megabytes of the encoder, and milliseconds for one text at a time on one core (median, and 5 to 95 % over "
        "texts); score: mean over languages and seeds, with the mean ends of their 95 % intervals over rows. Filled "
        "marks are on the Pareto front.",
    )
    measurements = [
        json.loads((item.path / MEASUREMENTS_FILE).read_text(encoding="utf-8"))
        for run in runs
        for item in run.artifacts
        if item.stage == STAGE and (item.path / MEASUREMENTS_FILE).is_file()
    ]
    for measured in measurements[:1]:
        for suite in dict.fromkeys(score.suite for score in scores):
            points = _points(measured["models"], [s for s in scores if s.suite == suite])
            if points:
                size.tables.append(_table(suite, points, float(measured["lose"])))
                size.figures += [_plot(suite, points, name) for name in MEASURES]
    return size


def _points(models: Sequence[MeasuredModel], scores: Sequence[Score]) -> list[MeasuredModel]:
    """Return the models that have scores by the suite's main metric, with the means of value, low and high."""
    points: list[MeasuredModel] = []
    for model in models:
        model_scores = [s for s in scores if s.system == model["name"] and s.metric == scores[0].metric]
        if not model_scores:
            continue
        bounds = [(s.low, s.high) for s in model_scores if s.low is not None and s.high is not None]
        low, high = (sum(end) / len(end) for end in zip(*bounds, strict=True)) if bounds else (None, None)
        value = sum(s.value for s in model_scores) / len(model_scores)
        numbers = {"score": value, "score_low": low, "score_high": high}
        seeds = len({s.seed for s in model_scores})
        points.append({**model, "metric": model_scores[0].metric, **numbers, "seeds": seeds})
    return points


def on_front(points: Sequence[MeasuredModel], measure: str) -> list[bool]:
    """Tell whether each point is on the Pareto front of high ``score`` and low ``measure``."""
    pairs = [(point["score"], -point[measure]) for point in points]
    return [not any(o != p and o[0] >= p[0] and o[1] >= p[1] for o in pairs) for p in pairs]


def _table(suite: str, points: Sequence[MeasuredModel], max_loss: float) -> Table:
    columns = (
        ("model", ""), ("layers", "d"), ("pieces", ",d"), ("MB", ".2f"), ("ms", ".2f"), ("5 %", ".2f"), ("95 %", ".2f"),
        (points[0]["metric"], ".1f"), ("low", ".1f"), ("high", ".1f"), ("seeds", "d"), ("against the first", "+.1f"),
        ("front of size", ""), ("front of latency", ""),
    )  # fmt: skip
    is_on_fronts = [on_front(points, name) for name in MEASURES]
    rows = tuple(
        (
            p["name"], p["layers"], p["vocabulary"], p["megabytes"], p["ms"], p["low"], p["high"],
            p["score"], p["score_low"], p["score_high"], p["seeds"], p["score"] - points[0]["score"],
            *("yes" if front[i] else "" for front in is_on_fronts),
        )
        for i, p in enumerate(points)
    )  # fmt: skip
    first = points[0]
    smallest = min(
        (p for p in points if p["score"] >= first["score"] - max_loss), key=lambda p: p["megabytes"]
    )
    smaller, faster = (first[name] / smallest[name] for name in MEASURES)
    comparison = f"{smallest['name']}, {smaller:.1f} times smaller, {faster:.1f} times as fast"
    note = (
        f"The smallest that loses at most {max_loss:g} points against {first['name']}: {comparison}. "
        "It is named by the scores shown, so its own is a little too good; the intervals say by how much."
    )
    return Table(f"size_{suite}", f"{suite}: size and latency", columns, rows, (note,))


def _plot(suite: str, points: Sequence[MeasuredModel], measure: str) -> str:
    """Draw score against a measure, a mark for each model; a line joins the front."""
    front = on_front(points, measure)

    def draw(axes: Any) -> None:
        front_points = sorted(
            (p[measure], p["score"]) for p, is_front in zip(points, front, strict=True) if is_front
        )
        axes.step(*zip(*front_points, strict=True), where="post", color="#9aa5b1", linewidth=1.0, zorder=1)
        for number, (point, is_front) in enumerate(zip(points, front, strict=True)):
            colour, marker = LINE_COLOURS[number % len(LINE_COLOURS)], MARKERS[number % len(MARKERS)]
            x, y = point[measure], point["score"]
            if point["score_low"] is not None:
                axes.plot(
                    [x, x], [point["score_low"], point["score_high"]], color=colour, linewidth=0.9, zorder=2
                )
            axes.scatter(
                [x], [y], s=30, marker=marker, edgecolors=colour, facecolors=colour if is_front else "white", zorder=3,
                label=point["name"],
            )  # fmt: skip
        axes.set_xlim(left=0)
        axes.set_xlabel(MEASURES[measure])
        axes.set_ylabel(points[0]["metric"])
        axes.grid()
        axes.figure.legend(loc="outside upper center", ncols=2, frameon=False)

    axes_of = f"{points[0]['metric']} against {MEASURES[measure]}"
    caption = f"{suite}: {axes_of}; bars: 95 % intervals; line: the Pareto front"
    return draw_figure(draw, caption, 2.5 + 0.15 * -(-len(points) // 2))
