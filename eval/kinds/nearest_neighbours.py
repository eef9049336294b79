"""Retrieval of nearest translations among sentence vectors, and mining of pairs above a threshold.

Sources: margin: Artetxe and Schwenk 2019, Margin-based parallel corpus mining, equation 2 (ratio, k = 4);
    CSLS:
Lample et al. 2018, Word translation without parallel data, equation 2 (k = 10). The threshold of mining is
fitted on the training split as in LASER's BUCC task and never on the scored one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from xling.array_types import Float32, Int64
from xling.core.errors import UserError, unknown

Vectors: TypeAlias = npt.NDArray[np.float32]
Distance = Literal["cosine", "margin", "csls"]

NUM_NEIGHBOURS: dict[str, int] = {"cosine": 0, "margin": 4, "csls": 10}
BLOCK_ROWS = 1024
BLOCK_SCORES = 2**27


class Candidate(NamedTuple):
    """A pair of rows with its score."""

    src: int
    tgt: int
    score: float


def nearest_rows(
    src: Float32[np.ndarray, "src dim"], tgt: Float32[np.ndarray, "tgt dim"], distance: Distance = "cosine"
) -> Int64[np.ndarray, " src"]:
    """Return the row of ``tgt`` with the highest score for each row of ``src``; the first one on a tie.

    Returns:
        int64 (num_src,).
    """
    return best_rows(src, tgt, distance)[0]


def best_rows(
    src: Float32[np.ndarray, "src dim"], tgt: Float32[np.ndarray, "tgt dim"], distance: Distance
) -> tuple[Int64[np.ndarray, " src"], Float32[np.ndarray, " src"]]:
    """Return `nearest_rows` with the scores, float32 (num_src,)."""
    rows, scores = [], []
    for block in _score_blocks(src, tgt, distance):
        best = block.argmax(axis=1)
        rows.append(best)
        scores.append(block[np.arange(len(block)), best])
    return np.concatenate(rows), np.concatenate(scores)


def ranked(
    src: Float32[np.ndarray, "src dim"], tgt: Float32[np.ndarray, "tgt dim"], distance: Distance, depth: int
) -> tuple[Int64[np.ndarray, "src depth"], Float32[np.ndarray, "src depth"]]:
    """Return the rows of ``tgt`` with the highest scores for each row of ``src``, the best first; ties in their order.

    Returns:
        int64 (num_src, depth), or all of ``tgt`` where it has fewer rows; their scores, float32 of the same shape.
    """
    depth, rows, best = min(depth, len(tgt)), [], []
    for block in _score_blocks(src, tgt, distance):
        least = np.partition(block, -depth, axis=1)[:, -depth]
        for scores, bound in zip(block, least, strict=True):
            places = np.flatnonzero(scores >= bound)
            rows.append(places[np.argsort(-scores[places], kind="stable")][:depth])
            best.append(scores[rows[-1]])
    return np.stack(rows), np.stack(best)


def _score_blocks(src: Vectors, tgt: Vectors, distance: Distance) -> Iterator[Vectors]:
    """Yield the scores of some rows of ``src`` with all of ``tgt``, float32 (block, num_tgt), in order."""
    if distance not in NUM_NEIGHBOURS:
        raise unknown("distance", distance, NUM_NEIGHBOURS)
    a, b = normalise(src), normalise(tgt)
    src_means, tgt_means = (
        mean_of_nearest(a, b, NUM_NEIGHBOURS[distance]),
        mean_of_nearest(b, a, NUM_NEIGHBOURS[distance]),
    )
    size = block_rows(len(b))
    for start in range(0, len(a), size):
        block = _cosines(a[start : start + size], b)
        if distance == "margin":
            block /= (src_means[start : start + size, None] + tgt_means[None]) / 2
        elif distance == "csls":
            block = 2 * block - src_means[start : start + size, None] - tgt_means[None]
        yield block


def block_rows(num_columns: int) -> int:
    """Return how many rows of scores are held at once: 1,024, or fewer if they would take more than 0.5 GB."""
    return min(BLOCK_ROWS, max(1, BLOCK_SCORES // max(1, num_columns)))


def centre(vectors: Float32[np.ndarray, "rows dim"]) -> Float32[np.ndarray, "rows dim"]:
    """Subtract the mean from rows (num, dim); a row that would become zero is unchanged.

    The mean of many sentences is what their language adds to every one of them.

    Source: Libovický, Rosa and Fraser 2020, On the language neutrality of pre-trained multilingual representations.
    """
    moved = vectors - vectors.mean(axis=0, keepdims=True)
    return np.where(moved.any(axis=1, keepdims=True), moved, vectors)


def normalise(vectors: Float32[np.ndarray, "rows dim"]) -> Float32[np.ndarray, "rows dim"]:
    """Scale rows to length 1.

    Raises:
        UserError: no rows, a value that is not a number, or a row of zeros.
    """
    if vectors.ndim != 2 or not len(vectors):
        raise UserError(f"vectors of shape {vectors.shape}", "(rows, dimensions) with at least one row")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or (lengths == 0).any():
        row = int(np.argmax(~(np.isfinite(lengths) & (lengths > 0)).ravel()))
        raise UserError(f"vector {row} has length {float(lengths[row, 0])}", "finite vectors other than zero")
    return np.asarray(vectors / lengths, dtype=np.float32)


def _cosines(a: Vectors, b: Vectors) -> Vectors:
    """Return the dot products of normalised rows, float32 (num_a, num_b)."""
    with np.errstate(invalid="ignore"):  # some BLAS kernels raise the flag for lanes that hold no value
        return a @ b.T


def mean_of_nearest(
    a: Float32[np.ndarray, "rows dim"], b: Float32[np.ndarray, "others dim"], k: int
) -> Float32[np.ndarray, " rows"]:
    """Return the mean cosine of each row of ``a`` to its ``k`` nearest of ``b``, float32 (num_a,); zeros for k = 0."""
    if k == 0:
        return np.zeros(len(a), dtype=np.float32)
    k, size = min(k, len(b)), block_rows(len(b))
    means = [
        np.partition(_cosines(a[start : start + size], b), -k, axis=1)[:, -k:].mean(axis=1)
        for start in range(0, len(a), size)
    ]
    return np.concatenate(means)


def mine_pairs(
    src: Float32[np.ndarray, "src dim"], tgt: Float32[np.ndarray, "tgt dim"], distance: Distance = "margin"
) -> list[Candidate]:
    """Match rows greedily by descending score in both directions, each row at most once."""
    forward, forward_scores = best_rows(src, tgt, distance)
    backward, backward_scores = best_rows(tgt, src, distance)
    best = {(i, int(j)): float(s) for i, (j, s) in enumerate(zip(forward, forward_scores, strict=True))}
    for j, (i, s) in enumerate(zip(backward, backward_scores, strict=True)):
        best.setdefault((int(i), j), float(s))
    pairs, used_src, used_tgt = [], set(), set()
    for (i, j), score in sorted(best.items(), key=lambda item: (-item[1], item[0])):
        if i not in used_src and j not in used_tgt:
            pairs.append(Candidate(i, j, score))
            used_src.add(i)
            used_tgt.add(j)
    return pairs


def fit_threshold(pairs: Sequence[Candidate], gold: Set[tuple[int, int]]) -> tuple[float, float]:
    """Return the threshold between neighbouring candidates with the best F1, and that F1 in percent.

    Args:
        pairs: candidates by falling score, from a training split.
        gold: its true pairs of rows.

    Raises:
        UserError: no candidate is right, so no threshold can be fitted.
    """
    num_right, best, threshold = 0, 0.0, float("inf")
    for count, pair in enumerate(pairs, 1):
        num_right += (pair.src, pair.tgt) in gold
        f1 = 200 * num_right / (count + len(gold))
        if num_right and f1 > best:
            below = pairs[count].score if count < len(pairs) else pair.score
            best, threshold = f1, (pair.score + below) / 2
    if not best:
        raise UserError(
            "no mined pair of the training split is right", fix="check that its gold pairs fit its files"
        )
    return threshold, best
