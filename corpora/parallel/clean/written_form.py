"""The written form of sentence pairs: marks, capitals and numbers that go together, and kinds of words in their order.

Punctuation is translated almost word for word: a question stays one, a sentence ends with a mark. So the form shows a
missing or added sentence, a cut and a wrong partner in any language, also where few pairs teach few words. Which forms
go together is counted in the corpus.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from xling.array_types import Float64, Int64, Shaped, UInt64
from xling.corpora.parallel.clean.lexical import Counts, TextWords, count_keys, first_pieces, word_pair_keys
from xling.text.words.units import UNSPACED_CLASS

_MAX_CHARS, _MAX_PIECES, _MAX_SINGLE, _SUFFIX_CHARS = 2000, 120, 480, 2
_STATEMENT_MARKS, _QUESTION_MARKS, _EXCLAMATION_MARKS = ".。।॥။።៕۔։…", "?？؟;՞", "!！՜"
_CLOSING = "\"'”’»“„«)\\]\\s」』】）"
_COUNTED_PATTERNS = {
    "sentences": rf"[{_STATEMENT_MARKS}{_QUESTION_MARKS}{_EXCLAMATION_MARKS}]+[{_CLOSING}]*(?:\s|$)|[。！？၊။]",
    "questions": r"[?？؟]",
    "exclamations": r"[!！]",
    "commas": r"[,،、，፣၊]",
    "colons": r"[:;：；–—-]",
    "quotes": '["“”„«»「」『』‹›]',
    "brackets": r"[(（\[]",
    "numbers": r"\p{Nd}+",
    "capitals": r"[\s(\"“«„'‘-]\p{Lu}",
    "spaces": r"\s",
}
_WORD_START = r"(?:^|[\s(\"“„«'‘.-])"
_WITHIN_WORD = (
    "|".join(
        (
            rf"{_WORD_START}\p{{L}}\.\s",
            rf"{_WORD_START}(?:Mrs?|Ms|Dr|St|Prof|Sens?|Gen|Gov|Reps?|Rev|Lt|Col|No|vs)\.",
            rf"\p{{L}}\p{{L}}[.?!…]+[{_CLOSING}]*\s+\p{{Ll}}",
        )
    ),
    rf"{_WORD_START}\p{{L}}\.\s\p{{L}}\.\s",
)
"""Marks behind which a sentence goes on: of initials and titles, and those before a small letter.

