"""Features of a sentence pair beside tables: how much is covered, in which order, how long it is, how it is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from xling.array_types import Float32, Float64, Int64, Shaped
from xling.corpora.parallel.clean import embedding_distance, lexical, names, written_form
from xling.corpora.parallel.clean.embedding_distance import EmbeddingSpace
from xling.corpora.parallel.clean.lexical import Lexicon, TextWords, fit_words, run_keys
from xling.corpora.parallel.clean.names import NameConsonants
from xling.corpora.parallel.clean.written_form import FormCounts, WrittenForms

Embed = Callable[[pl.DataFrame], npt.NDArray[np.float32]]
"""Gives the vectors of both sides of pairs, float32 (num_pairs, 2, dim)."""

NAMES = (
    "tgt_fit", "src_fit", "worse_fit", "tgt_end", "src_end", "tgt_begin", "src_begin", "tgt_all", "src_all", "length",
    "foreign_end", "foreign_begin", "foreign", "copied", "order", "tgt_runs", "src_runs", "runs_off",
    "words",
)  # fmt: skip
"""Of the values that `measure` gives, those of the words; the last one is multiplied with all others."""
_RUN_SMOOTHING = 3.0


@dataclass(frozen=True)
class PairTexts:
    """Both sides of some pairs as they are measured.

    Attributes:
        src: words of the source sides.
        tgt: words of the target sides.
        chars: characters of both sides, float64 (num_pairs, 2).
        forms: marks, capitals and kinds of words.
        consonants: consonants of the words of both sides.
        vectors: of both sides, float32 (num_pairs, 2, dim); None without an encoder.
    """

    src: TextWords
    tgt: TextWords
    chars: Float64[np.ndarray, "pairs 2"]
    forms: WrittenForms
    consonants: tuple[NameConsonants, NameConsonants]
    vectors: Float32[np.ndarray, "pairs 2 dim"] | None = None

    @staticmethod
    def read(pairs: pl.DataFrame, embed: Embed | None = None) -> PairTexts:
        """Read pairs with the columns ``src`` and ``tgt``."""
        chars = pairs.select(pl.col("src", "tgt").str.len_chars().cast(pl.Float64)).to_numpy()
        src, tgt = lexical.tokens(pairs["src"]), lexical.tokens(pairs["tgt"])
        consonants = names.read_consonants(pairs["src"]), names.read_consonants(pairs["tgt"])
        return PairTexts(
            src, tgt, chars, written_form.forms(pairs), consonants, embed(pairs) if embed else None
        )

    def take(self, rows: Int64[np.ndarray, " rows"]) -> PairTexts:
        """The pairs of the numbers ``rows``, in that order."""
        vectors = None if self.vectors is None else self.vectors[rows]
        consonants = self.consonants[0].take(rows), self.consonants[1].take(rows)
        src, tgt = self.src.take(rows), self.tgt.take(rows)
        return PairTexts(src, tgt, self.chars[rows], self.forms.take(rows), consonants, vectors)


@dataclass(frozen=True)
class Tables:
    """Counts of a sample of pairs in two languages.

    Attributes:
        lexicon: which words stand for each other.
        forms: which marks and capitals go together.
        space: where the texts lie in the vectors of an encoder; None without one.
    """

    lexicon: Lexicon
    forms: FormCounts
    space: EmbeddingSpace | None = None

    @staticmethod
    def train(sample: PairTexts, texts: Float32[np.ndarray, "texts 2 dim"] | None = None) -> Tables:
        """Count in sentence pairs.

        Args:
            texts: vectors of pairs whose texts are compared with others; None takes the sample.
        """
        space = None if sample.vectors is None else embedding_distance.train(sample.vectors, texts)
        return Tables(lexical.train(sample.src, sample.tgt), written_form.train(sample.forms), space)

    def arrays(self) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return the tables as numpy arrays by name, as they are stored."""
        return self.lexicon.arrays() | self.forms.arrays() | (self.space.arrays() if self.space else {})

    @staticmethod
    def from_arrays(arrays: Mapping[str, Shaped[np.ndarray, "..."]]) -> Tables:
        """Rebuild the tables from the arrays that `arrays` returned."""
        space = EmbeddingSpace.from_arrays(arrays) if embedding_distance.ARRAYS[0] in arrays else None
        return Tables(Lexicon.from_arrays(arrays), FormCounts.from_arrays(arrays), space)


def names_of(tables: Tables) -> tuple[str, ...]:
    """The names of the values that `measure` gives beside these tables."""
    return (*written_form.NAMES, *names.NAMES, *(embedding_distance.NAMES if tables.space else ()), *NAMES)


