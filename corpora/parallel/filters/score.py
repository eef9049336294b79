"""Pairs by the score that a model or a file gave them, or by a value that another filter left."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import polars as pl

from xling.core.errors import unknown
from xling.corpora.parallel.clean import score_threshold
from xling.corpora.parallel.filters import PAIR_FILTERS, Context, CorpusFilter, first_reason


@PAIR_FILTERS.register("score")
@dataclass(frozen=True)
class Score(CorpusFilter):
    """Drop pairs whose score is low, and keep the best of the others.

    Pairs without a score are kept: a model that was not given cannot condemn.

    Args:
        threshold: lowest score kept; ``auto`` fits two groups to the scores and cuts between them, and keeps all where
            no two groups show.
        top_k: pairs kept in all, those with the highest scores, earlier ones first; 0 for no limit.
        column: the column that is the score, in which higher is better: ``score``, ``align``, ``langid`` or another
            one that the filters leave.
    """

    threshold: float | Literal["auto"] = float("-inf")
    top_k: int = 0
    column: str = "score"

    name: ClassVar[str] = "score"
    reasons: ClassVar[dict[str, str]] = {
        "low_score": "the score is under the threshold",
        "below_top_k": "enough pairs have higher scores",
    }

    def keys(self, pairs: pl.DataFrame, context: Context) -> pl.DataFrame:
        """Return the model score of each pair, the key that `judge` reads."""
        if self.column not in pairs.columns:
            numbers = [name for name, kind in pairs.schema.items() if kind.is_numeric()]
            raise unknown("column for settings.score.column", self.column, numbers)
        return pairs.select(pl.col(self.column).cast(pl.Float32).alias("score"))

    def judge(self, keys: pl.DataFrame, context: Context) -> pl.Series:
        """Return the reason to drop each pair, null for pairs that stay."""
        limit = self.threshold
        if limit == "auto":
            border = score_threshold.find_threshold(keys["score"].drop_nulls().to_numpy().astype(np.float64))
            limit = -math.inf if border is None else border
        low = (pl.col("score") < limit).fill_null(False)
        tests = {"low_score": low}
        if self.top_k:
            worth = pl.when(low).then(None).otherwise(pl.col("score").fill_null(float("inf")))
            tests["below_top_k"] = (worth.rank("ordinal", descending=True) > self.top_k).fill_null(False)
        return first_reason(keys, tests)
