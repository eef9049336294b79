"""Which words of two languages stand for each other, learned from sentence pairs, and how well a pair fits that.

IBM model 1 is trained in both directions on the first letters of words, which joins forms of one word and lets a few
hundred pairs be enough. All of it is numpy over flat arrays of cells, a cell being a word of one side beside one of
the other.

Source: Brown et al. 1993 (model 1); Moore 2004 (smoothing).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from xling.text.words.units import UNSPACED_CLASS

if TYPE_CHECKING:
    from jaxtyping import Float32, Float64, Int64, Shaped, UInt64

STEM = 4
"""Letters of a word that count."""
MAX_WORDS, MAX_SINGLE = 80, 320
"""Words of a side that are read, and single characters of a script without spaces: about as long a text."""
_MAX_CHARS = 2000
_MAX_CELLS, _CHUNK_CELLS = 6_000_000, 1_000_000
_ITERATIONS = 5
SMOOTHING, NULL = 2.0, 0.2
SAME = 0.3  # belief that a word stands for the same word, before anything is counted
_LEAST_COUNT = 0.05
_TOKEN = rf"[{UNSPACED_CLASS}]\p{{M}}*|[[\p{{L}}\p{{M}}\p{{N}}]--[{UNSPACED_CLASS}]]+"
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Tokens:
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

    def take(self, rows: Int64[np.ndarray, " rows"]) -> Tokens:
        """The texts of the numbers ``rows``, in that order."""
        lengths = self.lengths[rows]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(starts[-1]) - np.repeat(starts[:-1] - self.starts[rows], lengths)
        return Tokens(self.ids[places], starts)


def tokens(texts: pl.Series, stem: int = STEM) -> Tokens:
    """The words of texts in lower case, ``stem`` letters of each; at most `MAX_WORDS` within 2,000 characters."""
    lists = first_pieces(texts.str.head(_MAX_CHARS).str.to_lowercase(), _TOKEN, MAX_WORDS, MAX_SINGLE)
    lengths = lists.list.len().to_numpy().astype(np.int64)
    flat = lists.filter(lists.list.len() > 0).explode().str.head(stem)
    return Tokens(flat.hash(5).to_numpy(), np.concatenate([[0], np.cumsum(lengths)]))


def first_pieces(texts: pl.Series, pattern: str, most: int, most_single: int) -> pl.Series:
    """The first pieces of each text that match ``pattern``, a list of strings a text.

    Args:
        texts: strings.
        pattern: of a piece.
        most: pieces of a text.
        most_single: pieces of a text of which more than half are characters of scripts without spaces.
    """
    text, single = pl.col("text"), pl.col("text").str.count_matches(f"[{UNSPACED_CLASS}]")
    # Vowels and tones of such scripts are written as marks, so that these texts have fewer pieces than characters.
    is_single = 2 * single > text.str.len_chars()
    most_of_text = pl.when(is_single).then(most_single).otherwise(most)
    frame = pl.DataFrame({"text": texts}).select(text.str.extract_all(pattern).list.head(most_of_text))
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
        self.shift = np.uint64(64 - bits)
        # Of two keys in one slot the one with the larger count is found there, the other one among the rest.
        order = np.argsort(values.sum(axis=1), kind="stable")
        self.slots = np.zeros(1 << bits, np.int32)
        self.slots[self._slot(keys[order])] = order + 1
        rest = np.flatnonzero(self.slots[self._slot(keys)] != np.arange(len(keys)) + 1)
        self.rest = rest[np.argsort(keys[rest])] + 1
        self.table = np.concatenate([np.zeros((1, values.shape[1])), values]).astype(np.float32)
        self.checks = np.concatenate([np.zeros(1, np.uint64), keys])

    def _slot(self, keys: UInt64[np.ndarray, " _"]) -> npt.NDArray[np.int64]:
        return ((keys * _MIX) >> self.shift).astype(np.int64)

    def of(self, keys: UInt64[np.ndarray, " asked"]) -> Float32[np.ndarray, "asked columns"]:
        """The values of ``keys``, float32 (num_asked, num_columns); 0 where a key was not counted."""
        numbers = self.slots[self._slot(keys)]
        others = np.flatnonzero((self.checks[numbers] != keys) & (numbers > 0))
        numbers[others] = 0
        if len(self.rest):
            known = self.checks[self.rest]
            places = np.minimum(np.searchsorted(known, keys[others]), len(known) - 1)
            numbers[others] = np.where(known[places] == keys[others], self.rest[places], 0)
        return self.table[numbers]


def counted(keys: UInt64[np.ndarray, " items"], *weights: Float64[np.ndarray, " items"]) -> Counts:
    """Counts of ``keys``, each column the sums of one of ``weights``; without weights how often each stands there."""
    known, numbers = np.unique(keys, return_inverse=True)
    columns = [np.bincount(numbers, each, len(known)) for each in weights] or [np.bincount(numbers)]
    return Counts(known, np.stack(columns, axis=1).astype(np.float64).reshape(len(known), -1))


def word_pair_keys(
    left: UInt64[np.ndarray, " _"], right: UInt64[np.ndarray, " _"]
) -> UInt64[np.ndarray, " _"]:
    """Hash two arrays of word keys into one key for each pair of words, uint64."""
    return left * np.uint64(0x100000001B3) ^ right * _MIX


@dataclass(frozen=True)
class Cells:
    """Every word of one side beside every one of the other, for some pairs; int64 (num_cells,) each."""

    src: Int64[np.ndarray, " cells"]
    tgt: Int64[np.ndarray, " cells"]


def cells(src: Tokens, tgt: Tokens) -> Cells:
    """The cells of all pairs: numbers of words within ``src.ids`` and ``tgt.ids``."""
    widths = tgt.lengths[src.owners]
    rows = np.repeat(np.arange(len(src.ids)), widths)
    begins = np.concatenate([[0], np.cumsum(widths)])[:-1]
    columns = np.arange(len(rows)) - np.repeat(begins - tgt.starts[src.owners], widths)
    return Cells(rows, columns)


def chunks(src: Tokens, tgt: Tokens) -> Iterator[slice]:
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
        ends: uint64 (num_links, 2), source word and target word of each link.
        src: source word -> times, expected links to it.
        tgt: the same of target words.
        src_runs: two source words behind each other -> times.
        tgt_runs: likewise.
        sizes: words of the source side and of the target side of the sample.
    """

    links: Counts
    ends: UInt64[np.ndarray, "links 2"]
    src: Counts
    tgt: Counts
    src_runs: Counts
    tgt_runs: Counts
    sizes: tuple[int, int]

    def arrays(self) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return the lexicon as numpy arrays by name, as they are stored."""
        stored: dict[str, npt.NDArray[Any]] = {"sizes": np.array(self.sizes), "ends": self.ends}
        for name in _COUNTS:
            counts: Counts = getattr(self, name)
            stored[f"{name}.keys"], stored[f"{name}.values"] = counts.keys, counts.values.astype(np.float32)
        return stored

    @staticmethod
    def from_arrays(held: Mapping[str, Shaped[np.ndarray, "..."]]) -> Lexicon:
        """Rebuild a lexicon from the arrays that `arrays` returned."""
        counts = {
            name: Counts(held[f"{name}.keys"].astype(np.uint64), held[f"{name}.values"].astype(np.float64))
            for name in _COUNTS
        }
        src, tgt = held["sizes"].tolist()
        return Lexicon(**counts, ends=held["ends"].astype(np.uint64), sizes=(src, tgt))


_COUNTS = ("links", "src", "tgt", "src_runs", "tgt_runs")
ARRAYS = ("sizes", "ends", *(f"{name}.{part}" for name in _COUNTS for part in ("keys", "values")))
"""Names of the arrays that a lexicon is stored as."""


def train(src: Tokens, tgt: Tokens) -> Lexicon:
    """Count what stands for what in sentence pairs; of very many only as many as six million cells hold are read."""
    lengths = src.lengths * tgt.lengths
    fits = np.flatnonzero((lengths > 0) & (np.cumsum(lengths) <= _MAX_CELLS))
    src, tgt = src.take(fits), tgt.take(fits)
    table = cells(src, tgt)
    keys, numbers = np.unique(word_pair_keys(src.ids[table.src], tgt.ids[table.tgt]), return_inverse=True)
    forward = _expected(numbers, table.tgt, table.src, tgt, src)
    backward = _expected(numbers, table.src, table.tgt, src, tgt)
    counts = np.stack([np.bincount(numbers, each, len(keys)) for each in (forward, backward)], axis=1)
    many = counts.max(axis=1, initial=0) >= _LEAST_COUNT
    cell = np.zeros(len(keys), np.int64)
    cell[numbers] = np.arange(len(numbers))
    ends = np.stack([src.ids[table.src[cell]], tgt.ids[table.tgt[cell]]], axis=1)
    return Lexicon(
        Counts(keys[many], counts[many]),
        ends[many],
        counted(
            src.ids, np.ones(len(src.ids)), np.bincount(table.src, forward, len(src.ids)).astype(np.float64)
        ),
        counted(
            tgt.ids, np.ones(len(tgt.ids)), np.bincount(table.tgt, backward, len(tgt.ids)).astype(np.float64)
        ),
        counted(run_keys(src)),
        counted(run_keys(tgt)),
        (len(src.ids), len(tgt.ids)),
    )


def run_keys(side: Tokens) -> UInt64[np.ndarray, " words"]:
    """A key of each word and the one before it; the first word of a text stands behind nothing."""
    before = np.concatenate([np.zeros(1, np.uint64), side.ids])[:-1]
    before[side.starts[:-1][side.lengths > 0]] = 0
    return word_pair_keys(before, side.ids)


def _expected(
    numbers: Int64[np.ndarray, " cells"],
    produced: Int64[np.ndarray, " cells"],
    makers: Int64[np.ndarray, " cells"],
    side: Tokens,
    other: Tokens,
) -> Float64[np.ndarray, " cells"]:
    """EM for model 1: the probability that each cell is a link, of the words ``produced`` of ``side`` each one or none.

    Args:
        numbers: of the word pair of each cell.
        produced: word of ``side`` of each cell.
        makers: word of ``other`` of each cell.
        side: whose words are produced.
        other: whose words produce.
    """
    _, word = np.unique(side.ids, return_inverse=True)
    _, maker = np.unique(other.ids, return_inverse=True)
    often = np.bincount(word) / len(word)
    num, num_makers = int(numbers.max(initial=-1)) + 1, int(maker.max(initial=-1)) + 1
    first = np.zeros(num, np.int64)
    first[numbers] = np.arange(len(numbers))
    prior, of = SMOOTHING * often[word[produced[first]]], maker[makers[first]]
    null = NULL / (1 - NULL) * other.lengths[side.owners] * often[word]
    belief = np.ones(num)
    link = np.zeros(len(numbers))
    for _ in range(_ITERATIONS):
        link = belief[numbers]
        link /= (np.bincount(produced, link, len(word)) + null)[produced]
        counts = np.bincount(numbers, link, num)
        totals = np.bincount(of, counts, num_makers)
        belief = (counts + prior) / (totals[of] + SMOOTHING)
    return link


@dataclass(frozen=True)
class Fit:
    """How well the words of pairs fit each other.

    Attributes:
        src: float64 (num_src_words,), log of how much likelier each word is beside the other side than anywhere.
        tgt: the same of target words.
        place: float64 (num_tgt_words,), where on the source side each target word is linked to, in [0, 1].
    """

    src: Float64[np.ndarray, " src"]
    tgt: Float64[np.ndarray, " tgt"]
    place: Float64[np.ndarray, " tgt"]


def fit(lexicon: Lexicon, src: Tokens, tgt: Tokens) -> Fit:
    """Judge pairs by a lexicon that was trained on other pairs."""
    parts = []
    for part in chunks(src, tgt):
        rows = np.arange(part.start, part.stop)
        parts.append(_fit(lexicon, src.take(rows), tgt.take(rows)))
    nothing = [Fit(np.zeros(0), np.zeros(0), np.zeros(0))]
    return Fit(
        *(np.concatenate([getattr(p, name) for p in parts or nothing]) for name in ("src", "tgt", "place"))
    )


def _fit(lexicon: Lexicon, src: Tokens, tgt: Tokens) -> Fit:
    table = cells(src, tgt)
    links = lexicon.links.of(word_pair_keys(src.ids[table.src], tgt.ids[table.tgt]))
    same = SAME * (src.ids[table.src] == tgt.ids[table.tgt])
    of_src, of_tgt = lexicon.src.of(src.ids), lexicon.tgt.of(tgt.ids)
    often = [
        (of[:, 0] + 0.5) / (size + 0.5) for of, size in zip((of_src, of_tgt), lexicon.sizes, strict=True)
    ]
    ratios = []
    for side, (totals, maker, produced) in enumerate(
        ((of_tgt, table.tgt, table.src), (of_src, table.src, table.tgt))
    ):
        alone = often[side][produced]
        belief = (links[:, 1 - side] + SMOOTHING * (alone + same)) / (totals[maker, 1] + SMOOTHING)
        ratios.append(belief / alone)
    backward, forward = (np.asarray(each, np.float64) for each in ratios)
    length = src.lengths[src.owners]
    position = ((np.arange(len(src.ids)) - src.starts[src.owners]) / np.maximum(length - 1, 1))[table.src]
    sums = np.bincount(table.tgt, forward, len(tgt.ids))
    place = np.bincount(table.tgt, forward * position, len(tgt.ids)) / np.maximum(sums, 1e-9)
    means = [
        np.bincount(table.src, backward, len(src.ids)) / np.maximum(tgt.lengths[src.owners], 1),
        sums / np.maximum(src.lengths[tgt.owners], 1),
    ]
    of_words = [np.log(NULL + (1 - NULL) * mean) for mean in means]
    return Fit(of_words[0], of_words[1], place)
