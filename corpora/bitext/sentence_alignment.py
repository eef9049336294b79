"""Alignment of the sentences of two documents by dynamic programming.

A bead joins 0 to `MAX_BEAD_SENTENCES` sentences of one side with as many of the other. It is worth its cosine, of
summed sentence vectors, above that of sentences taken at random, less a penalty for unlike lengths. Vectors may come
from an encoder or from `xling.corpora.bitext.evidence`; without any, lengths alone decide.

Sources: Gale and Church 1993 (lengths, priors of beads); Thompson and Koehn 2019 (Vecalign: sums of sentence vectors,
cosines set against those of random sentences).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from xling.array_types import Float, Float32

Floats = npt.NDArray[np.float32]
MAX_BEAD_SENTENCES = 4
BEAD_SHAPES = ((1, 1), (1, 2), (2, 1), (2, 2), (1, 3), (3, 1), (2, 3), (3, 2), (1, 4), (4, 1))
"""Sentences of each side in a bead; beside them a sentence of either side may stand alone."""
WINDOW_SENTENCES = 2000
"""Sentences of a side that are aligned at once; of a longer document the sure part is kept, and so on."""

_SURE_SHARE = 0.8
# Gale and Church: variance of the length in characters per character; prior of each shape as -log, their table 5.
_LENGTH_VARIANCE = 6.8
_PRIORS = {(1, 1): 0.117, (1, 2): 2.42, (2, 1): 2.42, (2, 2): 4.51}
_OTHER_PRIOR, _GAP_PRIOR = 5.5, 4.61
_LENGTH_WEIGHT = 0.06
_MIN_COSINE_SHARE = 0.1
"""Share of the way from a random pair's cosine to a good pair's at which a bead is worth nothing."""
_COST_PER_SENTENCE = 0.3
"""What each further sentence of a bead must add."""
_COSINE_WEIGHT = 3.0
"""What vectors add to a bead that is judged by lengths, in nats."""
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Bead:
    """Sentences ``src[0]`` to ``src[1]`` (half-open) that mean the same as ``tgt[0]`` to ``tgt[1]``.

    Attributes:
        src: range of source sentences.
        tgt: range of target sentences.
        score: 0 for random sentences, 1 for a good pair of these documents; may exceed both.
    """

    src: tuple[int, int]
    tgt: tuple[int, int]
    score: float


@dataclass(frozen=True)
class DocumentSide:
    """The sentences of one side of a document.

    Attributes:
        lengths: characters of each sentence, float32 (sentences,), scaled so that both sides are as long.
        vectors: one a sentence, (sentences, dim), dense or sparse (scipy CSR); None where lengths decide alone.
    """

    lengths: Float32[np.ndarray, " sentences"]
    vectors: Any = None

    def part(self, start: int, end: int) -> DocumentSide:
        """Return the side with its sentences ``start`` to ``end`` alone."""
        return DocumentSide(
            self.lengths[start:end], None if self.vectors is None else self.vectors[start:end]
        )


def align(
    src: DocumentSide, tgt: DocumentSide, scale: tuple[float, float] = (0.0, 1.0), lengths_first: bool = False
) -> list[Bead]:
    """The best alignment; sentences without a counterpart are in no bead.

    Args:
        scale: cosine of random pairs, and of good ones (`scale_of`).
        lengths_first: lengths decide, and vectors add what they show: for vectors that many good pairs do not have.
    """
    all_beads: list[Bead] = []
    i = j = 0
    while i < len(src.lengths) and j < len(tgt.lengths):
        end = min(len(src.lengths), i + WINDOW_SENTENCES), min(len(tgt.lengths), j + WINDOW_SENTENCES)
        is_last_window = end == (len(src.lengths), len(tgt.lengths))
        beads = list(_best_path(src.part(i, end[0]), tgt.part(j, end[1]), scale, lengths_first))
        sure_beads = beads if is_last_window else beads[: max(1, int(_SURE_SHARE * len(beads)))]
        all_beads += [
            Bead((i + b.src[0], i + b.src[1]), (j + b.tgt[0], j + b.tgt[1]), b.score) for b in sure_beads
        ]
        if is_last_window or not sure_beads:
            break
        i, j = all_beads[-1].src[1], all_beads[-1].tgt[1]
    return all_beads


def _best_path(
    src: DocumentSide, tgt: DocumentSide, scale: tuple[float, float], lengths_first: bool
) -> Iterator[Bead]:
    """The best path through one window, in order."""
    bead_scores = _BeadScores(src, tgt, scale, lengths_first)
    rows, columns = len(src.lengths), len(tgt.lengths)
    best_totals = np.full((rows + 1, columns + 1), -np.inf)
    backpointers = np.zeros((rows + 1, columns + 1), np.int8)
    gaps = bead_scores.gap * np.arange(columns + 1)
    for i in range(rows + 1):
        best = np.full(columns + 1, -np.inf)
        kind = np.zeros(columns + 1, np.int8)
        if i == 0:
            best[0] = 0
        else:
            best, kind = best_totals[i - 1] + bead_scores.gap, np.full(columns + 1, -1, np.int8)
        for number, (a, b) in enumerate(BEAD_SHAPES):
            if a <= i and b <= columns:
                new = best_totals[i - a, : columns + 1 - b] + bead_scores.row(i - a, a, b)
                better = new > best[b:]
                best[b:][better], kind[b:][better] = new[better], number + 1
        # Sentences of the target alone: the best of all places to the left, less a gap for each step.
        reach = np.maximum.accumulate(best - gaps) + gaps
        is_target_gap = reach > best + _ROUNDING
        kind[is_target_gap] = -2
        best_totals[i], backpointers[i] = np.where(is_target_gap, reach, best), kind
    path = []
    i, j = rows, columns
    while i or j:
        backpointer = int(backpointers[i, j])
        if backpointer > 0:
            a, b = BEAD_SHAPES[backpointer - 1]
            path.append(Bead((i - a, i), (j - b, j), bead_scores.score(i - a, a, j - b, b)))
            i, j = i - a, j - b
        elif backpointer == -1:
            i -= 1
        else:
            j -= 1
    yield from reversed(path)


class _BeadScores:
    """Worth of beads in one window."""

    def __init__(
        self, src: DocumentSide, tgt: DocumentSide, scale: tuple[float, float], lengths_first: bool
    ) -> None:
        self._src, self._tgt, self._scale, self._lengths_first = src, tgt, scale, lengths_first
        self._has_vectors = src.vectors is not None
        if self._has_vectors:
            self._dots = _dense(src.vectors @ tgt.vectors.T)
            self._norms = [_norms(side.vectors) for side in (src, tgt)]
        self.gap = 0.0 if self._has_vectors and not lengths_first else -_GAP_PRIOR
        self._lengths = [np.concatenate([[0], np.cumsum(side.lengths)]) for side in (src, tgt)]

    def row(self, i: int, a: int, b: int) -> Float32[np.ndarray, " targets"]:
        """Worth of the beads of ``a`` source sentences from ``i`` and any ``b`` target sentences, float32."""
        lengths = self._length_cost(i, a, b)
        length_scores = -lengths - _PRIORS.get((a, b), _OTHER_PRIOR)
        if not self._has_vectors:
            return np.asarray(length_scores, dtype=np.float32)
        random_cosine, good_cosine = self._scale
        share = (self._cosines(i, a, b) - random_cosine) / (good_cosine - random_cosine)
        if self._lengths_first:
            return np.asarray(
                length_scores + _COSINE_WEIGHT * np.maximum(share, 0) * (a + b) / 2, dtype=np.float32
            )
        scores = (
            (share - _MIN_COSINE_SHARE) * (a + b) / 2
            - _COST_PER_SENTENCE * (a + b - 2)
            - _LENGTH_WEIGHT * lengths
        )
        return np.asarray(scores, dtype=np.float32)

    def score(self, i: int, a: int, j: int, b: int) -> float:
        """Score of one bead."""
        if not self._has_vectors:
            return float(np.exp(-self._length_cost(i, a, b)[j] / 4))
        random_cosine, good_cosine = self._scale
        return float((self._cosines(i, a, b)[j] - random_cosine) / (good_cosine - random_cosine))

    def _cosines(self, i: int, a: int, b: int) -> Floats:
        rows = self._dots[i : i + a].sum(axis=0)
        columns = len(rows) + 1 - b
        dots = sum(rows[k : k + columns] for k in range(b))
        return np.asarray(dots / np.maximum(self._norms[0][a - 1][i] * self._norms[1][b - 1], 1e-9))

    def _length_cost(self, i: int, a: int, b: int) -> Floats:
        """Half the squared deviation of the target's lengths from the source's, at most 8, (places,)."""
        src_lengths = self._lengths[0][i + a] - self._lengths[0][i]
        tgt_lengths = self._lengths[1][b:] - self._lengths[1][:-b]
        deviation = (tgt_lengths - src_lengths) ** 2 / (
            _LENGTH_VARIANCE * np.maximum((src_lengths + tgt_lengths) / 2, 1.0)
        )
        return np.asarray(np.minimum(deviation / 2, 8.0))


def _dense(matrix: Any) -> Floats:
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=np.float32)


def _norms(vectors: Any) -> list[Floats]:
    """Norms of the sums of 1 to `MAX_BEAD_SENTENCES` neighbours, each (places,)."""
    norms, sums = [], vectors
    for count in range(1, MAX_BEAD_SENTENCES + 1):
        if count > vectors.shape[0]:
            break
        if count > 1:
            sums = sums[:-1] + vectors[count - 1 :]
        squares = sums.multiply(sums).sum(axis=1) if hasattr(sums, "multiply") else (sums**2).sum(axis=1)
        norms.append(np.sqrt(np.asarray(squares, dtype=np.float32).ravel()))
    return norms


def scale_of(
    src: Float[np.ndarray, "src dim"] | Any, tgt: Float[np.ndarray, "tgt dim"] | Any
) -> tuple[float, float]:
    """Cosine of random pairs, and of good ones: the mean of all and the median of each sentence's best.

    Args:
        src: vectors of length 1, dense or sparse.
        tgt: likewise.
    """
    step = max(1, src.shape[0] // 500), max(1, tgt.shape[0] // 2000)
    cosines = _dense(src[:: step[0]] @ tgt[:: step[1]].T)
    random_cosine, good_cosine = float(cosines.mean()), float(np.median(cosines.max(axis=1)))
    return random_cosine, max(good_cosine, random_cosine + 1e-3)
