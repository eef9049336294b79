"""Pairs with an empty side, or with the same text on both sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from corpora.parallel.filters import PAIR_FILTERS, Context, first_reason
from corpora.parallel.pairs import near_key


@PAIR_FILTERS.register("empty")
@dataclass(frozen=True)
class Empty:
    """Drop pairs that say nothing on a side or the same on both.

    Args:
        identical: whether pairs with equal sides, by their letters, are dropped.
    """

    identical: bool = True

    name: ClassVar[str] = "empty"
    reasons: ClassVar[dict[str, str]] = {
        "empty_src": "the source side has no letter or digit",
        "empty_tgt": "the target side has no letter or digit",
        "identical": "both sides have the same letters: not translated",
    }

    def judge(self, pairs: pl.DataFrame, context: Context) -> pl.Series:
        """See `corpora.parallel.filters.BatchFilter`."""
        tests = {f"empty_{side}": ~pl.col(side).str.contains(r"[\p{L}\p{N}]") for side, _ in context.sides}
        if self.identical:
            tests["identical"] = near_key("src") == near_key("tgt")
        return first_reason(pairs, tests)
