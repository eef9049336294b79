"""Pairs with words that no language writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from xling.corpora.parallel.filters import PAIR_FILTERS, Context, PairExample, PairFilter, first_reason


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
    examples = (
        PairExample("", "a long address: http://www.example.org/" + "b" * 41, "ein Wort"),
        PairExample("long_word", "a " + "b" * 41, "ein Wort"),
    )

    def judge(self, pairs: pl.DataFrame, context: Context) -> pl.Series:
        """Return the reason to drop each pair, null for pairs that stay."""
        test = pl.lit(False)
        for side, lang in context.sides:
            if lang.spaces:
                # Only a side with that many bytes and few spaces can hold such a word; the others cost nothing.
                words = pl.col(side).str.replace_all(r"(?:https?://|www\.)[^ ]+", "").str.split(" ")
                longest = words.list.eval(pl.element().str.len_chars()).list.max()
                may = pl.col(side).str.contains(f"[^ ]{{{self.max_chars + 1}}}")
                test = test | (may & (longest > self.max_chars))
        return first_reason(pairs, {"long_word": test})
