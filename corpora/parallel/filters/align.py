"""Pairs whose sides do not say the same, by the words that stand for each other."""

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np
import polars as pl

from xling.core.errors import UserError
from xling.corpora.parallel.clean import judge
from xling.corpora.parallel.clean.judge import GROUPS, Judge
from xling.corpora.parallel.filters import PAIR_FILTERS, Context, PairFilter

_load = lru_cache(maxsize=2)(Judge.load)
_UNRELATED_ODDS = {False: 7.0, True: 5.75}
"""Log odds from which a pair is unrelated, without and with an encoder; both lose equally many clean pairs."""


@PAIR_FILTERS.register("align")
@dataclass(frozen=True)
class Align(PairFilter):
    """Drop pairs that fit badly what the corpus teaches of its two languages.

    The tables are trained on the first 20,000 pairs that reach the filter; below 200 pairs nothing is judged. The
    column ``align`` holds the belief that a pair is whole, in [0, 1].

    Args:
        foreign_words: log odds from which a pair goes that is damaged in this way; more keeps more.
        unrelated: likewise; unset means 7, with ``checkpoint=`` 5.75.
        partial: likewise.
        disordered: likewise.
        tables: ``judge.npz`` that ``xling align`` has made; empty trains on the corpus itself.
    """

    foreign_words: float = 4.8
    unrelated: float | None = None
    partial: float = 4.0
    disordered: float = 4.0
    tables: Path | None = None

    name: ClassVar[str] = "align"
    reasons: ClassVar[dict[str, str]] = {
        "foreign_words": "the target side, or a part of it, is not in the words of the other target sides",
        "unrelated": "the words of the sides do not stand for each other",
        "partial": "one side says more than the other",
        "disordered": "the words of the target side are in no order",
    }
    values: ClassVar[dict[str, str]] = {"align": "belief that the sides say the same, 0 to 1"}

    def __post_init__(self) -> None:
        """Reject values that are out of range or do not fit together (UserError)."""
        for kind in GROUPS:
            if (limit := getattr(self, kind)) is not None and not math.isfinite(limit):
                raise UserError(f"settings.align.{kind}={limit}", "a number")
        if self.tables:
            _load(self.tables)

    def fitted(self, pairs: pl.DataFrame, context: Context) -> PairFilter:
        """Return the filter with what it learned from the first batch of pairs."""
        learned = _load(self.tables) if self.tables else judge.train(pairs, context.embed)
        has_vectors = learned is not None and learned.embed is not None
        unrelated = _UNRELATED_ODDS[has_vectors] if self.unrelated is None else self.unrelated
        limits = {kind: getattr(self, kind) for kind in GROUPS} | {"unrelated": unrelated}
        return FittedAlign(learned, tuple(limits.values()))

    def judge(self, pairs: pl.DataFrame, context: Context) -> pl.Series:
        """Return the reason to drop each pair, null for pairs that stay."""
        item = self.fitted(pairs, context)
        return item.judge(item.measured(pairs, context), context)


@dataclass(frozen=True)
class FittedAlign(PairFilter):
    """The filter with its tables; without any it drops nothing."""

    judge_of_pairs: Judge | None
    limits: tuple[float, ...]

    name: ClassVar[str] = Align.name
    reasons: ClassVar[dict[str, str]] = Align.reasons
    values: ClassVar[dict[str, str]] = Align.values

    def measured(self, pairs: pl.DataFrame, context: Context) -> pl.DataFrame:
        """Return the pairs with the columns that this filter measures."""
        if self.judge_of_pairs is None or not pairs.height:
            empty = [pl.lit(None, pl.Float32).alias("align"), pl.lit(None, pl.String).alias("align_fault")]
            return pairs.with_columns(empty)
        odds = self.judge_of_pairs.odds(pairs)
        over = odds >= np.array(self.limits)
        names = np.array([*GROUPS, ""])[np.where(over.any(axis=1), odds.argmax(axis=1), len(GROUPS))]
        return pairs.with_columns(
            pl.Series("align", judge.clean_probability(odds), pl.Float32),
            pl.Series("align_fault", names).replace("", None),
        )

    def judge(self, pairs: pl.DataFrame, context: Context) -> pl.Series:
        """Return the reason to drop each pair, null for pairs that stay."""
        return pairs["align_fault"].alias("reason")
