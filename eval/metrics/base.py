"""Metrics as sufficient statistics per row and a formula over their sum.

Every corpus score of this field is a function of sums over rows: accuracy of (right, 1), span F1 of (true
positives, predicted, gold), BLEU of n-gram counts. So one bootstrap, one randomisation test and one
definition of the score work for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from xling.array_types import Float64
from xling.core.errors import UserError
from xling.core.registry import Registry
from xling.eval.rows.suite import Example

Array: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Metric:
    """A score between 0 and 100; TER may pass 100, and a correlation may fall to -100.

    Args:
        name: registry name.
        stats: (examples, predictions, lang) -> float64 array (num_rows, num_stats).
        reduce: sums of statistics (..., num_stats) -> scores (...); must not fail on zero sums.
        signature: lang -> name, version, mode and tokeniser as text without spaces or ``|`` at its ends.
        higher_is_better: False for error rates.
        lowest: the lowest possible score, for scores that are higher when better.
        share: statistics (..., num_stats) -> count and total, for a score that is a share.
        tokens: lang -> what is counted, if it depends on the language; no average is over scores of different tokens.
        check: raises a UserError if something that the metric needs is missing.
    """

    name: str
    stats: Callable[[Sequence[Example], Sequence[Any], str], Float64[np.ndarray, "rows stats"]]
    reduce: Callable[[Float64[np.ndarray, " *rows stats"]], Float64[np.ndarray, " *rows"]]
    signature: Callable[[str], str]
    higher_is_better: bool = True
    lowest: float = 0.0
    share: (
        Callable[
            [Float64[np.ndarray, " *rows stats"]],
            tuple[Float64[np.ndarray, " *rows"], Float64[np.ndarray, " *rows"]],
        ]
        | None
    ) = None
    tokens: Callable[[str], str] | None = None
    check: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", self.share or _SHARES.get(self.reduce))


METRICS: Registry[Metric] = Registry("metric", "xling.eval.metrics", "metric")


def evaluate(
    metric: Metric, examples: Sequence[Example], predictions: Sequence[Any], lang: str
) -> tuple[float, Float64[np.ndarray, "rows stats"]]:
    """Return the score and the row statistics (num_rows, num_stats) that it is computed from.

    Raises:
        UserError: not as many predictions as examples.
    """
    if len(examples) != len(predictions):
        raise UserError(f"{len(predictions)} predictions", f"{len(examples)}, one for each row")
    stats = metric.stats(examples, predictions, lang)
    assert len(stats) == len(examples), (metric.name, stats.shape, len(examples))
    return float(metric.reduce(stats.sum(axis=0))), stats


def safe_ratio(
    numerators: Float64[np.ndarray, " *rows"] | np.float64,
    denominators: Float64[np.ndarray, " *rows"] | np.float64,
) -> Float64[np.ndarray, " *rows"]:
    """Return ``100 * top / bottom``, 0 if ``denominators`` is 0."""
    numerators, denominators = (
        np.asarray(numerators, dtype=np.float64),
        np.asarray(denominators, dtype=np.float64),
    )
    return np.divide(
        100 * numerators,
        denominators,
        out=np.zeros(np.broadcast(numerators, denominators).shape),
        where=denominators != 0,
    )


def mean(sums: Float64[np.ndarray, " *rows 2"]) -> Float64[np.ndarray, " *rows"]:
    """Return the mean in percent of statistics (value, 1)."""
    return safe_ratio(sums[..., 0], sums[..., 1])


def f1(sums: Float64[np.ndarray, " *rows 3"]) -> Float64[np.ndarray, " *rows"]:
    """Return F1 in percent of statistics (true positives, predicted, gold): ``2 tp / (predicted + gold)``."""
    return safe_ratio(2 * sums[..., 0], sums[..., 1] + sums[..., 2])


_SHARES: dict[Callable[[Array], Array], Callable[[Array], tuple[Array, Array]]] = {
    mean: lambda stats: (stats[..., 0], stats[..., 1]),
    f1: lambda stats: (2 * stats[..., 0], stats[..., 1] + stats[..., 2]),
}


def with_count(values: Sequence[float]) -> Float64[np.ndarray, "rows 2"]:
    """Return row values as statistics (value, 1) for `mean`."""
    return np.stack([np.asarray(values, dtype=np.float64), np.ones(len(values))], axis=1)