The second pattern is the second of two initials. Borders of words (``\\b``) would make the patterns ten times as slow.
"""
_NUM_COUNTS = 8  # counts are 0 to 7, seven and more being one
FEATURES = ("end", "first", *_COUNTED_PATTERNS)
_CONDITIONAL = ("end", "first", "sentences", "capitals", "questions")
NAMES = (
    *(f"{name}_agree" for name in FEATURES),
    *(f"{name}_given_src" for name in _CONDITIONAL),
    *(f"{name}_given_tgt" for name in _CONDITIONAL),
    "form_agree", "shapes", "endings",
)  # fmt: skip
"""Of which `measure` gives the values."""
_SMOOTHING, _RUN_SMOOTHING = 0.5, 3.0
_PIECE = (
    rf"[{UNSPACED_CLASS}]\p{{M}}*|[[\p{{L}}\p{{M}}\p{{N}}]--[{UNSPACED_CLASS}]]+|[^\s\p{{L}}\p{{M}}\p{{N}}]"
)
_TEXT_BORDER = np.uint64(1)


@dataclass(frozen=True)
class WrittenForms:
    """The form of both sides of some pairs.

    Attributes:
        codes: int64 (num_pairs, 2, num_features), the value of each of `FEATURES` on each side, 0 to 7.
        shapes: kinds of the target sides' words and their marks, each text after a border.
        endings: the same with the last letters of the words.
    """

    codes: Int64[np.ndarray, "pairs 2 features"]
    shapes: TextWords
    endings: TextWords

    def take(self, rows: Int64[np.ndarray, " rows"]) -> WrittenForms:
        """The pairs of the numbers ``rows``, in that order."""
        return WrittenForms(self.codes[rows], self.shapes.take(rows), self.endings.take(rows))


def forms(pairs: pl.DataFrame) -> WrittenForms:
    """Read the form of pairs with the columns ``src`` and ``tgt``."""
    codes = np.stack([_feature_codes(pairs[side]) for side in ("src", "tgt")], axis=1)
    # The kinds of the words and marks of target sides, without and with the last letters of the words.
    lists = first_pieces(pairs["tgt"].str.head(_MAX_CHARS), _PIECE, _MAX_PIECES, _MAX_SINGLE)
    lengths = lists.list.len().to_numpy().astype(np.int64)
    flat = lists.filter(lists.list.len() > 0).explode()
    points = np.frombuffer("".join(flat.str.head(1)).encode("utf-32-le"), np.uint32)
    known, numbers = np.unique(points, return_inverse=True)
    shapes = (
        np.array([_character_shape(chr(point)) for point in known], np.uint64)[numbers]
        if len(known)
        else points
    )
    ends = word_pair_keys(
        shapes.astype(np.uint64), flat.str.tail(_SUFFIX_CHARS).str.to_lowercase().hash(7).to_numpy()
    )
    starts = np.concatenate([[0], np.cumsum(lengths)])
    bordered = starts + np.arange(len(starts))
    kinds, endings = (np.insert(ids.astype(np.uint64), starts[:-1], _TEXT_BORDER) for ids in (shapes, ends))
    return WrittenForms(codes, TextWords(kinds, bordered), TextWords(endings, bordered))


def _feature_codes(texts: pl.Series) -> Int64[np.ndarray, "texts features"]:
    text = pl.col("text")
    last = text.str.strip_chars_end(" \t\n\"'”’»“„«)]」』】）\u200e\u200f").str.tail(1)
    end_mark = pl.lit(0)
    for value, marks in enumerate((_STATEMENT_MARKS, _QUESTION_MARKS, _EXCLAMATION_MARKS, ",:：，、-–—"), 1):
        end_mark = pl.when(last.is_in(list(marks))).then(value).otherwise(end_mark)
    first = text.str.extract(r"(\p{L}|\p{N})").fill_null("")
    first_class = pl.lit(0)
    for value, kind in enumerate((r"\p{Lu}", r"\p{Ll}", r"\p{N}"), 1):
        first_class = pl.when(first.str.contains(kind)).then(value).otherwise(first_class)
    counts = [text.str.count_matches(pattern) for pattern in _COUNTED_PATTERNS.values()]
    inside = [
        text.str.strip_chars_end().str.count_matches(pattern).cast(pl.Int64) for pattern in _WITHIN_WORD
    ]
    counts[0] = (counts[0].cast(pl.Int64) - inside[0] - inside[1]).clip(0)
    named = {
        name: each.cast(pl.Int64)
        for name, each in zip(FEATURES, (end_mark, first_class, *counts), strict=True)
    }
    read = pl.DataFrame({"text": texts.str.head(_MAX_CHARS)}).select(**named)
    return np.minimum(read.to_numpy().reshape(-1, len(FEATURES)), _NUM_COUNTS - 1)


def _character_shape(char: str) -> int:
    """The kind of a word by its first character; a mark is itself."""
    category = unicodedata.category(char)
    if category[0] in "LMN":
        return {"Lu": 2, "Lt": 2, "Ll": 3, "Nd": 4}.get(category, 5)
    return 16 + ord(char)


@dataclass(frozen=True)
class FormCounts:
    """How often forms go together in a sample of sentence pairs.

    Attributes:
        joint: float64 (num_features, 8, 8), pairs with each value on the source side and on the target side.
        shapes: two kinds behind each other -> times.
        endings: likewise.
        shape: kind -> times.
        ending: likewise.
    """

    joint: Float64[np.ndarray, "features kinds kinds"]
    shapes: Counts
    endings: Counts
    shape: Counts
    ending: Counts

    def arrays(self) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return the counts as numpy arrays by name, as they are stored."""
        stored: dict[str, npt.NDArray[np.float64] | npt.NDArray[np.uint64]] = {"joint": self.joint}
        for name in _COUNTS:
            counts: Counts = getattr(self, name)
            stored[f"{name}.keys"], stored[f"{name}.values"] = counts.keys, counts.values
        return stored

    @staticmethod
    def from_arrays(arrays: Mapping[str, Shaped[np.ndarray, "..."]]) -> FormCounts:
        """Rebuild the counts from the arrays that `arrays` returned."""
        counts = {name: Counts.from_arrays(arrays, name) for name in _COUNTS}
        return FormCounts(arrays["joint"].astype(np.float64), **counts)


