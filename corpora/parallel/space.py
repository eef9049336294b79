"""How close the sides of a pair lie in the vectors of an encoder, beside what lies near each of them.

A cosine alone says little: texts of one kind lie close to each other anyway. So each side is compared with a sample of
the other language, and the mean cosine of its nearest texts there is taken off.

Source: Artetxe and Schwenk 2019 (margin).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from jaxtyping import Float32, Float64, Shaped

NAMES = ("cosine", "margin", "lead")
"""Of which `measure` gives the values."""
ARRAYS = ("means", "sample")
"""Names of the arrays that a space is stored as."""
_SAMPLE, _NEIGHBOURS, _ROWS = 2000, 4, 2048


@dataclass(frozen=True)
class Space:
    """Vectors of a sample of both languages.

    Attributes:
        means: float32 (2, dim), of each language, which are taken off.
        sample: float32 (2, num_texts, dim), centred and of length 1.
    """

    means: Float32[np.ndarray, "2 dim"]
    sample: Float32[np.ndarray, "2 texts dim"]

    def arrays(self) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return the space as numpy arrays by name, as they are stored."""
        return {"means": self.means, "sample": self.sample}

    @staticmethod
    def from_arrays(held: Mapping[str, Shaped[np.ndarray, "..."]]) -> Space:
        """Rebuild a space from the arrays that `arrays` returned."""
        return Space(held["means"].astype(np.float32), held["sample"].astype(np.float32))


def train(vectors: Float32[np.ndarray, "pairs 2 dim"]) -> Space:
    """The space of pairs of which those are sampled that stand evenly apart.

    Args:
        vectors: of both sides.
    """
    means = vectors.mean(axis=0)
    rows = np.linspace(0, len(vectors) - 1, min(_SAMPLE, len(vectors))).astype(np.int64)
    return Space(means, np.ascontiguousarray(_unit(vectors[rows] - means).transpose(1, 0, 2)))


def measure(space: Space, vectors: Float32[np.ndarray, "pairs 2 dim"]) -> Float64[np.ndarray, "pairs traits"]:
    """The values of `NAMES` for each pair, float64 (num_pairs, num_traits)."""
    parts = [_measured(space, vectors[first : first + _ROWS]) for first in range(0, len(vectors), _ROWS)]
    return np.concatenate(parts) if parts else np.zeros((0, len(NAMES)))


def _measured(space: Space, vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    src, tgt = _unit(vectors - space.means).transpose(1, 0, 2)
    cosine = (src * tgt).sum(axis=1)
    near = [
        -np.partition(-(side @ space.sample[1 - number].T), _NEIGHBOURS - 1, axis=1)[:, :_NEIGHBOURS]
        for number, side in enumerate((src, tgt))
    ]
    means = sum(each.mean(axis=1) for each in near) / 2
    best = np.maximum(near[0].max(axis=1), near[1].max(axis=1))
    return np.stack([cosine, cosine - means, cosine - best], axis=1).astype(np.float64)


def _unit(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    scaled: npt.NDArray[np.float32] = vectors / np.maximum(
        np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9
    )
    return scaled
