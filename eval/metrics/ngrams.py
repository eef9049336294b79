"""Formulas of sacrebleu's metrics for many sums of statistics at once, as resampling needs them."""

from __future__ import annotations

from typing import Any

import numpy as np

from xling.array_types import Float64


def bleu_scores(metric: Any, sums: Float64[np.ndarray, "rows stats"]) -> Float64[np.ndarray, " rows"]:
    """Compute ``compute_bleu`` for many sums of statistics, (n, 2 + 2 * order) -> (n,); smoothing is ``exp``."""
    assert metric.smooth_method == "exp" and not metric.effective_order
    order = metric.max_ngram_order
    words, reference_length = sums[:, 0], sums[:, 1]
    matches, total = sums[:, 2 : 2 + order], sums[:, 2 + order :]
    halved = 2.0 ** -np.cumsum(matches == 0, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(np.where(matches > 0, matches, halved) / total)
        brevity = np.minimum(0.0, 1 - reference_length / words)
    scores = 100 * np.exp(np.where((total > 0).all(axis=1), logs.mean(axis=1), -np.inf) + brevity)
    return np.where(matches.any(axis=1) & (words > 0), scores, 0.0)


def chrf_scores(metric: Any, sums: Float64[np.ndarray, "rows stats"]) -> Float64[np.ndarray, " rows"]:
    """Compute ``CHRF._compute_f_score`` for many sums of statistics, (n, 3 * orders) -> (n,)."""
    hypothesis_counts, reference_counts, matches = sums[:, 0::3], sums[:, 1::3], sums[:, 2::3]
    counted = (hypothesis_counts > 0) & (reference_counts > 0)
    orders = np.maximum(counted.sum(axis=1), 1)
    precision, recall = (
        np.divide(matches, of, out=np.zeros(matches.shape), where=counted).sum(axis=1) / orders
        for of in (hypothesis_counts, reference_counts)
    )
    weight = metric.beta**2
    bottom = weight * precision + recall
    top = 100 * (1 + weight) * precision * recall
    return np.divide(top, bottom, out=np.zeros(len(sums)), where=bottom > 0)


def ter_scores(metric: Any, sums: Float64[np.ndarray, "rows 2"]) -> Float64[np.ndarray, " rows"]:
    """Return edits per word of the reference in percent, (n, 2) -> (n,); 100 if only the reference is empty."""
    edits, words = sums[:, 0], sums[:, 1]
    return np.divide(100 * edits, words, out=np.where(edits > 0, 100.0, 0.0), where=words > 0)
