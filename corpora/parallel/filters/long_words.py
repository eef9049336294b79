"""Pairs with words that no language writes."""

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from xling.corpora.parallel.filters import PAIR_FILTERS, Context, PairFilter, first_reason


@PAIR_FILTERS.register("long_words")
@dataclass(frozen=True)
class LongWords(PairFilter):
    """Drop pairs with a very long word on a side that is written with spaces.

    Args:
        max_chars: longest word kept, in characters; web addresses do not count.
    """

    max_chars: int = 40

    name: ClassVar[str] = "long_words"
    reasons: ClassVar[dict[str, str]] = {"long_word": "a word is longer than any real one"}
    values: ClassVar[dict[str, str]] = {
        "longest_word": "characters of the longest word, in a language with spaces"
    }

    def measured(self, pairs: pl.DataFrame, context: Context) -> pl.DataFrame:
        """Return the pairs with the columns that this filter measures."""
        longest = [_longest_word(side) for side, lang in context.sides if lang.spaces]
        return pairs.with_columns(pl.max_horizontal(pl.lit(0, pl.UInt32), *longest).alias("longest_word"))

    def judge(self, pairs: pl.DataFrame, context: Context) -> pl.Series:
        """Return the reason to drop each pair, null for pairs that stay."""
        pairs = pairs if "longest_word" in pairs.columns else self.measured(pairs, context)
        return first_reason(pairs, {"long_word": pl.col("longest_word") > self.max_chars})


def _longest_word(side: str) -> pl.Expr:
    words = pl.col(side).str.replace_all(r"(?:https?://|www\.)[^ ]+", "").str.split(" ")
    return words.list.eval(pl.element().str.len_chars()).list.max()
