"""Pairs with a sentence of a dev or test set on either side."""

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from xling.corpora.parallel.clean.near_duplicates import (
    MIN_WORDS,
    sums_without_each_word,
    text_sums,
    whole_words,
)
from xling.corpora.parallel.filters import PAIR_FILTERS, Context, PairFilter, first_reason
from xling.corpora.stages.contamination import StampedPath, texts_of, with_time_stamps
from xling.text.leaks import read as read_leaks
from xling.text.pairs import near_duplicate_key


@PAIR_FILTERS.register("overlap")
@dataclass(frozen=True)
class Overlap(PairFilter):
    """Drop pairs that hold a held-out sentence, whichever side or direction it comes from.

    A sentence of five words and more is also found with one word more or less.

    Args:
        min_letters: held-out sentences with fewer letters are common phrases and do not count.
        leaks: index of test rows that ``xling eval leaks`` has made; the card counts the pairs that hold any, by suite,
            language, split and side.
        block: whether pairs with such rows are dropped; else they are only counted.
    """

    min_letters: int = 10
    leaks: Path | None = None
    block: bool = True

    name: ClassVar[str] = "overlap"
    reasons: ClassVar[dict[str, str]] = {
        "heldout_src": "the source side is a sentence of a dev or test set",
        "heldout_tgt": "the target side is a sentence of a dev or test set",
    }

    def judge(self, pairs: pl.DataFrame, context: Context) -> pl.Series:
        """Return the reason to drop each pair, null for pairs that stay."""
        tests: dict[str, pl.Expr] = {}
        for side in ("src", "tgt"):
            is_heldout = pl.col(side).is_null()  # never
            if context.heldout:
                heldout_keys = _heldout_keys(with_time_stamps(context.heldout), self.min_letters)
                is_heldout = near_duplicate_key(side).is_in(heldout_keys.implode())
                # Held-out sentences with one word more or less.
                known, shorter = _heldout_words(with_time_stamps(context.heldout), self.min_letters)
                words = whole_words(pairs[side])
                less = (words.lengths >= MIN_WORDS) & np.isin(text_sums(words)[0], shorter)
                more = words.owners[np.isin(sums_without_each_word(words), known)]
                near_rows = sorted({*np.flatnonzero(less).tolist(), *more.tolist()})
                is_heldout |= pl.int_range(pl.len()).is_in(near_rows)
            if self.leaks and self.block:
                is_heldout |= pl.int_range(pl.len()).is_in(
                    sorted({place for place, _ in self._find_test_rows(pairs[side])})
                )
            tests[f"heldout_{side}"] = is_heldout
        return first_reason(pairs, tests)

    def notes(self, pairs: pl.DataFrame, context: Context) -> dict[str, int]:
        """Pairs that hold test rows, by what the rows belong to."""
        if not self.leaks:
            return {}
        index = read_leaks(self.leaks)
        rows_of_pairs: dict[int, set[int]] = {}
        for side in ("src", "tgt"):
            for position, row in self._find_test_rows(pairs[side]):
                rows_of_pairs.setdefault(position, set()).add(row)
        return Counter(
            f"test rows of {group}" for rows in rows_of_pairs.values() for group in index.groups_of(rows)
        )

    def _find_test_rows(self, texts: pl.Series) -> list[tuple[int, int]]:
        """Number of a pair and a test row that its side holds."""
        return read_leaks(self.leaks).find_in(texts.to_list()) if self.leaks else []


@lru_cache(maxsize=2)
def _heldout_keys(files: tuple[StampedPath, ...], min_letters: int) -> pl.Series:
    """The letters of every held-out sentence."""
    texts = pl.DataFrame(
        {"text": [text for file, _ in files for text in texts_of(file)]}, {"text": pl.String}
    )
    keys = texts.select(near_duplicate_key("text").alias("text").unique(maintain_order=True))["text"]
    return keys.filter(keys.str.len_chars() >= min_letters)


@lru_cache(maxsize=2)
def _heldout_words(
    files: tuple[StampedPath, ...], min_letters: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Sums of the words of held-out sentences of five words and more, and of these with a word left out; sorted."""
    texts = pl.Series([text for file, _ in files for text in texts_of(file)], dtype=pl.String)
    words = whole_words(texts.filter(texts.str.count_matches(r"\p{L}") >= min_letters))
    words = words.take(np.flatnonzero(words.lengths > MIN_WORDS))
    return np.unique(text_sums(words)[0]), np.unique(sums_without_each_word(words))
