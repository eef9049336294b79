"""Pairs with an empty side, or with the same text on both sides."""

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from xling.corpora.parallel.filters import PAIR_FILTERS, Context, PairFilter, first_reason
from xling.text.pairs import SIDES, near_duplicate_key

_FIRST_CHARS = 40  # characters


@PAIR_FILTERS.register("empty")
@dataclass(frozen=True)
class Empty(PairFilter):
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
        """Return the reason to drop each pair, null for pairs that stay."""
        tests = {f"empty_{side}": ~pl.col(side).str.contains(r"[\p{L}\p{N}]") for side, _ in context.sides}
        if self.identical:
            # Few pairs begin alike, and only for those the whole texts are compared.
            start = [
                near_duplicate_key(pl.col(side).str.head(_FIRST_CHARS)).str.head(_FIRST_CHARS // 4)
                for side in SIDES
            ]
            alike = pairs.select((start[0] == start[1]).alias("alike"))["alike"]
            same = pl.Series(
                pairs.filter(alike).select(near_duplicate_key("src") == near_duplicate_key("tgt")).to_series()
            )
            rows = alike.arg_true().filter(same)
            tests["identical"] = pl.int_range(pl.len()).is_in(rows.implode())
        return first_reason(pairs, tests)
