"""How close the sides of a pair lie in the vectors of an encoder, beside what lies near each of them.

A cosine alone says little: texts of one kind lie close to each other anyway. So each side is compared with a sample of
the other language, and the mean cosine of its nearest texts there is taken off. An encoder joins some languages better
than others, so a linear map that the pairs of the corpus teach brings the source side closer first.

Source: Artetxe and Schwenk 2019 (margin).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from xling.array_types import Float32, Float64, Shaped

NAMES = ("cosine", "margin", "lead")
"""Of which `measure` gives the values."""
ARRAYS = ("means", "onto", "sample")
"""Names of the arrays that a space is stored as."""
_SAMPLE, _NEIGHBOURS, _BLOCK_ROWS = 2000, 4, 2048
_EQUAL_COSINE = 1e-5
"""Two texts whose cosines with a third differ by less count as the same text."""
_RIDGE = 4.0
"""Ridge of the map, in mean squares of a dimension over the sample; more keeps closer to the encoder's own vectors."""


@dataclass(frozen=True)
class EmbeddingSpace:
    """Vectors of a sample of both languages.

    Attributes:
        means: float32 (2, dim), of each language, which are taken off.
        onto: float32 (dim, dim), brings centred source vectors closer to those of their targets.
        sample: float32 (2, num_texts, dim), centred and of length 1, the source mapped.
    """

    means: Float32[np.ndarray, "2 dim"]
    onto: Float32[np.ndarray, "dim dim"]
    sample: Float32[np.ndarray, "2 texts dim"]

    def arrays(self) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return the space as numpy arrays by name, as they are stored."""
        return {name: getattr(self, name) for name in ARRAYS}

    @staticmethod
    def from_arrays(arrays: Mapping[str, Shaped[np.ndarray, "..."]]) -> EmbeddingSpace:
        """Rebuild a space from the arrays that `arrays` returned."""
        return EmbeddingSpace(*(arrays[name].astype(np.float32) for name in ARRAYS))

    def project(self, vectors: Float32[np.ndarray, "pairs 2 dim"]) -> Float32[np.ndarray, "2 pairs dim"]:
        """Return the vectors of each side, centred, of length 1, the source mapped, float32 (2, num_pairs, dim)."""
        src, tgt = _unit_rows(vectors - self.means).transpose(1, 0, 2)
        return np.stack([_unit_rows(src @ self.onto), tgt])


def train(
    vectors: Float32[np.ndarray, "pairs 2 dim"], texts: Float32[np.ndarray, "texts 2 dim"] | None = None
) -> EmbeddingSpace:
    """Fit a space to sentence pairs.

    Args:
        vectors: of both sides of pairs that are not measured later.
        texts: vectors of both sides of the pairs that others are compared with; a long list is sampled at even steps.
            A measured pair may be among them. None takes ``vectors``.
    """
    means = vectors.mean(axis=0)
    src, tgt = _unit_rows(vectors - means).transpose(1, 0, 2)
    # The mean of two ridge regressions, of each side on the other, is one map from source to target vectors.
    num, dim = src.shape
    ridge = np.float32(_RIDGE * num / dim) * np.eye(dim, dtype=np.float32)
    cosine = np.float32((src * tgt).sum(axis=1).mean())
    there, back = (
        np.linalg.solve(mine.T @ mine + ridge, mine.T @ other + cosine * ridge)
        for mine, other in ((src, tgt), (tgt, src))
    )
    mean: npt.NDArray[np.float32] = ((there + back.T) / 2).astype(np.float32)
    placed = EmbeddingSpace(means, mean, np.zeros((2, 0, vectors.shape[2]), np.float32))
    texts = vectors if texts is None else texts
    rows = np.linspace(0, len(texts) - 1, min(_SAMPLE, len(texts))).astype(np.int64)
    return replace(placed, sample=placed.project(texts[rows]))


def measure(
    space: EmbeddingSpace, vectors: Float32[np.ndarray, "pairs 2 dim"]
) -> Float64[np.ndarray, "pairs features"]:
    """The values of `NAMES` for each pair, float64 (num_pairs, num_features)."""
    parts = [
        _distances(space, vectors[first : first + _BLOCK_ROWS])
        for first in range(0, len(vectors), _BLOCK_ROWS)
    ]
    return np.concatenate(parts) if parts else np.zeros((0, len(NAMES)))


def _distances(space: EmbeddingSpace, vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    src, tgt = space.project(vectors)
    cosine = (src * tgt).sum(axis=1)
    near = [_nearest(src, space.sample[1], cosine), _nearest(tgt, space.sample[0], cosine)]
    means = sum(each.mean(axis=1) for each in near) / 2
    best = np.maximum(near[0].max(axis=1), near[1].max(axis=1))
    return np.stack([cosine, cosine - means, cosine - best], axis=1).astype(np.float64)


def _nearest(
    side: npt.NDArray[np.float32], other_side: npt.NDArray[np.float32], pair_cosine: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """Return cosines of each text with its nearest others, without its own partner: texts of the same cosine."""
    cosines = side @ other_side.T
    cosines[np.abs(cosines - pair_cosine[:, None]) < _EQUAL_COSINE] = -1
    nearest: npt.NDArray[np.float32] = -np.partition(-cosines, _NEIGHBOURS - 1, axis=1)[:, :_NEIGHBOURS]
    return nearest


def _unit_rows(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    scaled: npt.NDArray[np.float32] = vectors / np.maximum(
        np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9
    )
    return scaled
