"""Which words of two languages stand for each other, learned from sentence pairs, and how well a pair fits that.

IBM model 1 is trained in both directions on the first letters of words, which joins forms of one word and lets a few
hundred pairs be enough. All of it is numpy over flat arrays of cells, a cell being a word of one side beside one of
the other.

Source: Moore 2004 (smoothing of model 1, `xling.corpora.common.model1`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from xling.array_types import Float32, Float64, Int64, Shaped, UInt64
from xling.corpora.common import model1
from xling.text.words.units import UNSPACED_CLASS

STEM_LETTERS = 4
"""Letters of a word that count."""
MAX_WORDS, MAX_UNSPACED = 80, 320
"""Words of a side that are read, and single characters of a script without spaces: about as long a text."""
_MAX_CHARS = 2000
_MAX_CELLS, _CHUNK_CELLS = 6_000_000, 1_000_000
SMOOTHING, NULL_PROBABILITY = 2.0, 0.2
SAME_WORD_PRIOR = 0.3  # belief that a word stands for the same word, before anything is counted
_MIN_EXPECTED_COUNT = 0.05
_TOKEN = rf"[{UNSPACED_CLASS}]\p{{M}}*|[[\p{{L}}\p{{M}}\p{{N}}]--[{UNSPACED_CLASS}]]+"
_HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class TextWords:
    """Texts as hashes of the beginnings of their words; single characters where no spaces stand between words.

    Attributes:
        ids: uint64 (num_words,).
        starts: int64 (num_texts + 1,), where each text begins.
    """

    ids: UInt64[np.ndarray, " words"]
    starts: Int64[np.ndarray, " borders"]

    @property
    def lengths(self) -> Int64[np.ndarray, " texts"]:
        """Words of each text, int64 (num_texts,)."""
        return np.diff(self.starts)

    @property
    def owners(self) -> Int64[np.ndarray, " words"]:
        """The text of each word, int64 (num_words,)."""
        return np.repeat(np.arange(len(self.starts) - 1), self.lengths)

    def take(self, rows: Int64[np.ndarray, " rows"]) -> TextWords:
        """The texts of the numbers ``rows``, in that order."""
        lengths = self.lengths[rows]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(starts[-1]) - np.repeat(starts[:-1] - self.starts[rows], lengths)
        return TextWords(self.ids[places], starts)


def tokens(texts: pl.Series, stem: int = STEM_LETTERS) -> TextWords:
    """The words of texts in lower case, ``stem`` letters of each; at most `MAX_WORDS` within 2,000 characters."""
    lists = first_pieces(texts.str.head(_MAX_CHARS).str.to_lowercase(), _TOKEN, MAX_WORDS, MAX_UNSPACED)
    lengths = lists.list.len().to_numpy().astype(np.int64)
    flat = lists.filter(lists.list.len() > 0).explode().str.head(stem)
    return TextWords(flat.hash(5).to_numpy(), np.concatenate([[0], np.cumsum(lengths)]))


def first_pieces(texts: pl.Series, pattern: str, max_pieces: int, max_single: int) -> pl.Series:
    """The first pieces of each text that match ``pattern``, a list of strings a text.

    Args:
        max_pieces: pieces of a text.
        max_single: pieces of a text of which more than half are characters of scripts without spaces.
    """
    text, single = pl.col("text"), pl.col("text").str.count_matches(f"[{UNSPACED_CLASS}]")
    # Vowels and tones of such scripts are written as marks, so that these texts have fewer pieces than characters.
    is_single = 2 * single > text.str.len_chars()
    max_of_text = pl.when(is_single).then(max_single).otherwise(max_pieces)
    frame = pl.DataFrame({"text": texts}).select(text.str.extract_all(pattern).list.head(max_of_text))
    return frame["text"]


class Counts:
    """How often each of many keys was counted, looked up in constant time a key.

    Args:
        keys: uint64 (num_keys,), different.
        values: float64 (num_keys, num_columns).
    """

    def __init__(
        self, keys: UInt64[np.ndarray, " keys"], values: Float64[np.ndarray, "keys columns"]
    ) -> None:
        self.keys, self.values = keys, values
        bits = max(12, len(keys).bit_length() + 3)
        self._hash_shift = np.uint64(64 - bits)
        # Of two keys in one slot the one with the larger count is found there, the other one among the rest.
        order = np.argsort(values.sum(axis=1), kind="stable")
        self.slots = np.zeros(1 << bits, np.int32)
        self.slots[self._slot(keys[order])] = order + 1
        colliding = np.flatnonzero(self.slots[self._slot(keys)] != np.arange(len(keys)) + 1)
        self.collisions = colliding[np.argsort(keys[colliding])] + 1
        self.table = np.concatenate([np.zeros((1, values.shape[1])), values]).astype(np.float32)
        self.slot_keys = np.concatenate([np.zeros(1, np.uint64), keys])

    @staticmethod
    def from_arrays(arrays: Mapping[str, Shaped[np.ndarray, "..."]], name: str) -> Counts:
        """Rebuild the counts that are stored under ``name``."""
        return Counts(arrays[f"{name}.keys"].astype(np.uint64), arrays[f"{name}.values"].astype(np.float64))

    def _slot(self, keys: UInt64[np.ndarray, " _"]) -> npt.NDArray[np.int64]:
        return ((keys * _HASH_MULTIPLIER) >> self._hash_shift).astype(np.int64)

    def lookup(self, keys: UInt64[np.ndarray, " asked"]) -> Float32[np.ndarray, "asked columns"]:
        """The values of ``keys``, float32 (num_asked, num_columns); 0 where a key was not counted."""
        numbers = self.slots[self._slot(keys)]
        mismatched = np.flatnonzero((self.slot_keys[numbers] != keys) & (numbers > 0))
        numbers[mismatched] = 0
        if len(self.collisions):
            collision_keys = self.slot_keys[self.collisions]
            places = np.minimum(np.searchsorted(collision_keys, keys[mismatched]), len(collision_keys) - 1)
            numbers[mismatched] = np.where(
                collision_keys[places] == keys[mismatched], self.collisions[places], 0
            )
        return self.table[numbers]


def count_keys(keys: UInt64[np.ndarray, " items"], *weights: Float64[np.ndarray, " items"]) -> Counts:
    """Counts of ``keys``, each column the sums of one of ``weights``; without weights how often each stands there."""
    unique_keys, numbers = np.unique(keys, return_inverse=True)
    columns = [np.bincount(numbers, each, len(unique_keys)) for each in weights] or [np.bincount(numbers)]
    return Counts(unique_keys, np.stack(columns, axis=1).astype(np.float64).reshape(len(unique_keys), -1))


def word_pair_keys(
    src_keys: UInt64[np.ndarray, " _"], tgt_keys: UInt64[np.ndarray, " _"]
) -> UInt64[np.ndarray, " _"]:
    """Hash two arrays of word keys into one key for each pair of words, uint64."""
    return src_keys * np.uint64(0x100000001B3) ^ tgt_keys * _HASH_MULTIPLIER


@dataclass(frozen=True)
class WordPairs:
    """Every word of one side beside every one of the other, for some pairs; int64 (num_cells,) each."""

    src: Int64[np.ndarray, " cells"]
    tgt: Int64[np.ndarray, " cells"]


def word_pairs(src: TextWords, tgt: TextWords) -> WordPairs:
    """The cells of all pairs: numbers of words within ``src.ids`` and ``tgt.ids``."""
    widths = tgt.lengths[src.owners]
    rows = np.repeat(np.arange(len(src.ids)), widths)
    begins = np.concatenate([[0], np.cumsum(widths)])[:-1]
    columns = np.arange(len(rows)) - np.repeat(begins - tgt.starts[src.owners], widths)
    return WordPairs(rows, columns)


def chunks(src: TextWords, tgt: TextWords) -> Iterator[slice]:
    """Stretches of pairs of a bounded number of cells."""
    ends = np.cumsum(src.lengths * tgt.lengths)
    first = 0
    while first < len(ends):
        before = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + _CHUNK_CELLS, "right")))
        yield slice(first, last)
        first = last


@dataclass(frozen=True)
class Lexicon:
    """Counts of words and word pairs in a sample of sentence pairs.

    Attributes:
        links: (source word, target word) -> expected links forward and backward.
        link_words: uint64 (num_links, 2), source word and target word of each link.
        src: source word -> times, expected links to it.
        tgt: the same of target words.
        src_runs: two source words behind each other -> times.
        tgt_runs: likewise.
        sizes: words of the source side and of the target side of the sample.
    """

    links: Counts
    link_words: UInt64[np.ndarray, "links 2"]
    src: Counts
    tgt: Counts
    src_runs: Counts
    tgt_runs: Counts
    sizes: tuple[int, int]

    def arrays(self) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return the lexicon as numpy arrays by name, as they are stored."""
        stored: dict[str, npt.NDArray[Any]] = {"sizes": np.array(self.sizes), "ends": self.link_words}
        for name in _COUNTS:
            counts: Counts = getattr(self, name)
            stored[f"{name}.keys"], stored[f"{name}.values"] = counts.keys, counts.values.astype(np.float32)
        return stored

    @staticmethod
    def from_arrays(arrays: Mapping[str, Shaped[np.ndarray, "..."]]) -> Lexicon:
        """Rebuild a lexicon from the arrays that `arrays` returned."""
        counts = {name: Counts.from_arrays(arrays, name) for name in _COUNTS}
        src, tgt = arrays["sizes"].tolist()
        return Lexicon(**counts, link_words=arrays["ends"].astype(np.uint64), sizes=(src, tgt))