_COUNTS = ("shapes", "endings", "shape", "ending")
ARRAYS = ("joint", *(f"{name}.{part}" for name in _COUNTS for part in ("keys", "values")))
"""Names of the arrays that the counts are stored as."""


def train(sample: WrittenForms) -> FormCounts:
    """Count which forms of both sides go together."""
    joint = np.zeros((len(FEATURES), _NUM_COUNTS, _NUM_COUNTS))
    for feature in range(len(FEATURES)):
        np.add.at(joint[feature], (sample.codes[:, 0, feature], sample.codes[:, 1, feature]), 1)
    runs = [count_keys(_bigram_keys(side)) for side in (sample.shapes, sample.endings)]
    return FormCounts(joint, *runs, *(count_keys(side.ids) for side in (sample.shapes, sample.endings)))


def _bigram_keys(side: TextWords) -> UInt64[np.ndarray, " words"]:
    """A key of each piece and the next one; behind the last piece of a text stands the border of the next text."""
    return word_pair_keys(side.ids, np.roll(side.ids, -1)) if len(side.ids) else side.ids


def measure(counts: FormCounts, pairs: WrittenForms) -> Float64[np.ndarray, "pairs features"]:
    """The values of `NAMES` for each pair, float64 (num_pairs, num_features)."""
    num = max(counts.joint[0].sum(), 1.0)
    agreement, conditional_probability = [], {}
    for place, name in enumerate(FEATURES):
        joint = counts.joint[place]
        src, tgt = joint.sum(axis=1, keepdims=True) / num, joint.sum(axis=0, keepdims=True) / num
        together = np.log((joint + _SMOOTHING) / (num * src * tgt + _SMOOTHING))
        cell = pairs.codes[:, 0, place], pairs.codes[:, 1, place]
        agreement.append(together[cell])
        if name in _CONDITIONAL:
            of_src = np.log((joint + _SMOOTHING * tgt + 0.01) / (num * src + _SMOOTHING + 0.01 * _NUM_COUNTS))
            of_tgt = np.log((joint + _SMOOTHING * src + 0.01) / (num * tgt + _SMOOTHING + 0.01 * _NUM_COUNTS))
            conditional_probability[name] = of_src[cell], of_tgt[cell]
    conditional = [conditional_probability[name][side] for side in (0, 1) for name in _CONDITIONAL]
    order = [
        _bigram_likeness(counts.shapes, counts.shape, pairs.shapes),
        _bigram_likeness(counts.endings, counts.ending, pairs.endings),
    ]
    return np.stack([*agreement, *conditional, np.sum(agreement, axis=0), *order], axis=1)


def _bigram_likeness(
    bigram_counts: Counts, single_counts: Counts, side: TextWords
) -> Float64[np.ndarray, " texts"]:
    """How much likelier each text is in this order than in any: a log ratio by the root of the number of pieces."""
    size = single_counts.values.sum() + 1
    often = (single_counts.lookup(side.ids)[:, 0].astype(np.float64) + 0.5) / size
    after = np.roll(often, -1)
    together = bigram_counts.lookup(_bigram_keys(side))[:, 0].astype(np.float64)
    ratio = np.log((together + _RUN_SMOOTHING * after) / ((often * size + _RUN_SMOOTHING) * after))
    return np.bincount(side.owners, ratio, len(side.lengths)) / np.sqrt(np.maximum(side.lengths, 1))
