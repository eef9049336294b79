"""Segmentation of scripts without spaces into likely words, by a unigram language model of their characters.

Source: Kudo 2018, Subword regularization, section 3.2 (the unigram model); trained and applied by
sentencepiece.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from xling.text.segment import train_unigram_model
from xling.text.words.features import is_unspaced

CHARACTERS_PER_PIECE = 10
MIN_PIECES, MAX_PIECES = 200, 6000


def merged(texts: Sequence[Sequence[str]]) -> list[list[str]]:
    """Join characters of scripts without spaces to words; other words are unchanged.

    Args:
        texts: of one language: words, and single characters where there are no spaces. Texts with too few such
            characters to learn words from stay as they are.
    """
    grouped = [[(bare, list(run)) for bare, run in groupby(text, is_unspaced)] for text in texts]
    runs = ["".join(run) for text in grouped for bare, run in text if bare]
    size = sum(map(len, runs)) // CHARACTERS_PER_PIECE
    if size < MIN_PIECES:
        return [list(text) for text in texts]
    cut = iter(train_unigram_model(runs, min(size, MAX_PIECES)).encode(runs, out_type=str))
    return [[word for bare, run in text for word in (next(cut) if bare else run)] for text in grouped]
