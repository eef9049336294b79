"""Links between the words of two texts that translate each other, by the vectors of a static encoder.

Two words are linked if each is the other's nearest one, which is more precise than it is complete. Source: Jalili
Sabet et al. 2020, SimAlign, section 2 (argmax in both directions; the bonus for near places is theirs too). Our choice:
static vectors, from which the mean of all words is taken, and a least similarity.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch.nn.functional as F

from xling.array_types import Float32, Int64
from xling.static import encoder_files

MAX_KEPT = 1 << 26
"""Numbers of the vectors of words in memory; all words are forgotten when there are more."""
NEAR = 0.1
"""What a pair of words at the two ends of their texts loses."""


class WordLinks:
    """Links words by a static encoder."""

    def __init__(self, encoder: Path, least: float) -> None:
        self.least = least
        self._encoder = encoder_files.load_encoder(encoder).without_sketch()
        self._mean = F.normalize(self._encoder.table, dim=1).mean(0).numpy()
        self._rows: dict[str, int] = {}
        self._kept: Float32[np.ndarray, "rows dim"] = np.zeros((0, len(self._mean)), np.float32)

    def between(self, src: Sequence[str], tgt: Sequence[str]) -> Int64[np.ndarray, "links 2"]:
        """Return the places of linked words, int64 (num_links, 2): in ``src``, then in ``tgt``."""
        ours, theirs = self._vectors(src), self._vectors(tgt)
        if not len(ours) or not len(theirs):
            return np.zeros((0, 2), np.int64)
        places = np.arange(len(src)) / len(src), np.arange(len(tgt)) / len(tgt)
        cosines = ours @ theirs.T
        scores = cosines - NEAR * np.abs(places[0][:, None] - places[1])
        best = scores.argmax(1)
        mutual = scores.argmax(0)[best] == np.arange(len(src))
        kept = np.flatnonzero(mutual & (cosines[np.arange(len(src)), best] >= self.least))
        return np.stack([kept, best[kept]], 1)

    def _vectors(self, words: Sequence[str]) -> Float32[np.ndarray, "words dim"]:
        if missing := [word for word in dict.fromkeys(words) if word not in self._rows]:
            if len(self._rows) * len(self._mean) > MAX_KEPT:
                self._rows.clear()
                missing = list(dict.fromkeys(words))
            vectors = F.normalize(self._encoder.word_vectors(missing), dim=1).numpy()
            vectors = (vectors - self._mean) * (np.abs(vectors).sum(1, keepdims=True) > 0)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-6)
            first = len(self._rows)
            if first + len(missing) > len(self._kept):
                more = np.zeros((first + len(missing), len(self._mean)), np.float32)  # double at least
                self._kept = np.concatenate([self._kept[:first], more])
            self._kept[first : first + len(missing)] = vectors
            self._rows.update(zip(missing, range(first, first + len(missing)), strict=True))
        return self._kept[[self._rows[word] for word in words]]