def measure(tables: Tables, pairs: PairTexts) -> Float64[np.ndarray, "pairs features"]:
    """The values of `names_of` for each pair, float64 (num_pairs, num_features)."""
    lexicon, src, tgt, chars = tables.lexicon, pairs.src, pairs.tgt, pairs.chars
    word_fit = fit_words(lexicon, src, tgt)
    src_fit, tgt_fit = mean(src, word_fit.src), mean(tgt, word_fit.tgt)
    source_likeness = _source_likeness(lexicon, tgt)
    bigram_likeness = [_bigram_likeness(lexicon, side, tokens) for side, tokens in ((0, src), (1, tgt))]
    length = np.log((chars[:, 1] + 3) / (chars[:, 0] + 3)) * np.sqrt(chars.sum(axis=1) + 10) / 4
    # The correlation of places of target words and of what they are linked to, by how sure the links are.
    weight = np.maximum(word_fit.tgt, 0)
    tgt_positions = (np.arange(len(tgt.ids)) - tgt.starts[tgt.owners]) / np.maximum(
        tgt.lengths[tgt.owners] - 1, 1
    )
    num, owners = len(tgt.lengths), tgt.owners
    total = np.maximum(np.bincount(owners, weight, num), 1e-9)
    centred = [
        x - (np.bincount(owners, weight * x, num) / total)[owners]
        for x in (tgt_positions, word_fit.src_position)
    ]
    products = [
        np.bincount(owners, weight * centred[i] * centred[j], num) for i, j in ((0, 1), (0, 0), (1, 1))
    ]
    strength = np.sqrt(np.maximum(products[1] * products[2], 0))
    confidence = np.sqrt(np.minimum(total, 30) / 30)  # few links say little about an order
    values = (
        tgt_fit, src_fit, np.minimum(src_fit, tgt_fit),
        weakest_end(tgt, word_fit.tgt), weakest_end(src, word_fit.src),
        weakest_end(tgt, word_fit.tgt, True), weakest_end(src, word_fit.src, True),
        tgt_fit * np.sqrt(tgt.lengths), src_fit * np.sqrt(src.lengths), length,
        -weakest_end(tgt, -source_likeness), -weakest_end(tgt, -source_likeness, True),
        mean(tgt, source_likeness), mean(tgt, (_times_in_source(src, tgt) > 0).astype(np.float64)),
        np.where(strength > 1e-9, products[0] / np.maximum(strength, 1e-9), 0) * confidence,
        bigram_likeness[1], bigram_likeness[0], bigram_likeness[1] - bigram_likeness[0],
        np.log1p(np.minimum(src.lengths, tgt.lengths)),
    )  # fmt: skip
    feature_groups = [written_form.measure(tables.forms, pairs.forms), names.measure(*pairs.consonants)]
    if tables.space is not None and pairs.vectors is not None:
        feature_groups.append(embedding_distance.measure(tables.space, pairs.vectors))
    return np.concatenate([*feature_groups, np.stack(values, axis=1)], axis=1)


def mean(side: TextWords, values: Float64[np.ndarray, " words"]) -> Float64[np.ndarray, " texts"]:
    """Means over the words of each text; 0 for a text without words."""
    sums = np.bincount(side.owners, values, len(side.lengths))
    return sums / np.maximum(side.lengths, 1)


def weakest_end(
    side: TextWords, values: Float64[np.ndarray, " words"], begin: bool = False
) -> Float64[np.ndarray, " texts"]:
    """The least sum of ``values`` over an end (or a beginning) of each text, at most 0, by the root of its words.

    Values are logarithms of likelihood ratios, so that this is the evidence that an end does not belong there.
    """
    total = np.concatenate([[0.0], np.cumsum(values)])
    lowest = np.zeros(len(side.lengths))
    rows = side.lengths > 0
    # Of an end: all minus the sum before it; of a beginning: the sum up to its last word.
    partial_sums = total[1:] if begin else total[:-1]
    best = np.minimum if begin else np.maximum
    borders = side.starts[:-1][rows]
    if len(borders):
        extremes = best.reduceat(partial_sums, borders)
        text_totals = total[side.starts[1:][rows]]
        lowest[rows] = np.minimum(extremes - total[borders] if begin else text_totals - extremes, 0)
    return lowest / np.sqrt(np.maximum(side.lengths, 1))


def _source_likeness(lexicon: Lexicon, tgt: TextWords) -> Float64[np.ndarray, " words"]:
    """How much likelier each target word is on source sides than on target sides, as a logarithm."""
    tgt_counts, src_counts = (
        of.lookup(tgt.ids)[:, 0].astype(np.float64) for of in (lexicon.tgt, lexicon.src)
    )
    sizes = lexicon.sizes
    return np.log((src_counts + 0.5) / (sizes[0] + 1)) - np.log((tgt_counts + 0.5) / (sizes[1] + 1))


def _times_in_source(src: TextWords, tgt: TextWords) -> Float64[np.ndarray, " words"]:
    """How often each target word stands in its own source side."""
    keys = [side.ids ^ (side.owners.astype(np.uint64) * np.uint64(0xD6E8FEB86659FD93)) for side in (src, tgt)]
    source_keys, count = np.unique(keys[0], return_counts=True)
    if not len(source_keys):
        return np.zeros(len(keys[1]))
    places = np.minimum(np.searchsorted(source_keys, keys[1]), len(source_keys) - 1)
    return np.where(source_keys[places] == keys[1], count[places], 0).astype(np.float64)


def _bigram_likeness(lexicon: Lexicon, side: int, tokens: TextWords) -> Float64[np.ndarray, " texts"]:
    """How much likelier the words are in this order than in any, as a mean logarithm."""
    bigram_counts = (
        (lexicon.src_runs, lexicon.tgt_runs)[side].lookup(run_keys(tokens))[:, 0].astype(np.float64)
    )
    word_counts = (lexicon.src, lexicon.tgt)[side].lookup(tokens.ids)[:, 0].astype(np.float64)
    is_first = np.zeros(len(tokens.ids), bool)
    is_first[tokens.starts[:-1][tokens.lengths > 0]] = True
    previous_counts = np.concatenate([[0.0], word_counts])[:-1]
    frequency = (word_counts + 0.5) / (lexicon.sizes[side] + 0.5)
    ratio = np.log(
        (bigram_counts + _RUN_SMOOTHING * frequency) / ((previous_counts + _RUN_SMOOTHING) * frequency)
    )
    ratio[is_first] = 0
    return mean(tokens, ratio)
