"""Pairs with a segment repeated over and over on a side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from xling.corpora.parallel.filters import PAIR_FILTERS, Context, PairExample, PairFilter, first_reason


@PAIR_FILTERS.register("repetition")
@dataclass(frozen=True)
class Repetition(PairFilter):
    """Drop pairs with few distinct units on a side while the other has more.

    Units are words, or characters for scripts without spaces.

    Args:
        min_distinct: smallest share of distinct units.
        min_units: sides with fewer units are not judged.
        margin: the share must be below the other side's by so much, since poems and songs repeat on both.
    """

    min_distinct: float = 0.55
    min_units: int = 6
    margin: float = 0.15

    name: ClassVar[str] = "repetition"
    reasons: ClassVar[dict[str, str]] = {"repeated": "a segment is repeated on one side only"}
    examples = (
        PairExample("", "Row, row, row your boat", "Ruder, ruder, ruder dein Boot"),
        PairExample("repeated", "no no no no no no no no", "nein das will ich ja gar nicht"),
    )

    def judge(self, pairs: pl.DataFrame, context: Context) -> pl.Series:
        """See `xling.corpora.parallel.filters.PairFilter`."""
        columns = []
        for side, lang in context.sides:
            # Characters repeat by chance, so for them a third of the share is asked.
            units = pl.col(side).str.to_lowercase().str.split(" " if lang.spaces else "")
            share = units.list.n_unique() / units.list.len() * (1 if lang.spaces else 1.5)
            columns += [share.alias(f"share_{side}"), units.list.len().alias(f"len_{side}")]
        facts = pairs.select(columns)
        tests = []
        for side, other in (("src", "tgt"), ("tgt", "src")):
            tests.append(
                (pl.col(f"share_{side}") < self.min_distinct)
                & (pl.col(f"len_{side}") >= self.min_units)
                & (pl.col(f"share_{side}") < pl.col(f"share_{other}") - self.margin)
            )
        return first_reason(facts, {"repeated": pl.any_horizontal(tests)})