_COUNTS = ("links", "src", "tgt", "src_runs", "tgt_runs")
ARRAYS = ("sizes", "ends", *(f"{name}.{part}" for name in _COUNTS for part in ("keys", "values")))
"""Names of the arrays that a lexicon is stored as."""


def train(src: TextWords, tgt: TextWords) -> Lexicon:
    """Count what stands for what in sentence pairs; of very many only as many as six million cells hold are read."""
    lengths = src.lengths * tgt.lengths
    chosen_pairs = np.flatnonzero((lengths > 0) & (np.cumsum(lengths) <= _MAX_CELLS))
    src, tgt = src.take(chosen_pairs), tgt.take(chosen_pairs)
    table = word_pairs(src, tgt)
    keys, numbers = np.unique(word_pair_keys(src.ids[table.src], tgt.ids[table.tgt]), return_inverse=True)
    forward = _expected_links(numbers, table.tgt, table.src, tgt, src)
    backward = _expected_links(numbers, table.src, table.tgt, src, tgt)
    counts = np.stack([np.bincount(numbers, each, len(keys)) for each in (forward, backward)], axis=1)
    is_frequent = counts.max(axis=1, initial=0) >= _MIN_EXPECTED_COUNT
    some_cell = np.zeros(len(keys), np.int64)
    some_cell[numbers] = np.arange(len(numbers))
    link_words = np.stack([src.ids[table.src[some_cell]], tgt.ids[table.tgt[some_cell]]], axis=1)
    return Lexicon(
        Counts(keys[is_frequent], counts[is_frequent]),
        link_words[is_frequent],
        count_keys(
            src.ids, np.ones(len(src.ids)), np.bincount(table.src, forward, len(src.ids)).astype(np.float64)
        ),
        count_keys(
            tgt.ids, np.ones(len(tgt.ids)), np.bincount(table.tgt, backward, len(tgt.ids)).astype(np.float64)
        ),
        count_keys(run_keys(src)),
        count_keys(run_keys(tgt)),
        (len(src.ids), len(tgt.ids)),
    )


