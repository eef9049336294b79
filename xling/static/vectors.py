"""Vectors of a static encoder: a word is the mean of its features, a sentence the weighted sum of its words.

An exported encoder carries a copy of this file, so it imports nothing but torch and the features
(`xling.hub.static_export`).

A word's weight falls with its frequency, and is learned beside that from the direction of its vector.

Sources: features: Bojanowski et al. 2017; weights of words: Arora et al. 2017, A simple but tough-to-beat
baseline.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from xling.array_types import Float32
from xling.text.words.features import hash_features, split_tokens
from xling.text.words.han import simplify

if TYPE_CHECKING:
    from xling.static.shape import StaticConfig

SKETCH_BITS, SKETCH_SEED = 15, 1
REMEMBERED_WORDS = 1 << 15
"""Words whose vectors an encoder remembers between calls: 75 MB with 576 numbers. Texts share most of their words."""
WEIGHT_SCALE = 4.0
"""Factor of the cosine-like product in `learned_weights`, so that small steps of the direction count."""


class StaticEncoder:
    """Encoder of words and sentences in any language by static vectors.

    Args:
        cfg: shape.
        table: (2 ** bits, dim), float32.
        share: hash of a word -> its share of a text; missing words have weight 1.
        weight_direction: (dim,), float32, what `learned_weights` multiplies; default: zeros, which leave the weights.
    """

    def __init__(
        self,
        cfg: StaticConfig,
        table: Float32[Tensor, "rows dim"],
        share: dict[int, float],
        weight_direction: Float32[Tensor, " dim"] | None = None,
    ) -> None:
        assert table.shape == (1 << cfg.bits, cfg.dim), table.shape
        self.cfg, self.table, self.share = cfg, table, share
        self.weight_direction = torch.zeros(cfg.dim) if weight_direction is None else weight_direction
        self._remembered: dict[str, Tensor] = {}
        generator = torch.Generator().manual_seed(SKETCH_SEED)
        self._sketch_table = torch.randn(
            1 << SKETCH_BITS if cfg.sketch else 0, cfg.sketch, generator=generator
        )

    @property
    def dim(self) -> int:
        """Size of the word vectors."""
        return self.cfg.dim

    def weight(self, word: str) -> float:
        """Return the weight of a word in a sentence by its frequency, 0 to 1."""
        share = self.share.get(word_hash(word), 0.0)
        return self.cfg.smooth / (self.cfg.smooth + share)

    def word_vectors(self, words: Sequence[str]) -> Float32[Tensor, "words dim"]:
        """Return learned vectors of words as a suite splits them, float32 (num_words, dim), not normalised.

        A word of several tokens (a name with a full stop, a word without spaces) is the mean of all their
        features.
        """
        return self._word_vectors(words)[:, : self.dim]

    def without_sketch(self) -> StaticEncoder:
        """Return the same encoder without spelling sketches."""
        return StaticEncoder(replace(self.cfg, sketch=0), self.table, self.share, self.weight_direction)

    def token_vectors(self, words: Sequence[str]) -> Float32[Tensor, "words dim"]:
        """Return learned vectors of length 1 of what `features.tokens` returns, float32 (num_words, dim)."""
        return unit_length(self._mean_vectors([[word] for word in words])[:, : self.dim])

    def words_with_sketches(self, words: Sequence[str]) -> Float32[Tensor, "words dim_and_sketch"]:
        """Return vectors and spelling sketches, each of length 1, joined, float32 (num_words, dim + sketch)."""
        vectors = self._word_vectors(words)
        return torch.cat([unit_length(vectors[:, : self.dim]), unit_length(vectors[:, self.dim :])], 1)

    def sentence_vectors(self, texts: Sequence[str]) -> Float32[Tensor, "texts dim_and_sketch"]:
        """Return learned vectors of texts, of length 1, concatenated with their sketches; zeros for an empty text.

        Returns:
            float32 (num_texts, dim + sketch).
        """
        index_of_word: dict[str, int] = {}
        version = self.cfg.features  # asked once: transformers' configurations are slow to answer
        word_indices = [
            [
                index_of_word.setdefault(word.lower(), len(index_of_word))
                for word in split_tokens(text, version)
            ]
            for text in texts
        ]
        sums = _sum_or_mean_rows(word_indices, self._weighted_vectors(list(index_of_word)), "sum")
        learned_vectors, sketch = unit_length(sums[:, : self.dim]), unit_length(sums[:, self.dim :])
        return torch.cat([learned_vectors, sketch * self.cfg.sketch_weight], 1)

    def _weighted_vectors(self, words: Sequence[str]) -> Tensor:
        """Return vectors and sketches of different words times their weights, (num_words, dim + sketch).

        Words of earlier calls are remembered, up to `REMEMBERED_WORDS`.
        """
        if len(words) > REMEMBERED_WORDS:
            return self._compute_weighted(words)
        if len(self._remembered) + len(words) > REMEMBERED_WORDS:
            self._remembered = {}
        known = self._remembered  # a call of another thread may begin with a new one
        if new := [word for word in words if word not in known]:
            known.update(zip(new, self._compute_weighted(new).unbind(), strict=True))
        width = self.dim + self.cfg.sketch
        return torch.stack([known[word] for word in words]) if words else torch.zeros(0, width)

    def _compute_weighted(self, words: Sequence[str]) -> Tensor:
        vectors = self._mean_vectors([[word] for word in words])
        weights = torch.tensor([self.weight(word) for word in words])
        return vectors * (weights * learned_weights(vectors[:, : self.dim], self.weight_direction))[:, None]

    def _word_vectors(self, words: Sequence[str]) -> Tensor:
        index_of_word = {word: i for i, word in enumerate(dict.fromkeys(words))}
        means = self._mean_vectors([split_tokens(word, self.cfg.features) for word in index_of_word])
        return means[torch.tensor([index_of_word[word] for word in words], dtype=torch.int64)]

    def _mean_vectors(self, groups: Sequence[Sequence[str]]) -> Tensor:
        """Average the token features of each group, learned ones first, (num_groups, dim + sketch)."""
        version = self.cfg.features
        hashes = [[h for token in group for h in hash_features(token, version).tolist()] for group in groups]
        num_rows = len(self.table)
        learned = _sum_or_mean_rows([[h % num_rows for h in each] for each in hashes], self.table, "mean")
        if not self.cfg.sketch:
            return learned
        # Use other bits of the hash than the table does, so that features that share a table row differ here.
        sketch_rows = [[h >> (32 - SKETCH_BITS) for h in each] for each in hashes]
        return torch.cat([learned, _sum_or_mean_rows(sketch_rows, self._sketch_table, "mean")], 1)


def _sum_or_mean_rows(rows: Sequence[Sequence[int]], table: Tensor, mode: str) -> Tensor:
    """Return the sum or mean of some rows of a table for each list of them; zeros for an empty list."""
    all_rows = torch.tensor([row for each in rows for row in each], dtype=torch.int64)
    lengths = torch.tensor([len(each) for each in rows], dtype=torch.int64)
    if not len(all_rows):
        return torch.zeros(len(rows), table.shape[1])
    return F.embedding_bag(all_rows, table, lengths.cumsum(0) - lengths, mode=mode)


def word_hash(word: str) -> int:
    """Return the hash of a word, in lower case and simplified characters, in a model's list of frequent words."""
    return zlib.crc32(f"W{simplify(word.lower())}".encode())


def learned_weights(
    vectors: Float32[Tensor, "words dim"], direction: Float32[Tensor, " dim"]
) -> Float32[Tensor, " words"]:
    """Return the factor of each word's weight in a sentence, above 0, (num_words,), by the direction of its vector."""
    products = (
        unit_length(vectors) * direction
    )  # summed row by row: a matrix product depends on the other rows
    return (WEIGHT_SCALE * products.sum(1)).exp()


def unit_length(vectors: Float32[Tensor, "*batch dim"]) -> Float32[Tensor, "*batch dim"]:
    """Normalise rows to length 1; a row of zeros is kept."""
    return F.normalize(vectors, dim=-1, eps=1e-6)
