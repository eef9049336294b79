"""How many words of a text have a translation in another: similarities of the single words of two texts.

A sentence vector is a sum, in which two texts of one topic are near each other. Matching the words one by one
tells which of a few near texts is the translation.

Sources: sum over the words of the greatest similarity: Khattab and Zaharia 2020, ColBERT, section 3.3; both
directions with weights for rare words: Zhang et al. 2020, BERTScore, section 3; CSLS: Lample et al. 2018, Word
translation without parallel data, equation 2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from xling.array_types import Float32, Int64
from xling.static.vectors import StaticEncoder, unit_length
from xling.text.words.features import split_tokens

MAX_WORDS = 60
"""Longer texts are compared by their first words."""
NUM_NEIGHBOURS, BLOCK_WORDS = 10, 1024
"""Neighbours of a word that tell how near it is to all words (k of CSLS), and words compared at a time."""


def match_candidates(
    encoder: StaticEncoder, src: Sequence[str], tgt: Sequence[str], candidates: Int64[np.ndarray, "src depth"]
) -> Float32[np.ndarray, "src depth"]:
    """Return how well the words of each text match those of some others.

    This is the weighted mean over the words of both texts of the greatest similarity to a word of the other text.
    Similarities are CSLS of vectors without the mean of their side: a word that is near all others counts less.

    Args:
        encoder: provides vectors and weights of words.
        src: texts.
        tgt: texts of another language.
        candidates: (num_src, depth), rows of ``tgt`` to compare each text with.
    """
    words, other_words = _WordVectors(encoder, src), _WordVectors(encoder, tgt)
    hubness, other_hubness = words.hubness(other_words), other_words.hubness(words)
    scores = np.zeros(candidates.shape, np.float32)
    for row, candidate_rows in enumerate(candidates.tolist()):
        (vectors, weights), row_hubness = words.padded_vectors_and_weights([row]), words.pad(hubness, [row])
        (other_vectors, other_weights), candidate_hubness = (
            other_words.padded_vectors_and_weights(candidate_rows),
            other_words.pad(other_hubness, candidate_rows),
        )
        similarities = (
            2 * vectors @ other_vectors.transpose(1, 2) - row_hubness[:, :, None] - candidate_hubness[:, None]
        )
        best_forward = similarities.masked_fill(other_weights[:, None] == 0, -torch.inf).amax(2)
        total = (best_forward * weights).sum(1) + (similarities.amax(1) * other_weights).sum(1)
        scores[row] = (total / (weights.sum(1) + other_weights.sum(1))).numpy()
    return scores


def match_all(encoder: StaticEncoder, src: Sequence[str], tgt: Sequence[str]) -> Float32[Tensor, "src tgt"]:
    """Return what `match_candidates` returns for every pair of texts, (num_src, num_tgt)."""
    words, other_words = _WordVectors(encoder, src), _WordVectors(encoder, tgt)
    hubness, other_hubness = words.hubness(other_words), other_words.hubness(words)[other_words.all_indices]
    vectors, weights = (
        other_words.vectors[other_words.all_indices],
        other_words.weights[other_words.all_indices],
    )
    text_of_word = torch.repeat_interleave(
        torch.tensor([len(indices) for indices in other_words.word_indices])
    )
    weight_sums = torch.zeros(len(tgt)).index_add(0, text_of_word, weights)
    scores = torch.zeros(len(src), len(tgt))
    for row, indices in enumerate(words.word_indices):
        similarities = 2 * words.vectors[indices] @ vectors.T - hubness[indices][:, None] - other_hubness
        best = torch.full((len(indices), len(tgt)), -torch.inf)
        best = best.scatter_reduce(1, text_of_word.expand(len(indices), -1), similarities, "amax")
        row_weights = words.weights[indices]
        scores[row] = row_weights @ best + torch.zeros(len(tgt)).index_add(
            0, text_of_word, similarities.amax(0) * weights
        )
        scores[row] /= row_weights.sum() + weight_sums
    return scores


class _WordVectors:
    """Centred vectors and weights of the words of texts; each word is looked up once."""

    def __init__(self, encoder: StaticEncoder, texts: Sequence[str]) -> None:
        index_of_word: dict[str, int] = {}
        self.word_indices = [
            torch.tensor(
                [
                    index_of_word.setdefault(word.lower(), len(index_of_word))
                    for word in split_tokens(text, encoder.cfg.features)[:MAX_WORDS] or ["."]
                ]
            )
            for text in texts
        ]
        vectors = encoder.token_vectors(list(index_of_word))
        self.all_indices = torch.cat(self.word_indices)
        count = torch.bincount(self.all_indices).float()
        self.vectors = unit_length(vectors - count @ vectors / count.sum())
        self.weights = torch.tensor([encoder.weight(word) for word in index_of_word])

    def hubness(self, other_words: _WordVectors) -> Float32[Tensor, " words"]:
        """Return the mean cosine of each word to its nearest words of the other side, (num_words,)."""
        depth = min(NUM_NEIGHBOURS, len(other_words.vectors))
        blocks = self.vectors.split(BLOCK_WORDS)
        return torch.cat([(block @ other_words.vectors.T).topk(depth).values.mean(1) for block in blocks])

    def padded_vectors_and_weights(
        self, rows: Sequence[int]
    ) -> tuple[Float32[Tensor, "rows longest dim"], Float32[Tensor, "rows longest"]]:
        """Return vectors (num_rows, longest, dim) and weights (num_rows, longest) of some texts, padded with zeros."""
        return self.pad(self.vectors, rows), self.pad(self.weights, rows)

    def pad(
        self, values: Float32[Tensor, "words ..."], rows: Sequence[int]
    ) -> Float32[Tensor, "rows longest ..."]:
        """Return what the words of some texts have in ``values``, (num_rows, longest, ...), padded with zeros."""
        return nn.utils.rnn.pad_sequence([values[self.word_indices[row]] for row in rows], batch_first=True)
