"""Pairs that occur twice: exactly or nearly, on both sides or on either."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import polars as pl

from xling.corpora.parallel.filters import PAIR_FILTERS, Context, CorpusFilter, PairExample
from xling.text.pairs import SIDES, near_key

_BEFORE = (("A cat.", "Eine Katze."),)


@PAIR_FILTERS.register("duplicates")
@dataclass(frozen=True)
class Duplicates(CorpusFilter):
    """Keep the first of pairs that are equal.

    Nearly equal are texts with the same letters, in any case and with any digits, punctuation and spaces.

    Args:
        near: whether nearly equal pairs are dropped too.
        sides: ``both``: pairs are equal when both sides are; ``src``, ``tgt``: when that side is; ``either``.
    """

    near: bool = True
    sides: Literal["both", "src", "tgt", "either"] = "both"

    name: ClassVar[str] = "duplicates"
    reasons: ClassVar[dict[str, str]] = {
        "exact_pair": "both sides are those of an earlier pair",
        "near_pair": "both sides have the letters of an earlier pair",
        "src_again": "the source side is that of an earlier pair",
        "tgt_again": "the target side is that of an earlier pair",
    }
    examples = (
        PairExample("", "A cat.", "Kater", before=_BEFORE),
        PairExample("exact_pair", "A cat.", "Eine Katze.", before=_BEFORE),
        PairExample("near_pair", "A CAT!", "eine Katze 2", before=_BEFORE),
        PairExample("src_again", "A cat.", "Kater", settings={"sides": "src"}, before=_BEFORE),
        PairExample("tgt_again", "Tom", "Eine Katze.", settings={"sides": "either"}, before=_BEFORE),
    )

    def keys(self, pairs: pl.DataFrame, context: Context) -> pl.DataFrame:
        """64-bit hashes of both sides, as they are and by their letters; collisions are negligible."""
        exact = [pl.col(side).hash(1).alias(f"exact_{side}") for side in SIDES]
        near = [near_key(side).hash(2).alias(f"near_{side}") for side in SIDES]
        return pairs.select(*exact, *near)

    def judge(self, keys: pl.DataFrame, context: Context) -> pl.Series:
        """See `xling.corpora.parallel.filters.CorpusFilter`."""
        kind = "near" if self.near else "exact"
        answer = pl.lit(None, dtype=pl.String)
        for side in SIDES:
            if self.sides in (side, "either"):
                again = ~pl.col(f"{kind}_{side}").is_first_distinct()
                answer = pl.when(again).then(pl.lit(f"{side}_again")).otherwise(answer)
        if self.near:
            answer = pl.when(~_first("near")).then(pl.lit("near_pair")).otherwise(answer)
        answer = pl.when(~_first("exact")).then(pl.lit("exact_pair")).otherwise(answer)
        return keys.select(answer.alias("reason"))["reason"]


def _first(kind: str) -> pl.Expr:
    return pl.struct(f"{kind}_src", f"{kind}_tgt").is_first_distinct()
