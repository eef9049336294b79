"""Pairs by the score that a model or a file gave them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from xling.corpora.parallel.filters import PAIR_FILTERS, Context, CorpusFilter, PairExample, first_reason

_BEFORE = (("A cat.", "Eine Katze."),)


@PAIR_FILTERS.register("score")
@dataclass(frozen=True)
class Score(CorpusFilter):
    """Drop pairs whose score is low, and keep the best of the others.

    Pairs without a score are kept: a model that was not given cannot condemn.

    Args:
        threshold: lowest score kept.
        top_k: pairs kept in all, those with the highest scores, earlier ones first; 0 for no limit.
    """

    threshold: float = float("-inf")
    top_k: int = 0

    name: ClassVar[str] = "score"
    reasons: ClassVar[dict[str, str]] = {
        "low_score": "the score is under the threshold",
        "below_top_k": "enough pairs have higher scores",
    }
    examples = (
        PairExample("", "A cat.", "Eine Katze.", settings={"threshold": 0.3}, score=0.5),
        PairExample("", "A cat.", "Eine Katze.", settings={"threshold": 0.3, "top_k": 1}),
        PairExample("low_score", "A cat.", "Eine Katze.", settings={"threshold": 0.3}, score=0.1),
        PairExample("below_top_k", "A cat.", "Eine Katze.", settings={"top_k": 1}, before=_BEFORE, score=0.5),
    )

    def keys(self, pairs: pl.DataFrame, context: Context) -> pl.DataFrame:
        """Return the model score of each pair, the key that `judge` reads."""
        return pairs.select("score")

    def judge(self, keys: pl.DataFrame, context: Context) -> pl.Series:
        """Return the reason to drop each pair, null for pairs that stay."""
        low = (pl.col("score") < self.threshold).fill_null(False)
        tests = {"low_score": low}
        if self.top_k:
            worth = pl.when(low).then(None).otherwise(pl.col("score").fill_null(float("inf")))
            tests["below_top_k"] = (worth.rank("ordinal", descending=True) > self.top_k).fill_null(False)
        return first_reason(keys, tests)
