"""Texts that differ by one word more or less. Sums of hashes of words find them without the texts."""

from __future__ import annotations

import numpy as np
import polars as pl

from xling.array_types import Bool, UInt8, UInt64
from xling.corpora.parallel.clean.lexical import TextWords
from xling.text.words.units import UNSPACED_CLASS

MIN_WORDS = 4
"""Texts with fewer words are never nearly equal; a character is a word where no spaces stand between words."""
NUM_BUCKETS, MAX_CHARS_MORE = 16, 3
"""Of `letter_counts`, and characters that one word more may have where no spaces stand between words."""
_MAX_WORDS, _MAX_CHARS = 400, 2000
_WORD = rf"[{UNSPACED_CLASS}]\p{{M}}*|[^\s{UNSPACED_CLASS}]+"


def whole_words(texts: pl.Series) -> TextWords:
    """The words of texts in lower case, without marks; what is written without a space (l'eau) is one word."""
    lists = texts.str.head(_MAX_CHARS).str.to_lowercase().str.extract_all(_WORD).list.head(_MAX_WORDS)
    lengths = lists.list.len().to_numpy().astype(np.int64)
    flat = lists.filter(lists.list.len() > 0).explode().str.replace_all(r"[^\p{L}\p{M}\p{N}]", "")
    is_word = flat.str.len_bytes().to_numpy() > 0
    owners = np.repeat(np.arange(len(lengths)), lengths)[is_word]
    starts = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=len(lengths)))])
    return TextWords(flat.hash(5).to_numpy()[is_word], starts.astype(np.int64))


def letter_counts(words: TextWords) -> UInt8[np.ndarray, "texts buckets"]:
    """How many words of each text fall into each of 16 buckets, uint8 (num_texts, 16); at most 255."""
    places = words.owners * NUM_BUCKETS + (words.ids >> np.uint64(60)).astype(np.int64)
    counts = np.bincount(places, minlength=len(words.lengths) * NUM_BUCKETS)
    return np.minimum(counts, 255).astype(np.uint8).reshape(-1, NUM_BUCKETS)


def has_few_more(
    first: UInt8[np.ndarray, "texts buckets"], second: UInt8[np.ndarray, "texts buckets"]
) -> Bool[np.ndarray, " texts"]:
    """Whether the characters of one text are those of the other and one to three more, by their bags."""
    more = first.astype(np.int64) - second
    total = np.abs(more.sum(axis=1))
    return (np.abs(more).sum(axis=1) == total) & (total > 0) & (total <= MAX_CHARS_MORE)


def text_sums(words: TextWords) -> UInt64[np.ndarray, "2 texts"]:
    """Two sums for each text: of the hashes of its words, and of a function of these hashes."""
    word_sums = np.zeros((2, len(words.lengths)), np.uint64)
    rows = words.lengths > 0
    if rows.any():
        borders = words.starts[:-1][rows]
        for place, values in enumerate((words.ids, mix_hashes(words.ids))):
            word_sums[place, rows] = np.add.reduceat(values, borders)
    return word_sums


def mix_hashes(hashes: UInt64[np.ndarray, " _"]) -> UInt64[np.ndarray, " _"]:
    """The function of the second sum: the square, since that of a sum is not the sum of the squares."""
    return hashes * hashes


def differ_in_one_word(
    first: UInt64[np.ndarray, "2 texts"], second: UInt64[np.ndarray, "2 texts"]
) -> Bool[np.ndarray, " texts"]:
    """Whether the words of one text are those of the other and one more, in any order, bool (num_texts,).

    If one word was added, the difference of the second sums is the function of the difference of the first.
    """
    more, less = first - second, second - first
    return (more[0] != 0) & ((mix_hashes(more[0]) == more[1]) | (mix_hashes(less[0]) == less[1]))


def sums_without_each_word(words: TextWords) -> UInt64[np.ndarray, " words"]:
    """For each word of each text the first of `text_sums` of the text without it."""
    return text_sums(words)[0][words.owners] - words.ids
