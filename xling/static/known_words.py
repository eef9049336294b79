"""Words of a tokenised text as mixes of known ones: the nearest words of a vocabulary in a static encoder's space.

An exported model carries a copy of this file (`xling.hub.features_export`), so it imports nothing but torch and files
that are copied with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from xling.array_types import Bool, Float, Float32, Int, Int64, UInt8
from xling.static.vectors import StaticEncoder, unit_length
from xling.text.words.features import is_unspaced
from xling.text.words.of_pieces import PieceWords

FIRST_PIECE = 4
NUM_NEIGHBOURS, TEMPERATURE = 8, 0.05
SHARE = 0.5
"""Share of the mix in what is read; .4 and .6 find fewer translations before training (PUD, six languages)."""
MAX_WORDS = 200_000
"""Words whose neighbours are kept in memory; all are forgotten when there are more."""


class KnownWords:
    """Finds the known words that are nearest to the words of a text.

    Args:
        names: spelling of each piece by id, UTF-8 with zeros behind it, uint8 (num_pieces, longest).
        is_known: whether a piece is a known word, (num_pieces,).
        encoder: the static encoder whose space is meant.
    """

    def __init__(
        self,
        names: UInt8[Tensor, "pieces bytes"],
        is_known: Bool[Tensor, " pieces"],
        encoder: StaticEncoder,
    ) -> None:
        spelled = [bytes(row).rstrip(b"\0").decode(errors="ignore") for row in names.cpu().numpy()]
        self._words, self._encoder = PieceWords(spelled, FIRST_PIECE), encoder
        self._known = is_known.nonzero().flatten().cpu()
        known_words, _ = self._words.find(self._known.numpy())
        self._space = unit_length(encoder.word_vectors(known_words))
        self._mixes: dict[str, tuple[Tensor, Tensor]] = {}

    def __deepcopy__(self, memo: object) -> KnownWords:
        """Return itself: nothing in it learns, and copies of a model would each hold the static encoder's table."""
        return self

    def find(
        self, ids: Int[np.ndarray, " tokens"]
    ) -> tuple[
        Int64[Tensor, "words neighbours"], Float32[Tensor, "words neighbours"], Int[np.ndarray, " tokens"]
    ]:
        """Return the pieces that are nearest to each distinct word of a text, and which word a token is of.

        Returns:
            ids of pieces, int64 (num_words, neighbours); their shares, which sum to 1; the word of each token, -1
            for symbols, signs and numbers, and in scripts without spaces, whose words the pieces do not show.
        """
        words, word_of = self._words.find(ids)
        in_letters = dict.fromkeys(w for w in words if w[:1].isalpha() and not is_unspaced(w))
        number_of = {word: number for number, word in enumerate(in_letters)}
        numbers = np.array([*(number_of.get(word, -1) for word in words), -1])
        if len(self._mixes) > MAX_WORDS:
            self._mixes.clear()
        self._add([word for word in number_of if word not in self._mixes])
        mixes = [self._mixes[word] for word in number_of]
        width = min(NUM_NEIGHBOURS, len(self._known))
        pieces = torch.stack([each for each, _ in mixes]) if mixes else self._known.new_zeros(0, width)
        shares = torch.stack([each for _, each in mixes]) if mixes else torch.zeros(0, width)
        return pieces, shares, numbers[word_of]

    def _add(self, words: Sequence[str]) -> None:
        if words:
            cosines = unit_length(self._encoder.word_vectors(words)) @ self._space.T
            nearest = cosines.topk(min(NUM_NEIGHBOURS, len(self._known)), 1)
            shares = torch.softmax(nearest.values / TEMPERATURE, 1)
            self._mixes.update(
                zip(words, zip(self._known[nearest.indices], shares, strict=True), strict=True)
            )


def mix_words(
    known: KnownWords,
    ids: Int[Tensor, " tokens"],
    rows: Float[Tensor, "tokens dim"],
    table: Float[Tensor, "pieces dim"],
) -> Float[Tensor, "tokens dim"]:
    """Return the mean of the row of each token and of the mix of its word, ``rows`` being those of ``ids``."""
    pieces, shares, word_of = known.find(ids.cpu().numpy())
    in_words = torch.from_numpy(np.flatnonzero(word_of >= 0)).to(ids.device)
    mixes = (F.embedding(pieces.to(ids.device), table) * shares.to(rows)[..., None]).sum(1)
    of_word = torch.from_numpy(word_of[word_of >= 0]).to(ids.device)
    return rows.index_add(0, in_words, SHARE * (mixes[of_word] - rows[in_words]))
