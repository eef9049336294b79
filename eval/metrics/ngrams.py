"""Counts and formulas of sacrebleu's metrics for many rows at once, as arrays, in a fifth of the time of its loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from xling.eval.metrics.base import Array

if TYPE_CHECKING:
    from jaxtyping import Float64

Codes = npt.NDArray[np.int64]
ROWS_AT_ONCE = 1000


def chrf_stats(
    metric: Any, hypotheses: Sequence[str], references: Sequence[str]
) -> Float64[np.ndarray, "rows stats"]:
    """Return sacreBLEU's chrF counts of each hypothesis against its one reference.

    Args:
        metric: sacrebleu's CHRF, whose orders and splitting into words are taken.
        hypotheses: one per row.
        references: as many.

    Returns:
        float64 (num_rows, 3 * orders): n-grams of the hypothesis, of the reference, and shared ones, for
        characters without white space and then words. As in sacrebleu, those of the hypothesis count as none
        where the reference has none.
    """
    assert not (metric.lowercase or metric.whitespace or metric.eps_smoothing)
    parts = [
        _chrf_chunk(metric, hypotheses[i : i + ROWS_AT_ONCE], references[i : i + ROWS_AT_ONCE])
        for i in range(0, len(hypotheses), ROWS_AT_ONCE)
    ]
    return np.concatenate([np.zeros((0, 3 * metric.order)), *parts])


def bleu_stats(
    metric: Any, hypotheses: Sequence[str], references: Sequence[str]
) -> Float64[np.ndarray, "rows stats"]:
    """Return sacreBLEU's BLEU counts of each hypothesis against its one reference.

    Args:
        metric: sacrebleu's BLEU, whose order and splitting into words are taken.
        hypotheses: one per row.
        references: as many.

    Returns:
        float64 (num_rows, 2 + 2 * order): words of the hypothesis and of the reference, then shared n-grams and
        n-grams of the hypothesis for n = 1 to ``order``.
    """
    order = metric.max_ngram_order
    parts = [np.zeros((0, 2 + 2 * order))]
    for i in range(0, len(hypotheses), ROWS_AT_ONCE):
        texts = [*hypotheses[i : i + ROWS_AT_ONCE], *references[i : i + ROWS_AT_ONCE]]
        words = [metric._preprocess_segment(text).split() for text in texts]
        lengths = np.array([len(row) for row in words])
        shared = _count_shared(_number_ngrams(words), lengths, order)[:, 2::3]
        of_hypothesis, of_reference = np.split(lengths, 2)
        total = np.maximum(of_hypothesis[:, None] - np.arange(order), 0)
        parts.append(np.concatenate([of_hypothesis[:, None], of_reference[:, None], shared, total], axis=1))
    return np.concatenate(parts)


def bleu_scores(metric: Any, sums: Float64[np.ndarray, "rows stats"]) -> Float64[np.ndarray, " rows"]:
    """Compute ``compute_bleu`` for many sums of statistics, (n, 2 + 2 * order) -> (n,); smoothing is ``exp``."""
    assert metric.smooth_method == "exp" and not metric.effective_order
    order = metric.max_ngram_order
    words, reference_length, matches, total = (
        sums[:, 0],
        sums[:, 1],
        sums[:, 2 : 2 + order],
        sums[:, 2 + order :],
    )
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


def _number_ngrams(rows: Sequence[Sequence[str]]) -> Codes:
    """Return the words of all rows concatenated as numbers, equal for equal words."""
    known: dict[str, int] = {}
    return np.array([known.setdefault(word, len(known)) for row in rows for word in row], dtype=np.int64)


def _chrf_chunk(metric: Any, hypotheses: Sequence[str], references: Sequence[str]) -> Array:
    texts = [*hypotheses, *references]
    without_spaces = ["".join(text.split()) for text in texts]
    chars = np.frombuffer(
        "".join(without_spaces).encode("utf-32-le", "surrogatepass"), dtype=np.uint32
    ).astype(np.int64)
    words = [metric._remove_punctuation(text) for text in texts]
    counts = np.concatenate(
        [
            _count_shared(chars, np.array([len(text) for text in without_spaces]), metric.char_order),
            _count_shared(_number_ngrams(words), np.array([len(row) for row in words]), metric.word_order),
        ],
        axis=1,
    )
    counts[:, 0::3] = np.where(counts[:, 1::3] > 0, counts[:, 0::3], 0)
    return counts


def _count_shared(codes: Codes, lengths: Codes, order: int) -> Array:
    """Count shared n-grams, n = 1 to ``order``, of concatenated sequences: all hypotheses, then all references.

    An n-gram is numbered by the number of its first n - 1 symbols and its last symbol; the numbers of the
    1-grams hold the row, so n-grams of different rows never meet.
    """
    num_rows = len(lengths) // 2
    _, codes = np.unique(codes, return_inverse=True)
    width = int(codes.max(initial=0)) + 1
    row = np.repeat(np.arange(2 * num_rows) % max(num_rows, 1), lengths)
    num_remaining = np.repeat(np.cumsum(lengths), lengths) - np.arange(
        len(codes)
    )  # number of symbols to the end of the sequence
    split = int(lengths[:num_rows].sum())
    keys, positions = row * width + codes, np.arange(len(codes))
    columns = []
    for n in range(1, order + 1):
        distinct, numbers = np.unique(keys, return_inverse=True)
        first = positions < split
        counts = [np.bincount(numbers[side], minlength=len(distinct)) for side in (first, ~first)]
        owner = np.zeros(len(distinct), dtype=np.int64)
        owner[numbers] = row[positions]
        of_row = [
            np.bincount(owner, weights=count, minlength=num_rows) for count in (*counts, np.minimum(*counts))
        ]
        columns += of_row
        longer = num_remaining[positions] > n
        positions, numbers = positions[longer], numbers[longer]
        keys = numbers * width + codes[positions + n]
    return np.stack(columns, axis=1)
