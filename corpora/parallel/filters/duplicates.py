"""Pairs that occur twice: exactly or nearly, on both sides or on either."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from xling.corpora.parallel.clean.near_duplicates import (
    MIN_WORDS,
    NUM_BUCKETS,
    differ_in_one_word,
    has_few_more,
    letter_counts,
    text_sums,
    whole_words,
)
from xling.corpora.parallel.filters import PAIR_FILTERS, Context, CorpusFilter
from xling.text.pairs import SIDES, near_duplicate_key

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
            first, second = text_sums(words)
            few = words.lengths < MIN_WORDS
            columns += [
                pl.Series(f"words_{side}", np.where(few, 0, first)),
                pl.Series(f"mixed_{side}", second),
            ]
            if not lang.spaces:
                halves = letter_counts(words).view(np.uint64).reshape(-1, NUM_BUCKETS // 8)
                columns += [pl.Series(f"bag{i}_{side}", halves[:, i]) for i in range(NUM_BUCKETS // 8)]
        return hashes.with_columns(columns)

    def judge(self, keys: pl.DataFrame, context: Context) -> pl.Series:
        """Return the reason to drop each pair, null for pairs that stay."""
        kind = "near" if self.near else "exact"
        reason = pl.lit(None, dtype=pl.String)
        for side in SIDES:
            if self.sides in (side, "either"):
                is_repeated = ~pl.col(f"{kind}_{side}").is_first_distinct()
                reason = pl.when(is_repeated).then(pl.lit(f"{side}_again")).otherwise(reason)
        if self.near:
            has_other_word = pl.Series(
                _differs_in_one_word(keys, "src", "tgt") | _differs_in_one_word(keys, "tgt", "src")
            )
            reason = pl.when(has_other_word).then(pl.lit("word_more")).otherwise(reason)
            reason = pl.when(~_is_first("near")).then(pl.lit("near_pair")).otherwise(reason)
        reason = pl.when(~_is_first("exact")).then(pl.lit("exact_pair")).otherwise(reason)
        return keys.select(reason.alias("reason"))["reason"]


def _is_first(kind: str) -> pl.Expr:
    return pl.struct(f"{kind}_src", f"{kind}_tgt").is_first_distinct()


def _differs_in_one_word(keys: pl.DataFrame, equal: str, other: str) -> npt.NDArray[np.bool_]:
    """Which pairs follow one with the letters of the side ``equal`` and one word more or less on the other."""
    keys_of_equal = keys[f"near_{equal}"].to_numpy()
    order = np.argsort(keys_of_equal, kind="stable")
    keys_of_equal = keys_of_equal[order]
    word_hashes = keys.select(f"words_{other}", f"mixed_{other}").to_numpy().T[:, order]
    names = [f"bag{i}_{other}" for i in range(NUM_BUCKETS // 8)]
    is_unspaced = names[0] in keys.columns
    letter_counts_of = (
        np.stack([keys[name].to_numpy()[order] for name in names], axis=1).view(np.uint8)
        if is_unspaced
        else None
    )
    is_repeated = np.zeros(len(order), bool)
    for distance in range(1, min(_LOOK_BACK, len(order) - 1) + 1):
        rows = np.flatnonzero(
            (keys_of_equal[distance:] == keys_of_equal[:-distance])
            & (word_hashes[0, distance:] > 0)
            & (word_hashes[0, :-distance] > 0)
        )
        is_repeated[order[rows + distance]] |= differ_in_one_word(
            word_hashes[:, rows + distance], word_hashes[:, rows]
        )
        if letter_counts_of is not None:
            is_repeated[order[rows + distance]] |= has_few_more(
                letter_counts_of[rows + distance], letter_counts_of[rows]
            )
    return is_repeated
