"""Interpolated modified Kneser-Ney estimation, with the conventions of KenLM's lmplz.

Source: Chen and Goodman 1998, section 3; Heafield et al. 2013, section 3 (adjusted counts, ``<s>``, ``<unk>``).

Notation: ``a`` is the adjusted count: occurrences in the highest order and for n-grams that start with
``<s>``, else the number of distinct words seen to the left. ``D(a)`` is the discount of ``a``. Then

    p(w | h) = (a(hw) - D(a(hw))) / sum_x a(hx)  +  gamma(h) p(w | h without its first word)
    gamma(h) = sum_x D(a(hx)) / sum_x a(hx)

and below the unigrams lies the uniform distribution over all words but ``<s>``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xling.array_types import Bool, Float64, Int64
from xling.text.lm.ngrams import BOS_ID, UNK_ID, NgramTable

FALLBACK_DISCOUNTS = (
    0.5,
    1.0,
    1.5,
)  # lmplz --discount_fallback, for texts too small or too regular to estimate from


@dataclass
class Estimates:
    """Estimates of one order: probabilities (not logarithms), and backoff weights of contexts.

    Args:
        is_kept: which n-grams of the `Order` are in the model, ``(num,)``.
        probability: interpolated probability, ``(num,)``.
        backoff: weight of the order below after this context, ``(num,)``; 1 if nothing follows.
    """

    is_kept: Bool[np.ndarray, " ngrams"]
    probability: Float64[np.ndarray, " ngrams"]
    backoff: Float64[np.ndarray, " ngrams"]


def estimate(orders: list[NgramTable], prune: tuple[int, ...] = ()) -> list[Estimates]:
    """Estimate the probabilities and back-off weights of every order by modified Kneser-Ney.

    Args:
        orders: tables of `xling.text.lm.ngrams.count_ngrams`.
        prune: for orders from 1 on, n-grams with at most this count are removed; the last value holds for
            all higher orders. Unigrams are always kept. As in lmplz, the removed mass goes to the backoff.
    """
    thresholds = [prune[min(n, len(prune) - 1)] if prune and n else 0 for n in range(len(orders))]
    assert thresholds == sorted(thresholds), f"pruning must not fall with the order: {prune}"
    counts_by_order = adjusted_counts(orders)
    model = [_unigrams(counts_by_order[0])]
    for n in range(1, len(orders)):
        order, counts = orders[n], counts_by_order[n]
        is_kept = order.count > thresholds[n]
        discounts = estimate_discounts(counts)[np.minimum(counts, 3)]
        num_contexts = len(orders[n - 1])
        total = np.bincount(order.prefix, weights=counts, minlength=num_contexts)
        freed_mass = np.bincount(
            order.prefix, weights=np.where(is_kept, discounts, counts), minlength=num_contexts
        )
        gamma = np.divide(freed_mass, total, out=np.ones(num_contexts), where=total > 0)
        lower = model[-1].probability[order.suffix]
        probability = (counts - discounts) / total[order.prefix] + gamma[order.prefix] * lower
        model[-1].backoff = gamma
        model.append(Estimates(is_kept, probability, np.ones(len(order))))
    return model


def adjusted_counts(orders: list[NgramTable]) -> list[Int64[np.ndarray, " _"]]:
    """Return the adjusted count of every n-gram, by order; ``<s>`` alone has none."""
    adjusted = []
    for n, order in enumerate(orders):
        if n + 1 == len(orders):
            counts = order.count.copy()
        else:
            num_left_words = np.bincount(orders[n + 1].suffix, minlength=len(order))
            counts = np.where(order.starts, order.count, num_left_words)
        adjusted.append(counts.astype(np.int64))
    adjusted[0][[BOS_ID, UNK_ID]] = 0
    return adjusted


def estimate_discounts(counts: Int64[np.ndarray, " ngrams"]) -> Float64[np.ndarray, " 4"]:
    """Estimate ``(0, D1, D2, D3+)`` from the numbers of n-grams with adjusted counts 1 to 4.

    D_k = k - (k + 1) Y t_{k+1} / t_k with Y = t_1 / (t_1 + 2 t_2); `FALLBACK_DISCOUNTS` if that is undefined or
    outside [0, k].
    """
    num_with_count = np.bincount(counts[counts <= 4], minlength=5).astype(float)
    if (num_with_count[1:5] == 0).any():
        return np.array([0.0, *FALLBACK_DISCOUNTS])
    y = num_with_count[1] / (num_with_count[1] + 2 * num_with_count[2])
    discounts = [k - (k + 1) * y * num_with_count[k + 1] / num_with_count[k] for k in (1, 2, 3)]
    if any(not 0 <= d <= k for k, d in enumerate(discounts, start=1)):
        return np.array([0.0, *FALLBACK_DISCOUNTS])
    return np.array([0.0, *discounts])


def _unigrams(counts: NDArray[np.int64]) -> Estimates:
    """Interpolate unigrams with the uniform distribution; ``<unk>`` only has its share of the latter."""
    discounts = estimate_discounts(counts)[np.minimum(counts, 3)]
    total = counts.sum()
    uniform = discounts.sum() / total / (len(counts) - 1)
    probability = (counts - discounts) / total + uniform
    probability[BOS_ID] = 1.0  # never queried; lmplz writes the same
    return Estimates(np.ones(len(counts), dtype=bool), probability, np.ones(len(counts)))