def run_keys(side: TextWords) -> UInt64[np.ndarray, " words"]:
    """A key of each word and the one before it; the first word of a text stands behind nothing."""
    previous = np.concatenate([np.zeros(1, np.uint64), side.ids])[:-1]
    previous[side.starts[:-1][side.lengths > 0]] = 0
    return word_pair_keys(previous, side.ids)


def _expected_links(
    numbers: Int64[np.ndarray, " cells"],
    produced: Int64[np.ndarray, " cells"],
    producers: Int64[np.ndarray, " cells"],
    side: TextWords,
    other: TextWords,
) -> Float64[np.ndarray, " cells"]:
    """The probability that each cell is a link, of the words ``produced`` of ``side`` each one or none.

    Args:
        numbers: of the word pair of each cell.
        produced: word of ``side`` of each cell.
        producers: word of ``other`` of each cell.
        side: whose words are produced.
        other: whose words produce.
    """
    _, word = np.unique(side.ids, return_inverse=True)
    _, producer_ids = np.unique(other.ids, return_inverse=True)
    frequency = np.bincount(word) / len(word)
    first = np.zeros(int(numbers.max(initial=-1)) + 1, np.int64)
    first[numbers] = np.arange(len(numbers))
    prior, producer_of = SMOOTHING * frequency[word[produced[first]]], producer_ids[producers[first]]
    null = NULL_PROBABILITY / (1 - NULL_PROBABILITY) * other.lengths[side.owners] * frequency[word]
    return model1.expected_links(numbers, produced, producer_of, null, SMOOTHING, prior)[0]


