"""Scores of an order: average precision of ranked candidates, nDCG of rated pages, correlation with ratings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import scipy  # its parts are loaded when they are used

from xling.array_types import Float64
from xling.eval.metrics.base import METRICS, Metric, mean
from xling.eval.rows.suite import Example


def precision_of_ranking(
    examples: Sequence[Example], predictions: Sequence[Sequence[str]], lang: str
) -> Float64[np.ndarray, "rows 2"]:
    """Return statistics (average precision at 20, 1) of questions; zeros for candidates.

    Source: XTREME-R's LAReQA (``mean_avg_prec_at_k`` with k = 20) and Mewsli-X (``evaluate`` with k = 20).
    """
    rows = np.zeros((len(examples), 2))
    for row, example, ranked in zip(rows, examples, predictions, strict=True):
        if example.fields["side"] == "src":
            # The mean precision at the places of the right candidates that fit into 20 places.
            right_set, num_right, total = set(example.label), 0, 0.0
            for place, name in enumerate(dict.fromkeys(ranked[:20]), 1) if right_set else ():
                if name in right_set:
                    num_right += 1
                    total += num_right / place
            row[:] = total / min(len(right_set), 20) if right_set else 0.0, 1
    return rows


def ndcg(ratings: Sequence[float], scores: Sequence[float]) -> float:
    """Return the normalised discounted cumulative gain of one query; equal scores share the discounts of their places.

    Source: Jarvelin and Kekalainen 2002, equation 2 with linear gains and base 2; ties as in McSherry and Najork
    2008. A query without a rating above 0 scores 0.
    """
    gains, predicted = np.asarray(ratings, dtype=np.float64), np.asarray(scores, dtype=np.float64)
    discounts = 1 / np.log2(np.arange(len(gains)) + 2)
    best = float(np.sort(gains)[::-1] @ discounts)
    levels, level_of = np.unique(-predicted, return_inverse=True)
    counts = np.bincount(level_of, minlength=len(levels))
    mean_gain = np.bincount(level_of, weights=gains, minlength=len(levels)) / counts
    return float(np.repeat(mean_gain, counts) @ discounts) / best if best else 0.0


def ndcg_rows(
    examples: Sequence[Example], predictions: Sequence[str], lang: str
) -> Float64[np.ndarray, "rows 2"]:
    """Return statistics (nDCG, 1) in the first row of each query with two pages or more, zeros elsewhere.

    Source: XGLUE's ``simple_ndcg``.
    """
    rows = np.zeros((len(examples), 2))
    places = sorted(range(len(examples)), key=lambda i: str(examples[i].fields["document"]))
    for _, part in groupby(places, key=lambda i: examples[i].fields["document"]):
        pages = list(part)
        if len(pages) > 1:
            ratings = [float(examples[i].label) for i in pages]
            rows[pages[0]] = ndcg(ratings, [float(predictions[i]) for i in pages]), 1
    return rows


def moments(
    x: Float64[np.ndarray, " rows"], y: Float64[np.ndarray, " rows"]
) -> Float64[np.ndarray, "rows 6"]:
    """Return statistics (1, x, y, xx, yy, xy) of pairs of numbers about their means, for `correlation`."""
    x, y = (side - side.mean() if len(side) else side for side in (x, y))
    return np.stack([np.ones(len(x)), x, y, x * x, y * y, x * y], axis=1)


def correlation(sums: Float64[np.ndarray, " *rows 6"]) -> Float64[np.ndarray, " *rows"]:
    """Return Pearson's correlation, times 100, of the sums of `moments`; 0 where one side does not vary."""
    count = np.maximum(sums[..., 0], 1)
    covariance = sums[..., 5] - sums[..., 1] * sums[..., 2] / count
    own = [sums[..., 2 + side] - sums[..., side] ** 2 / count for side in (1, 2)]
    varies = [
        part > 1e-12 * np.maximum(sums[..., 2 + side], 1e-300) for side, part in zip((1, 2), own, strict=True)
    ]
    scale = np.sqrt(np.maximum(own[0], 0)) * np.sqrt(np.maximum(own[1], 0))
    return np.divide(100 * covariance, scale, out=np.zeros(scale.shape), where=varies[0] & varies[1])


def correlation_rows(
    by_rank: bool, examples: Sequence[Example], predictions: Sequence[Any], lang: str
) -> Float64[np.ndarray, "rows 6"]:
    """Return `moments` of answers and labels, or of their ranks among all rows; equal ones share their mean rank.

    Spearman's correlation is Pearson's of the ranks; its intervals keep the ranks of the whole.
    """
    given = (np.asarray(values, dtype=np.float64) for values in (predictions, [e.label for e in examples]))
    x, y = (scipy.stats.rankdata(values) if by_rank else values for values in given)
    return moments(x, y)


for _metric in (
    Metric("map_at_20", precision_of_ranking, mean, lambda lang: "map_at_20:1"),
    Metric("ndcg", ndcg_rows, mean, lambda lang: "ndcg:1|gain:linear|ties:averaged|queries:2+"),
    Metric(
        "spearman", partial(correlation_rows, True), correlation, lambda lang: "spearman:1", lowest=-100.0
    ),
    Metric("pearson", partial(correlation_rows, False), correlation, lambda lang: "pearson:1", lowest=-100.0),
):
    METRICS.add(_metric.name, _metric)
