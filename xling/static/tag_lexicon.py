"""Lexicon of tags: how often each spelling has each type of tag, as a feature of a tagger.

A frozen encoder gives a rare name a vector that says little. The lexicon remembers names and words of the tagged
texts and of texts with projected tags. Spellings are romanised, so a name is found in other scripts too: once
by its Latin letters and once by its consonants.

Sources: tags of word types from projection: Täckström et al. 2013, Token and type constraints for cross-lingual
part-of-speech tagging. Other occurrences of a name: Ratinov and Roth 2009, Design challenges and misconceptions
in named entity recognition, section 4.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from xling.array_types import Float32, Int64
from xling.static.tag_projection import OUTSIDE_TAG, tag_types_of
from xling.text.words.features import MIN_CONSONANTS
from xling.text.words.han import simplify
from xling.text.words.romanise import consonants_of, romanise

PRIOR_COUNT = 0.5
"""Added to the number of occurrences: a spelling that was seen once has shares below 1."""


class TagLexicon:
    """Counts of tag types by spelling.

    Args:
        labels: tags; B- and I- of a name are one type.
        texts: words with their tags; other tags than ``labels`` are ignored.
    """

    def __init__(
        self, labels: Sequence[str], texts: Sequence[tuple[Sequence[str], Sequence[str]]] = ()
    ) -> None:
        self.labels = tuple(labels)
        self._types, self._type_of_label = tag_types_of(labels)
        self._feature_types = [i for i, name in enumerate(self._types) if name != OUTSIDE_TAG]
        self.row_of_key: dict[str, int] = {}
        self._rows_of_word: dict[str, tuple[int, int]] = {}
        # The last row is that of spellings without a key, -1, and stays zero.
        self.counts = np.zeros((1, len(self._types)), np.float32)
        self.add_texts([words for words, _ in texts], [self.shares(tags) for _, tags in texts])

    def restore(self, spellings: Sequence[str], counts: Float32[np.ndarray, "_ types"]) -> None:
        """Take over the keys of ``row_of_key``, and ``counts``, of a lexicon of the same labels."""
        self.row_of_key, self.counts = {key: row for row, key in enumerate(spellings)}, counts
        if counts.shape != (len(self.row_of_key) + 1, len(self._types)):
            raise ValueError(f"{len(spellings)} spellings have counts of shape {counts.shape}")

    @property
    def dim(self) -> int:
        """Number of features of a word: for both spellings one per type, without words outside of names."""
        return 2 * len(self._feature_types)

    def shares(self, tags: Sequence[str]) -> Float32[np.ndarray, "words types"]:
        """Return 1 at the type of each tag, (num_words, types); zeros for other tags."""
        shares = np.zeros((len(tags), len(self._types)), np.float32)
        for row, tag in zip(shares, tags, strict=True):
            if tag in self._type_of_label:
                row[self._type_of_label[tag]] = 1
        return shares

    def type_probabilities(
        self, probabilities: Float32[np.ndarray, "_ labels"]
    ) -> Float32[np.ndarray, "_ types"]:
        """Return the probabilities of the types from those of the labels, (num_words, types)."""
        types = np.eye(len(self._types), dtype=np.float32)[list(self._type_of_label.values())]
        return np.asarray(probabilities @ types)

    def add_texts(
        self, texts: Sequence[Sequence[str]], shares: Sequence[Float32[np.ndarray, "_ types"]]
    ) -> None:
        """Count the words of some texts.

        Args:
            shares: probabilities of the types of the words of each text, (num_words, types).
        """
        if not texts:
            return
        rows = np.concatenate([self._lookup_rows(words, add_new=True) for words in texts])
        counts = np.zeros((len(self.row_of_key) + 1, len(self._types)), np.float32)
        counts[: len(self.counts) - 1] = self.counts[:-1]
        all_shares = np.concatenate(shares)
        for column in rows.T:
            is_key = column >= 0
            np.add.at(counts, column[is_key], all_shares[is_key])
        self.counts = counts

    def features(
        self, words: Sequence[str], own_shares: Float32[np.ndarray, "words types"] | None = None
    ) -> Float32[Tensor, "words features"]:
        """Return the share of each type among the occurrences of each word's spellings.

        Args:
            words: words of a text.
            own_shares: what this text added, to be left out: else a tagger learns to copy the tag that it has
                to predict.

        Returns:
            float32 (num_words, dim); zeros for a new spelling.
        """
        spelling_features = []
        for column in self._lookup_rows(words).T:
            counts = self.counts[column]
            if own_shares is not None:
                counts = np.maximum(counts - (column[:, None] == column) @ own_shares, 0)
            spelling_features.append(
                (counts / (counts.sum(1, keepdims=True) + PRIOR_COUNT))[:, self._feature_types]
            )
        return torch.from_numpy(np.concatenate(spelling_features, 1).astype(np.float32))

    def _lookup_rows(self, words: Sequence[str], add_new: bool = False) -> Int64[np.ndarray, "words 2"]:
        """Return the row in the counts of both spellings of each word; -1 for a spelling that was never counted."""
        return np.array([self._rows_of_spellings(word, add_new) for word in words], np.int64).reshape(-1, 2)

    def _rows_of_spellings(self, word: str, add_new: bool) -> tuple[int, int]:
        if word in self._rows_of_word:
            return self._rows_of_word[word]
        roman = romanise(word.lower()) or simplify(word.lower())
        consonants = consonants_of(roman) if roman[:1].isalpha() else ""
        keys = [f"W{roman}", f"S{consonants}" if len(consonants) >= MIN_CONSONANTS else ""]
        if add_new:
            for key in filter(None, keys):
                self.row_of_key.setdefault(key, len(self.row_of_key))
        first, second = (self.row_of_key.get(key, -1) for key in keys)
        if add_new:
            self._rows_of_word[word] = first, second
        return first, second
