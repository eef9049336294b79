"""Text that another program has tokenised, put together again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from xling.corpora.parallel.filters import PAIR_FILTERS, REPAIRS, Context, PairExample, PairFilter
from xling.text.tokenised import TOKENISED, tokenised_kind, undo


@PAIR_FILTERS.register("detokenise")
@dataclass(frozen=True)
class Detokenise(PairFilter):
    """Undo the tokenisation of Moses, BPE, SentencePiece and the Penn Treebank; it is not among the default filters.

    It drops nothing, and the card shows what it changed. List it first.
    """

    name: ClassVar[str] = "detokenise"
    reasons: ClassVar[dict[str, str]] = {}
    examples = (PairExample("", "The well @-@ known man did n't come .", "Der bekannte Mann kam nicht ."),)

    def repaired(self, pairs: pl.DataFrame, context: Context) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the pairs with both sides as they were written, and what was changed."""
        changes: list[tuple[str, str, str, str]] = []
        for side, lang in context.sides:
            before = pairs[side].to_list()
            after = [undo(text, lang.code) for text in before]
            rows = zip(pairs["id"].to_list(), before, after, strict=True)
            changes += [(name, "tokenised", old, new) for name, old, new in rows if old != new]
            pairs = pairs.with_columns(pl.Series(side, after, pl.String))
        return pairs, pl.DataFrame(changes, REPAIRS, orient="row")

    def judge(self, pairs: pl.DataFrame, context: Context) -> pl.Series:
        """Return the reason to drop each pair, null for all of them."""
        return pl.repeat(None, pairs.height, dtype=pl.String, eager=True).alias("reason")


def count_tokenised(pairs: pl.DataFrame, context: Context) -> dict[str, int]:
    """Return how many pairs have a side that was tokenised, by kind, as events of the ledger."""
    counts: dict[str, int] = {}
    for texts in pairs.select(side for side, _ in context.sides).iter_rows():
        if kind := next(filter(None, map(tokenised_kind, texts)), ""):
            counts[f"{TOKENISED}{kind}"] = counts.get(f"{TOKENISED}{kind}", 0) + 1
    return counts
