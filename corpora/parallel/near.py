"""Texts that differ by one word more or less, found by sums of hashes of their words without the texts themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from xling.corpora.parallel.lexical import Tokens, tokens

if TYPE_CHECKING:
    from jaxtyping import Bool, UInt64

MIN_WORDS = 4
"""Texts with fewer words are never nearly equal; a character is a word where no spaces stand between words."""
_MAX_WORDS, _WHOLE = 400, 100


def whole_words(texts: pl.Series) -> Tokens:
    """The words of texts in full, in lower case."""
    return tokens(texts, stem=_WHOLE, most=_MAX_WORDS)


def sums(words: Tokens) -> UInt64[np.ndarray, "2 texts"]:
    """Two sums for each text: of the hashes of its words, and of a function of these hashes."""
    added = np.zeros((2, len(words.lengths)), np.uint64)
    rows = words.lengths > 0
    if rows.any():
        borders = words.starts[:-1][rows]
        for place, values in enumerate((words.ids, mixed(words.ids))):
            added[place, rows] = np.add.reduceat(values, borders)
    return added


def mixed(hashes: UInt64[np.ndarray, " _"]) -> UInt64[np.ndarray, " _"]:
    """The function of the second sum: the square, since that of a sum is not the sum of the squares."""
    return hashes * hashes


def one_word_apart(
    left: UInt64[np.ndarray, "2 texts"], right: UInt64[np.ndarray, "2 texts"]
) -> Bool[np.ndarray, " texts"]:
    """Whether the words of one text are those of the other and one more, in any order, bool (num_texts,).

    If one word was added, the difference of the second sums is the function of the difference of the first.
    """
    more, less = left - right, right - left
    return (more[0] != 0) & ((mixed(more[0]) == more[1]) | (mixed(less[0]) == less[1]))


def without_a_word(words: Tokens) -> UInt64[np.ndarray, " words"]:
    """For each word of each text the first of `sums` of the text without it."""
    return sums(words)[0][words.owners] - words.ids
