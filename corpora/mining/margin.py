"""Margins of candidate pairs, and which pairs are taken.

Source: Artetxe and Schwenk 2019 (margin-based mining), sections 3.1 (ratio, distance) and 3.2 (retrieval).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from xling.array_types import Float32, Int64

_ROUNDS = 64


class BestNeighbours(NamedTuple):
    """Best neighbour of each row and its margin; the margin is -inf if no neighbour was found."""

    ids: Int64[np.ndarray, " rows"]
    scores: Float32[np.ndarray, " rows"]


class Pairs(NamedTuple):
    """Pairs of rows, the best first."""

    src: Int64[np.ndarray, " pairs"]
    tgt: Int64[np.ndarray, " pairs"]
    scores: Float32[np.ndarray, " pairs"]


def mean_cosine(
    cosines: Float32[np.ndarray, "rows neighbours"], ids: Int64[np.ndarray, "rows neighbours"]
) -> Float32[np.ndarray, " rows"]:
    """Return the mean cosine of each row with the neighbours that were found; 0 where there are none."""
    is_there = ids >= 0
    sums = np.where(is_there, cosines, np.float32(0)).sum(axis=1, dtype=np.float32)
    return (sums / np.maximum(is_there.sum(axis=1), 1)).astype(np.float32)


def best(
    cosines: Float32[np.ndarray, "rows neighbours"],
    ids: Int64[np.ndarray, "rows neighbours"],
    src_means: Float32[np.ndarray, " rows"],
    tgt_means: Float32[np.ndarray, " others"],
    margin: str,
) -> BestNeighbours:
    """Return the neighbour with the largest margin of each row.

    Args:
        cosines: with each neighbour.
        ids: numbers of the neighbours among the rows of the other side, -1 for none.
        src_means: `mean_cosine` of these rows.
        tgt_means: `mean_cosine` of all rows of the other side.
        margin: ``ratio``, ``distance`` or ``absolute``.
    """
    around = (src_means[:, None] + tgt_means[ids]) / np.float32(2)
    if margin == "ratio":
        scores: npt.NDArray[Any] = cosines / np.maximum(around, 1e-9)
    else:
        scores = cosines - around if margin == "distance" else cosines
    scores = np.where(ids < 0, np.float32(-np.inf), scores).astype(np.float32)
    column = scores.argmax(axis=1)[:, None]
    return BestNeighbours(
        np.take_along_axis(ids, column, 1)[:, 0], np.take_along_axis(scores, column, 1)[:, 0]
    )


def choose_pairs(
    forward: BestNeighbours, backward: BestNeighbours, retrieval: str, threshold: float = -np.inf
) -> Pairs:
    """Return the pairs of a retrieval with at least this margin, best first.

    Args:
        forward: the best target of each source.
        backward: the best source of each target.
        retrieval: ``forward``, ``backward``, ``intersection`` or ``max``.
        threshold: lowest margin; a sentence whose neighbours were not found has none.
    """
    lowest = max(threshold, float(np.finfo(np.float32).min))
    rows, columns = (np.flatnonzero(side.scores >= lowest) for side in (forward, backward))
    forward_pairs = Pairs(rows, forward.ids[rows], forward.scores[rows])
    backward_pairs = Pairs(backward.ids[columns], columns, backward.scores[columns])
    if retrieval == "forward":
        return _sort_pairs(forward_pairs)
    if retrieval == "backward":
        return _sort_pairs(backward_pairs)
    if retrieval == "intersection":
        agree = backward.ids[forward_pairs.tgt] == forward_pairs.src
        return _sort_pairs(Pairs(*(field[agree] for field in forward_pairs)))
    both_ways = Pairs(*(np.concatenate(both) for both in zip(forward_pairs, backward_pairs, strict=True)))
    return _use_each_once(_sort_pairs(both_ways), len(forward.ids), len(backward.ids))


def _sort_pairs(pairs: Pairs) -> Pairs:
    order = np.lexsort((pairs.tgt, pairs.src, -pairs.scores))
    return Pairs(*(field[order] for field in pairs))


def _use_each_once(pairs: Pairs, num_src: int, num_tgt: int) -> Pairs:
    """Return pairs from the best down, leaving out those with a sentence that is taken.

    A pair that comes first among those of both of its sentences is taken whatever else is. So all of these are taken
    at once, and the pairs that share a sentence with them go; a few rounds leave hardly any pair for the loop.
    """
    remaining = np.arange(len(pairs.src))
    is_free = np.ones(num_src, bool), np.ones(num_tgt, bool)
    is_taken = np.zeros(len(remaining), bool)
    first_pair = np.empty(num_src, np.int64), np.empty(num_tgt, np.int64)
    for _ in range(_ROUNDS):
        if not len(remaining):
            break
        src, tgt = pairs.src[remaining], pairs.tgt[remaining]
        for place, side in zip(first_pair, (src, tgt), strict=True):
            place[side[::-1]] = remaining[::-1]  # the last write stays: the first pair of each sentence
        now = (first_pair[0][src] == remaining) & (first_pair[1][tgt] == remaining)
        is_taken[remaining[now]] = True
        is_free[0][src[now]] = is_free[1][tgt[now]] = False
        remaining = remaining[is_free[0][src] & is_free[1][tgt]]
    for last in remaining:
        i, j = pairs.src[last], pairs.tgt[last]
        if is_free[0][i] and is_free[1][j]:
            is_free[0][i] = is_free[1][j] = False
            is_taken[last] = True
    return Pairs(*(field[is_taken] for field in pairs))
