"""Names that one side of a pair holds and the other lacks, in any script.

Names are spelt alike in most languages, so a name without its like speaks against a pair even if nobody has seen the
name before. Words count as alike if the first consonants of their Latin spelling are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import polars as pl

from xling.array_types import Bool, Float64, Int64
from xling.corpora.parallel.clean.lexical import TextWords
from xling.text.words.romanise import consonants_of, romanise
from xling.text.words.units import UNSPACED_CLASS

NAMES = ("names_found", "src_names_alone", "tgt_names_alone")
"""Of which `measure` gives the values."""
_MAX_CHARS, _MAX_WORDS = 2000, 80
_MIN_CONSONANTS, _MAX_CONSONANTS = 2, 4  # consonants that are compared
_HASH_BITS = 21
_WORD = rf"[[\p{{L}}\p{{M}}]--[{UNSPACED_CLASS}]]+"


@dataclass(frozen=True)
class NameConsonants:
    """The words of texts by their consonants.

    Attributes:
        words: hashes of the first consonants of each word, 0 for words with too few.
        is_name: bool (num_words,), whether the word begins with a capital and is not the first of its text.
    """

    words: TextWords
    is_name: Bool[np.ndarray, " words"]

    def take(self, rows: Int64[np.ndarray, " rows"]) -> NameConsonants:
        """The texts of the numbers ``rows``, in that order."""
        marked = TextWords(self.is_name.astype(np.uint64), self.words.starts)
        return NameConsonants(self.words.take(rows), marked.take(rows).ids.astype(bool))


def read_consonants(texts: pl.Series) -> NameConsonants:
    """Read the words of texts."""
    lists = texts.str.head(_MAX_CHARS).str.extract_all(_WORD).list.head(_MAX_WORDS)
    lengths = lists.list.len().to_numpy().astype(np.int64)
    flat = lists.filter(lists.list.len() > 0).explode()
    starts = np.concatenate([[0], np.cumsum(lengths)])
    is_name = flat.str.contains(r"^\p{Lu}").to_numpy().astype(bool)
    is_name[starts[:-1][lengths > 0]] = False
    keys = np.fromiter(map(_consonant_key, flat.to_list()), np.uint64, len(flat))
    return NameConsonants(TextWords(keys, starts), is_name & (keys != 0))


@lru_cache(maxsize=1 << 18)
def _consonant_key(word: str) -> int:
    """A number for the first consonants of a word, 0 where there are too few."""
    consonants = consonants_of(romanise(word.lower()))[:_MAX_CONSONANTS]
    return int.from_bytes(consonants.encode(), "little") if len(consonants) >= _MIN_CONSONANTS else 0


def measure(src: NameConsonants, tgt: NameConsonants) -> Float64[np.ndarray, "pairs features"]:
    """The values of `NAMES` for each pair, float64 (num_pairs, num_features): log of one more than the number."""
    has_match = [_has_match(one, other) for one, other in ((src, tgt), (tgt, src))]
    num = len(src.words.lengths)
    counts = [
        np.bincount(side.words.owners[side.is_name & is_there], minlength=num)
        for side, both in ((src, has_match[0]), (tgt, has_match[1]))
        for is_there in (both, ~both)
    ]
    return np.log1p(np.stack([np.maximum(counts[0], counts[2]), counts[1], counts[3]], axis=1))


def _has_match(side: NameConsonants, other: NameConsonants) -> npt.NDArray[np.bool_]:
    """Whether each word of ``side`` has its like in the same pair's other side."""
    keys = [
        each.words.ids * np.uint64(0x9E3779B97F4A7C15) + each.words.owners.astype(np.uint64)
        for each in (side, other)
    ]
    # Few words have their like, so most are told by tables of hashes.
    slots = [each >> np.uint64(64 - _HASH_BITS) for each in keys]
    is_used = np.zeros((2, 1 << _HASH_BITS), bool)
    for table, side_slots in zip(is_used, slots, strict=True):
        table[side_slots] = True
    is_there: npt.NDArray[np.bool_] = is_used[1][slots[0]]
    maybe = np.flatnonzero(is_there)
    is_there[maybe] = np.isin(keys[0][maybe], keys[1][is_used[0][slots[1]]])
    return is_there
