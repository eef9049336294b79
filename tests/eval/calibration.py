"""False alarms of comparisons and coverage of intervals on real predictions, with and without clusters.

`calibration.npz` has the statistics of rows of two controls on ten suites, without texts or answers.

False alarms: their answers change places item by item at random, in all languages at once, so that nothing is true; how
often is p at or below .05? Coverage: items (with their passage or document) are drawn from the available ones, as if
these were all there are; how often do the intervals of the average and of the difference hold the values of all?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from xling.core.sampling import rng
from xling.eval.metrics.base import Metric
from xling.eval.scores import statistics
from xling.eval.scores.statistics import PairedStatistics, RowStatistics

RESAMPLES = 400
PLAIN_DRAWS = 100
"""Draws in which rows drawn one by one are tried too; their rates are far off, so few draws show it."""
RECORDED = Path(__file__).parent / "calibration.npz"


def recorded(suite: str) -> list[PairedStatistics]:
    """Return the row statistics of both systems of a case, a language each; rows of one cluster share an id."""
    arrays = np.load(RECORDED)
    langs = [
        name.split("/")[1] for name in arrays.files if name.startswith(f"{suite}/") and name.endswith("/a")
    ]
    parts = ((lang, *(arrays[f"{suite}/{lang}/{name}"] for name in ("a", "b", "clusters"))) for lang in langs)
    return [
        PairedStatistics(lang, a, b, [str(c) for c in clusters], [None] * len(a))
        for lang, a, b, clusters in parts
    ]


def measured(
    metric: Metric, pairs: Sequence[PairedStatistics], draws: int, key: str, plain_draws: int = PLAIN_DRAWS
) -> dict[str, Any]:
    """Return rates with the statistics' clusters, and with rows drawn one by one in the first ``plain_draws``."""
    own, count = statistics.assign_clusters([p.sides()[0] for p in pairs])
    truth = statistics.compare_systems(pairs, metric, "truth", 10).difference
    average = float(np.mean([float(metric.reduce(p.a.sum(axis=0))) for p in pairs]))
    counts = {name: {"alarms": 0, "difference": 0, "average": 0} for name in ("rows", "clusters")}
    draw = rng("calibration", key)
    for number in range(draws):
        swap = draw.random(count) < 0.5
        null = [
            replace(p, a=np.where(swap[c][:, None], p.b, p.a), b=np.where(swap[c][:, None], p.a, p.b))
            for p, c in zip(pairs, own, strict=True)
        ]
        again = resampled(pairs, own, draw.integers(count, size=count))
        for name, counter in counts.items():
            if name == "rows" and number >= plain_draws:
                continue
            tests = [[plain(p) for p in chosen] if name == "rows" else chosen for chosen in (null, again)]
            counter["alarms"] += (
                statistics.compare_systems(tests[0], metric, f"n{number}", RESAMPLES).p_two_sided <= 0.05
            )
            test = statistics.compare_systems(tests[1], metric, f"c{number}", RESAMPLES)
            counter["difference"] += test.low <= truth <= test.high
            low, high = averages([p.sides()[0] for p in tests[1]], metric, f"a{number}")
            counter["average"] += low <= average <= high
    tried = {name: num for name, num in (("rows", min(draws, plain_draws)), ("clusters", draws)) if num}
    shares = {n: {k: round(100 * v / num, 1) for k, v in counts[n].items()} for n, num in tried.items()}
    return {"rows": sum(len(p.a) for p in pairs), "clusters": count, "draws": draws, "percent": shares}


def averages(parts: Sequence[RowStatistics], metric: Metric, key: str) -> tuple[float, float]:
    """Return the interval of the average."""
    return statistics.average_interval(parts, metric, key, num_resamples=RESAMPLES)


def chosen(pair: PairedStatistics, rows: np.ndarray) -> PairedStatistics:
    """Return a pair with some of its rows."""
    ids, blocks = ([values[i] for i in rows] for values in (pair.ids, pair.blocks))
    return replace(pair, a=pair.a[rows], b=pair.b[rows], ids=ids, blocks=blocks)


def resampled(
    pairs: Sequence[PairedStatistics], own: Sequence[np.ndarray], drawn: np.ndarray
) -> list[PairedStatistics]:
    """Return the rows of drawn clusters; a cluster that is drawn twice counts as two."""
    parts = []
    for pair, clusters in zip(pairs, own, strict=True):
        order = np.argsort(clusters, kind="stable")
        starts, ends = (np.searchsorted(clusters[order], drawn, side) for side in ("left", "right"))
        rows = np.concatenate([order[s:e] for s, e in zip(starts, ends, strict=True)])
        new = np.repeat(np.arange(len(drawn)), ends - starts)
        part = chosen(pair, rows)
        # A cluster is one item now: its rows stand together by a block, in all languages by an id.
        parts.append(replace(part, ids=[str(n) for n in new], blocks=[None] * len(new)))
    return parts


def plain(pair: PairedStatistics) -> PairedStatistics:
    """Return a pair of systems whose rows are independent."""
    return replace(pair, ids=(), blocks=())
