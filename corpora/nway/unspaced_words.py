"""Segmentation of scripts without spaces into likely words, by a unigram language model of their characters.

Source: Kudo 2018, Subword regularization, section 3.2 (the unigram model); trained and applied by
sentencepiece.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from xling.text.word_segmentation import train_unigram_model
from xling.text.words.features import is_unspaced

CHARACTERS_PER_PIECE = 10
MIN_PIECES, MAX_PIECES = 200, 6000


def merged(texts: Sequence[Sequence[str]]) -> list[list[str]]:
    """Join characters of scripts without spaces to words; other words are unchanged.

    Args:
        texts: of one language: words, and single characters where there are no spaces. Texts with too few such
            characters to learn words from stay as they are.
    """
    runs_of_texts = [[(is_bare, list(run)) for is_bare, run in groupby(text, is_unspaced)] for text in texts]
    runs = ["".join(run) for text in runs_of_texts for is_bare, run in text if is_bare]
    size = sum(map(len, runs)) // CHARACTERS_PER_PIECE
    if size < MIN_PIECES:
        return [list(text) for text in texts]
    cut = iter(train_unigram_model(runs, min(size, MAX_PIECES)).encode(runs, out_type=str))
    return [
        [word for is_bare, run in text for word in (next(cut) if is_bare else run)] for text in runs_of_texts
    ]
