"""Words of a tokenised text: which pieces make a word, and how it is spelled."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from xling.array_types import Int
from xling.text.words.features import is_unspaced

WORD_START = "\u2581"


class PieceWords:
    """The words of the pieces of a vocabulary.

    Args:
        names: the pieces by id, with the mark of a start of a word.
        first_piece: first id that is a piece; those before it are symbols, which belong to no word.
    """

    def __init__(self, names: Sequence[str], first_piece: int) -> None:
        self._first_piece = first_piece
        self._plain = [name.replace(WORD_START, "") for name in names]
        alone = [not _is_of_word(plain[:1]) or is_unspaced(plain) for plain in self._plain]
        self._begins = np.array(alone) | np.array([name.startswith(WORD_START) for name in names])
        self._goes_on = np.array([_is_of_word(plain[-1:]) for plain in self._plain])

    def find(self, tokens: Int[np.ndarray, " length"]) -> tuple[list[str], Int[np.ndarray, " length"]]:
        """Return the words of a text and for each token its word, -1 for symbols.

        A word begins at a piece with the mark, at a sign, after a symbol, and at every piece of a script without
        spaces.
        """
        of_pieces = np.flatnonzero(tokens >= self._first_piece)
        pieces = tokens[of_pieces]
        starts = self._begins[pieces]
        starts[1:] |= ~self._goes_on[pieces[:-1]] | (np.diff(of_pieces) > 1)
        starts[:1] = True
        word_of = np.full(len(tokens), -1)
        word_of[of_pieces] = np.cumsum(starts) - 1
        plain = [self._plain[piece] for piece in pieces.tolist()]
        cuts = [*np.flatnonzero(starts).tolist(), len(plain)]
        return ["".join(plain[first:last]) for first, last in pairwise(cuts)], word_of


def _is_of_word(letter: str) -> bool:
    """Return whether a character stands inside words: a letter, a digit, or a mark such as a vowel sign."""
    return letter.isalnum() or (letter != "" and unicodedata.category(letter).startswith("M"))
