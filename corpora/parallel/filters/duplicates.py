"""Pairs that occur twice: exactly or nearly, on both sides or on either."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from xling.corpora.parallel.clean.near_duplicates import (
    BUCKETS,
    MIN_WORDS,
    bags,
    few_more,
    one_word_apart,
    sums,
    whole_words,
)
from xling.corpora.parallel.filters import PAIR_FILTERS, Context, CorpusFilter, PairExample
from xling.text.pairs import SIDES, near_duplicate_key

_BEFORE = (("A cat.", "Eine Katze."),)
_LONG = (("A small cat sleeps in the house.", "Eine kleine Katze schläft im Haus."),)
_ELISIONS = (("It's water from a well.", "C'est de l'eau d'un puits."),)
_UNSPACED = (("He came home late today.", "เขากลับบ้านดึกวันนี้"),)
_LOOK_BACK = 8  # earlier pairs with an equal side that a pair is compared with


@PAIR_FILTERS.register("duplicates")
@dataclass(frozen=True)
class Duplicates(CorpusFilter):
    """Keep the first of pairs that are equal.

    Nearly equal are texts with the same letters, in any case and with any digits, punctuation and spaces. So are
    pairs one side of which is equal in that way while the other, of at least four words, has one more or less. Where
    no spaces stand between words a word is up to three characters.

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
        "word_more": "one side has the letters of an earlier pair, the other one word more or less",
        "src_again": "the source side is that of an earlier pair",
        "tgt_again": "the target side is that of an earlier pair",
    }
    examples = (
        PairExample("", "A cat.", "Kater", before=_BEFORE),
        PairExample("exact_pair", "A cat.", "Eine Katze.", before=_BEFORE),
        PairExample("near_pair", "A CAT!", "eine Katze 2", before=_BEFORE),
        PairExample("word_more", _LONG[0][0], "Eine kleine Katze schläft im im Haus.", before=_LONG),
        PairExample("word_more", "A small cat sleeps in house.", _LONG[0][1], before=_LONG),
        PairExample(
            "word_more", "It's water from a well.", "C'est de l'eau d'un d'un puits.", before=_ELISIONS
        ),
        PairExample("word_more", _UNSPACED[0][0], "เขากลับบ้านดึกบ้าวันนี้", "en-th", before=_UNSPACED),
        PairExample("", _UNSPACED[0][0], "วันนี้ผมกลับบ้านค่ำ", "en-th", before=_UNSPACED),
        PairExample("", _LONG[0][0], "Eine kleine Maus schläft im Haus.", before=_LONG),
        PairExample("src_again", "A cat.", "Kater", settings={"sides": "src"}, before=_BEFORE),
        PairExample("tgt_again", "Tom", "Eine Katze.", settings={"sides": "either"}, before=_BEFORE),
    )

    def keys(self, pairs: pl.DataFrame, context: Context) -> pl.DataFrame:
        """64-bit hashes of both sides, as they are, by their letters and by their words; collisions are negligible."""
        exact = [pl.col(side).hash(1).alias(f"exact_{side}") for side in SIDES]
        near = [near_duplicate_key(side).hash(2).alias(f"near_{side}") for side in SIDES]
        hashes = pairs.select(*exact, *near)
        if not self.near:
            return hashes
        columns = []
        for side, lang in context.sides:
            words = whole_words(pairs[side])
            first, second = sums(words)
            few = words.lengths < MIN_WORDS
            columns += [
                pl.Series(f"words_{side}", np.where(few, 0, first)),
                pl.Series(f"mixed_{side}", second),
            ]
            if not lang.spaces:
                halves = bags(words).view(np.uint64).reshape(-1, BUCKETS // 8)
                columns += [pl.Series(f"bag{i}_{side}", halves[:, i]) for i in range(BUCKETS // 8)]
        return hashes.with_columns(columns)

    def judge(self, keys: pl.DataFrame, context: Context) -> pl.Series:
        """Return the reason to drop each pair, null for pairs that stay."""
        kind = "near" if self.near else "exact"
        answer = pl.lit(None, dtype=pl.String)
        for side in SIDES:
            if self.sides in (side, "either"):
                again = ~pl.col(f"{kind}_{side}").is_first_distinct()
                answer = pl.when(again).then(pl.lit(f"{side}_again")).otherwise(answer)
        if self.near:
            more = pl.Series(_word_more(keys, "src", "tgt") | _word_more(keys, "tgt", "src"))
            answer = pl.when(more).then(pl.lit("word_more")).otherwise(answer)
            answer = pl.when(~_first("near")).then(pl.lit("near_pair")).otherwise(answer)
        answer = pl.when(~_first("exact")).then(pl.lit("exact_pair")).otherwise(answer)
        return keys.select(answer.alias("reason"))["reason"]


def _first(kind: str) -> pl.Expr:
    return pl.struct(f"{kind}_src", f"{kind}_tgt").is_first_distinct()


def _word_more(keys: pl.DataFrame, equal: str, other: str) -> npt.NDArray[np.bool_]:
    """Which pairs follow one with the letters of the side ``equal`` and one word more or less on the other."""
    alike = keys[f"near_{equal}"].to_numpy()
    order = np.argsort(alike, kind="stable")
    alike = alike[order]
    both = keys.select(f"words_{other}", f"mixed_{other}").to_numpy().T[:, order]
    names = [f"bag{i}_{other}" for i in range(BUCKETS // 8)]
    is_unspaced = names[0] in keys.columns
    bag = (
        np.stack([keys[name].to_numpy()[order] for name in names], axis=1).view(np.uint8)
        if is_unspaced
        else None
    )
    repeated = np.zeros(len(order), bool)
    for back in range(1, min(_LOOK_BACK, len(order) - 1) + 1):
        rows = np.flatnonzero((alike[back:] == alike[:-back]) & (both[0, back:] > 0) & (both[0, :-back] > 0))
        repeated[order[rows + back]] |= one_word_apart(both[:, rows + back], both[:, rows])
        if bag is not None:
            repeated[order[rows + back]] |= few_more(bag[rows + back], bag[rows])
    return repeated
