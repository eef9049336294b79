"""How many words of a text have a translation in another: similarities of the single words of two texts.

A sentence vector is a sum, in which two texts of one topic are near each other. Matching the words one by one
tells which of a few near texts is the translation.

Sources: sum over the words of the greatest similarity: Khattab and Zaharia 2020, ColBERT, section 3.3; both
directions with weights for rare words: Zhang et al. 2020, BERTScore, section 3; CSLS: Lample et al. 2018, Word
translation without parallel data, equation 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from xling.static.vectors import StaticEncoder, unit
from xling.text.words.features import split_tokens

if TYPE_CHECKING:
    from jaxtyping import Float32, Int64

MAX_WORDS = 60
"""Longer texts are compared by their first words."""
NEAREST, BLOCK_WORDS = 10, 1024
"""Neighbours of a word that tell how near it is to all words (k of CSLS), and words compared at a time."""


def matched(
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
    words, others = _Words(encoder, src), _Words(encoder, tgt)
    near, near_others = words.hubness(others), others.hubness(words)
    scores = np.zeros(candidates.shape, np.float32)
    for row, chosen in enumerate(candidates.tolist()):
        (vectors, weights), here = words.of([row]), words.padded(near, [row])
        (other, other_weights), there = others.of(chosen), others.padded(near_others, chosen)
        similar = 2 * vectors @ other.transpose(1, 2) - here[:, :, None] - there[:, None]
        forward = similar.masked_fill(other_weights[:, None] == 0, -torch.inf).amax(2)
        total = (forward * weights).sum(1) + (similar.amax(1) * other_weights).sum(1)
        scores[row] = (total / (weights.sum(1) + other_weights.sum(1))).numpy()
    return scores


def matched_all(encoder: StaticEncoder, src: Sequence[str], tgt: Sequence[str]) -> Float32[Tensor, "src tgt"]:
    """Return what `matched` returns for every pair of texts, (num_src, num_tgt)."""
    words, others = _Words(encoder, src), _Words(encoder, tgt)
    near, near_others = words.hubness(others), others.hubness(words)[others.flat]
    vectors, weights = others.vectors[others.flat], others.weights[others.flat]
    rows = torch.repeat_interleave(torch.tensor([len(places) for places in others.places]))
    total = torch.zeros(len(tgt)).index_add(0, rows, weights)
    scores = torch.zeros(len(src), len(tgt))
    for row, places in enumerate(words.places):
        similar = 2 * words.vectors[places] @ vectors.T - near[places][:, None] - near_others
        best = torch.full((len(places), len(tgt)), -torch.inf)
        best = best.scatter_reduce(1, rows.expand(len(places), -1), similar, "amax")
        own = words.weights[places]
        scores[row] = own @ best + torch.zeros(len(tgt)).index_add(0, rows, similar.amax(0) * weights)
        scores[row] /= own.sum() + total
    return scores


class _Words:
    """Centred vectors and weights of the words of texts; each word is looked up once."""

    def __init__(self, encoder: StaticEncoder, texts: Sequence[str]) -> None:
        number: dict[str, int] = {}
        self.places = [
            torch.tensor(
                [
                    number.setdefault(word.lower(), len(number))
                    for word in split_tokens(text)[:MAX_WORDS] or ["."]
                ]
            )
            for text in texts
        ]
        vectors = encoder.of_tokens(list(number))
        self.flat = torch.cat(self.places)
        count = torch.bincount(self.flat).float()
        self.vectors = unit(vectors - count @ vectors / count.sum())
        self.weights = torch.tensor([encoder.weight(word) for word in number])

    def hubness(self, others: _Words) -> Float32[Tensor, " words"]:
        """Return the mean cosine of each word to its nearest words of the other side, (num_words,)."""
        depth = min(NEAREST, len(others.vectors))
        blocks = self.vectors.split(BLOCK_WORDS)
        return torch.cat([(block @ others.vectors.T).topk(depth).values.mean(1) for block in blocks])

    def of(
        self, rows: Sequence[int]
    ) -> tuple[Float32[Tensor, "rows longest dim"], Float32[Tensor, "rows longest"]]:
        """Return vectors (num_rows, longest, dim) and weights (num_rows, longest) of some texts, padded with zeros."""
        return self.padded(self.vectors, rows), self.padded(self.weights, rows)

    def padded(
        self, values: Float32[Tensor, "words ..."], rows: Sequence[int]
    ) -> Float32[Tensor, "rows longest ..."]:
        """Return what the words of some texts have in ``values``, (num_rows, longest, ...), padded with zeros."""
        return nn.utils.rnn.pad_sequence([values[self.places[row]] for row in rows], batch_first=True)
