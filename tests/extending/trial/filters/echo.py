"""Pairs whose target begins with the source: a pair filter added by this file alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from xling.corpora.parallel.filters import PAIR_FILTERS, Context, PairExample, PairFilter, first_reason


@PAIR_FILTERS.register("echo")
@dataclass(frozen=True)
class Echo(PairFilter):
    """Drop pairs whose target begins with the source.

    Args:
        min_chars: shorter sources are names.
    """

    min_chars: int = 10

    name: ClassVar[str] = "echo"
    reasons: ClassVar[dict[str, str]] = {"echoed": "the target begins with the source"}
    examples = (
        PairExample("", "Berlin", "Berlin ist eine Stadt"),
        PairExample("echoed", "The house is big.", "The house is big. Das Haus ist groß."),
        PairExample("echoed", "Berlin", "Berlin ist eine Stadt", settings={"min_chars": 3}),
    )

    def judge(self, pairs: pl.DataFrame, context: Context) -> pl.Series:
        """See `PairFilter`."""
        long = pl.col("src").str.len_chars() >= self.min_chars
        return first_reason(pairs, {"echoed": long & pl.col("tgt").str.starts_with(pl.col("src"))})
