"""Scores of a language's models and controls from their predictions, and the paired differences between two of them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from xling.eval.rows.suite import suites
from xling.eval.scores import predictions, statistics
from xling.eval.scores.predictions import ScoredPredictions
from xling.eval.scores.score_file import CONTROLS
from xling.eval.scores.statistics import PairedStatistics

OWN_LABELS = "own_labels"
Key = tuple[str, str, int]
"""Language or pair, split and seed."""


@dataclass(frozen=True, eq=False)
class Result:
    """The score of a system on a suite by its main metric.

    Attributes:
        suite: registry name.
        system: a model, or one of the controls.
        parts: predictions of each language, split and seed.
        value: mean over the parts, 0 to 100.
        low: lower end of the mean's 95 % interval over rows and seeds.
        high: upper end.
    """

    suite: str
    system: str
    parts: dict[Key, ScoredPredictions]
    value: float
    low: float
    high: float

    @property
    def metric(self) -> str:
        """Name of the metric."""
        return next(iter(self.parts.values())).metric.name

    @property
    def is_control(self) -> bool:
        """Whether no model of the language made it."""
        return self.system in CONTROLS


@dataclass(frozen=True)
class Gain:
    """A difference in points with its 95 % interval, both within -100 to 100."""

    value: float
    low: float
    high: float

    @property
    def is_shown(self) -> bool:
        """Whether the interval lies above 0."""
        return self.low > 0

    def __str__(self) -> str:
        return f"{self.value:+.1f} points ({self.low:+.1f} to {self.high:+.1f})"


def results_of(folder: Path, lang: str, data: Path) -> list[Result]:
    """Return the results below a folder that has a folder for each suite; of labels of the source language alone.

    Args:
        folder: where ``xling eval`` wrote, for example ``OUT/scores``.

    Raises:
        UserError: the rows of a suite are not there any more, or were changed.
    """
    parts: dict[tuple[str, str], dict[Key, ScoredPredictions]] = {}
    for path in sorted(folder.glob("**/predictions/*/*/*/*.parquet")):
        if OWN_LABELS in path.relative_to(folder).parts:
            continue
        origin = predictions.read_origin(path)
        if lang in origin.lang.split("-"):
            (scored,) = predictions.evaluate_file(path, data, [suites()[origin.suite].metric])
            of_system = parts.setdefault((origin.suite, origin.system), {})
            of_system[origin.lang, origin.split, origin.seed] = scored
    return [_result(suite, system, each) for (suite, system), each in parts.items()]


def _result(suite: str, system: str, parts: dict[Key, ScoredPredictions]) -> Result:
    scored = list(parts.values())
    low, high = statistics.average_interval(
        [each.row_statistics for each in scored], scored[0].metric, f"language/{suite}/{system}"
    )
    value = sum(each.value for each in scored) / len(scored)
    return Result(suite, system, parts, value, max(0.0, low), min(100.0, high))


@cache
def gain(better: Result, baseline: Result) -> Gain | None:
    """Return the paired difference of two results over rows and seeds; None without rows in common.

    A result without seeds stands beside every seed of the other one. Resamples of rows that all differ alike have no
    spread; the upper end of Wilson's interval of no row in as many stands there.
    """
    longer = max(better, baseline, key=lambda each: len(each.parts))
    pairs = []
    for key in longer.parts:
        first, second = _part(baseline, key), _part(better, key)
        if first and second and first.ids == second.ids:
            pairs.append(
                PairedStatistics(key[0], first.stats, second.stats, first.ids, first.blocks, key[-1])
            )
    if not pairs:
        return None
    metric = next(iter(longer.parts.values())).metric
    name = f"language/{better.suite}/{baseline.system}/{better.system}"
    tested = statistics.compare_systems(pairs, metric, name)
    low, high = tested.low, tested.high
    if high - low < statistics.TIE_TOLERANCE:
        zeros, ones = np.zeros(tested.clusters), np.ones(tested.clusters)
        _, width = statistics.wilson_interval(zeros, ones)
        low, high = tested.difference - width, tested.difference + width
    return Gain(tested.difference, max(-100.0, low), min(100.0, high))


def _part(result: Result, key: Key) -> ScoredPredictions | None:
    of_rows = [part for each, part in result.parts.items() if each[:2] == key[:2]]
    return result.parts.get(key) or (of_rows[0] if len(of_rows) == 1 else None)


def mean_gain(gains: Sequence[Gain]) -> Gain:
    """Return the mean of gains on different suites, whose errors are independent of each other."""
    number = len(gains)
    value = sum(each.value for each in gains) / number
    below = math.hypot(*(each.value - each.low for each in gains)) / number
    above = math.hypot(*(each.high - each.value for each in gains)) / number
    return Gain(value, value - below, value + above)


def of_suite(results: Iterable[Result], suite: str) -> list[Result]:
    """Return the results on one suite, the best first."""
    return sorted((each for each in results if each.suite == suite), key=lambda each: -each.value)