@dataclass(frozen=True)
class WordFit:
    """How well the words of pairs fit each other.

    Attributes:
        src: float64 (num_src_words,), log of how much likelier each word is beside the other side than anywhere.
        tgt: the same of target words.
        src_position: float64 (num_tgt_words,), where on the source side each target word is linked to, in [0, 1].
    """

    src: Float64[np.ndarray, " src"]
    tgt: Float64[np.ndarray, " tgt"]
    src_position: Float64[np.ndarray, " tgt"]


def fit_words(lexicon: Lexicon, src: TextWords, tgt: TextWords) -> WordFit:
    """Judge pairs by a lexicon that was trained on other pairs."""
    parts = []
    for part in chunks(src, tgt):
        rows = np.arange(part.start, part.stop)
        parts.append(_fit_chunk(lexicon, src.take(rows), tgt.take(rows)))
    nothing = [WordFit(np.zeros(0), np.zeros(0), np.zeros(0))]
    fields = ("src", "tgt", "src_position")
    return WordFit(*(np.concatenate([getattr(p, name) for p in parts or nothing]) for name in fields))


def _fit_chunk(lexicon: Lexicon, src: TextWords, tgt: TextWords) -> WordFit:
    table = word_pairs(src, tgt)
    links = lexicon.links.lookup(word_pair_keys(src.ids[table.src], tgt.ids[table.tgt]))
    same_word = SAME_WORD_PRIOR * (src.ids[table.src] == tgt.ids[table.tgt])
    src_counts, tgt_counts = lexicon.src.lookup(src.ids), lexicon.tgt.lookup(tgt.ids)
    frequencies = [
        (of[:, 0] + 0.5) / (size + 0.5)
        for of, size in zip((src_counts, tgt_counts), lexicon.sizes, strict=True)
    ]
    ratios = []
    for side, (totals, producer, produced) in enumerate(
        ((tgt_counts, table.tgt, table.src), (src_counts, table.src, table.tgt))
    ):
        frequency = frequencies[side][produced]
        probability = (links[:, 1 - side] + SMOOTHING * (frequency + same_word)) / (
            totals[producer, 1] + SMOOTHING
        )
        ratios.append(probability / frequency)
    backward, forward = (np.asarray(each, np.float64) for each in ratios)
    length = src.lengths[src.owners]
    position = ((np.arange(len(src.ids)) - src.starts[src.owners]) / np.maximum(length - 1, 1))[table.src]
    sums = np.bincount(table.tgt, forward, len(tgt.ids))
    src_position = np.bincount(table.tgt, forward * position, len(tgt.ids)) / np.maximum(sums, 1e-9)
    means = [
        np.bincount(table.src, backward, len(src.ids)) / np.maximum(tgt.lengths[src.owners], 1),
        sums / np.maximum(src.lengths[tgt.owners], 1),
    ]
    log_ratios = [np.log(NULL_PROBABILITY + (1 - NULL_PROBABILITY) * mean) for mean in means]
    return WordFit(log_ratios[0], log_ratios[1], src_position)
