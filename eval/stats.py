"""Confidence intervals and significance of scores that are functions of sums over rows.

Rows with equal statistics are drawn together where there are many: a resample is a multinomial draw over the
distinct rows, a random swap a binomial draw, which has the same distribution as drawing row by row and costs a
hundredth of it.

Sources: bootstrap intervals: Efron 1979 (percentiles); paired bootstrap: Koehn 2004; approximate
    randomisation:
Noreen 1989, and Riezler and Maxwell 2005, whose add-one estimate of p is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from xling.core.sampling import rng
from xling.eval.metrics.base import Array, Metric

NUM_RESAMPLES = 2000
RESAMPLES_AT_ONCE = 100
COST_OF_DISTINCT = 20
"""What a distinct row costs in a multinomial draw, in rows drawn one by one (measured)."""


@dataclass(frozen=True)
class Paired:
    """Statistics of two systems on the same rows of one language, float64 (num_rows, num_stats) each."""

    lang: str
    a: Array
    b: Array

    def __post_init__(self) -> None:
        assert self.a.shape == self.b.shape, (self.lang, self.a.shape, self.b.shape)


@dataclass(frozen=True)
class Comparison:
    """What a test of ``b`` against ``a`` found.

    Attributes:
        difference: score of b minus score of a, averaged over languages, in points.
        low: lower end of the 95 % paired bootstrap interval of the difference.
        high: upper end.
        p_lower: probability of a difference this low or lower if the systems were exchangeable.
        p_two_sided: probability of a difference this large in either direction.
        n: rows in all.
        detectable: drop that a one-sided test at ``alpha`` of `power_drop` finds with 95 % power.
    """

    difference: float
    low: float
    high: float
    p_lower: float
    p_two_sided: float
    n: int
    detectable: float


def bootstrap(
    stats: Array, metric: Metric, key: str, num_resamples: int = NUM_RESAMPLES
) -> tuple[float, float]:
    """The 95 % percentile interval of a score.

    Args:
        stats: (num_rows, num_stats).
        metric: how sums become a score.
        key: names the draw, so that equal input gives equal intervals.
        num_resamples: number of resamples.
    """
    values = metric.reduce(_resampled(stats, key, num_resamples))
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def compare(
    pairs: Sequence[Paired], metric: Metric, key: str = "compare", num_resamples: int = NUM_RESAMPLES
) -> Comparison:
    """Test b against a on the average over languages: interval by paired bootstrap, p by randomisation.

    Error rates are turned round, so a negative difference is always a loss.
    """
    sign = 1.0 if metric.higher_is_better else -1.0
    observed = sign * float(np.mean([_score(metric, p.b) - _score(metric, p.a) for p in pairs]))
    boot = np.zeros(num_resamples)
    swap = np.zeros(num_resamples)
    for pair in pairs:
        width = pair.a.shape[1]
        sums = _resampled(np.hstack([pair.a, pair.b]), f"{key}/{pair.lang}", num_resamples)
        boot += sign * (metric.reduce(sums[:, width:]) - metric.reduce(sums[:, :width])) / len(pairs)
        swap += sign * _swapped(pair, metric, f"{key}/{pair.lang}", num_resamples) / len(pairs)
    low, high = np.percentile(boot, [2.5, 97.5])
    # A sum in another order differs in its last bits: equal is within a millionth of a point.
    lower = int((swap <= observed + 1e-6).sum())
    either = int((np.abs(swap) >= abs(observed) - 1e-6).sum())
    return Comparison(
        difference=observed,
        low=float(low),
        high=float(high),
        p_lower=(lower + 1) / (num_resamples + 1),
        p_two_sided=(either + 1) / (num_resamples + 1),
        n=sum(len(p.a) for p in pairs),
        detectable=power_drop(float(swap.std())),
    )


def power_drop(standard_error: float, alpha: float = 0.01, power: float = 0.95) -> float:
    """The drop in points that a one-sided test at ``alpha`` finds with probability ``power``.

    Args:
        standard_error: of the difference when there is none, in points.
        alpha: false alarms allowed.
        power: wanted.
    """
    return (NormalDist().inv_cdf(1 - alpha) + NormalDist().inv_cdf(power)) * standard_error


def rows_needed(disagreement: float, drop: float, alpha: float = 0.01, power: float = 0.95) -> int:
    """Rows at which a drop in accuracy is found, by the normal approximation.

    Args:
        disagreement: share of rows on which exactly one of the two systems is right.
        drop: in points.
        alpha: false alarms allowed, one-sided.
        power: wanted.
    """
    units = NormalDist().inv_cdf(1 - alpha) + NormalDist().inv_cdf(power)
    return math.ceil((units / (drop / 100)) ** 2 * disagreement)


def _score(metric: Metric, stats: Array) -> float:
    return float(metric.reduce(stats.sum(axis=0)))


def _distinct(stats: Array) -> tuple[Array, np.ndarray]:
    rows, counts = np.unique(stats, axis=0, return_counts=True)
    return rows, counts


def _resampled(stats: Array, key: str, num_resamples: int) -> Array:
    """Sums of statistics of bootstrap samples, (num_resamples, num_stats)."""
    rows, counts = _distinct(stats)
    generator = rng("bootstrap", key)
    if COST_OF_DISTINCT * len(rows) < len(stats):
        draws = generator.multinomial(len(stats), counts / len(stats), size=num_resamples)
        return draws.astype(np.float64) @ rows
    blocks = []
    for start in range(0, num_resamples, RESAMPLES_AT_ONCE):
        size = min(RESAMPLES_AT_ONCE, num_resamples - start)
        drawn = generator.integers(len(stats), size=(size, len(stats)), dtype=np.int32)
        drawn += np.arange(size, dtype=np.int32)[:, None] * len(stats)
        times = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape)
        blocks.append(times.astype(np.float64) @ stats)
    return np.concatenate(blocks)


def _swapped(pair: Paired, metric: Metric, key: str, num_resamples: int) -> Array:
    """Differences b - a after swapping the systems' outputs on random rows, (num_resamples,)."""
    rows, counts = _distinct(pair.b - pair.a)
    swapped = rng("randomise", key).binomial(counts, 0.5, size=(num_resamples, len(counts)))
    moved = swapped.astype(np.float64) @ rows
    return metric.reduce(pair.b.sum(axis=0) - moved) - metric.reduce(pair.a.sum(axis=0) + moved)
