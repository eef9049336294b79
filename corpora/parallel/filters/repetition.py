"""Pairs with a segment repeated over and over on a side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from xling.array_types import Float64, Int64
from xling.corpora.parallel.filters import PAIR_FILTERS, Context, PairFilter, first_reason
from xling.text.words.units import hash_runs

_RUN_CHARS, _FAULT_COLUMN = 5, "repetition_fault"
_LONG_RUN = 16
"""Characters of a run that no phrase of a list fills ("..., the son of"), but every text that repeats itself does."""
_MIN_DISTINCT_WORDS = 0.9  # distinct words a word, above which nothing can be repeated


@PAIR_FILTERS.register("repetition")
@dataclass(frozen=True)
class Repetition(PairFilter):
    """Drop pairs of which one side repeats itself while the other does not.

    What is counted is the same in every script: runs of five characters. Of a clean sentence more than nine in ten
    are distinct; of a segment written k times one in k is. A side in which only a short phrase comes back, as in a list
    of ancestors, does not repeat itself.

    Args:
        min_distinct: smallest share of distinct runs.
        min_runs: sides with fewer runs are not judged.
        margin: the share must be below the other side's by so much, since poems and songs repeat on both.
    """

    min_distinct: float = 0.6
    min_runs: int = 10
    margin: float = 0.2

    name: ClassVar[str] = "repetition"
    reasons: ClassVar[dict[str, str]] = {"repeated": "a segment is repeated on one side only"}
    values: ClassVar[dict[str, str]] = {
        "distinct": "smallest share of distinct runs of five characters of a side; 1 where hardly a word occurs twice"
    }

    def measured(self, pairs: pl.DataFrame, context: Context) -> pl.DataFrame:
        """Return the pairs with the columns that this filter measures."""
        may_repeat = [_may_repeat(side) if lang.spaces else pl.lit(True) for side, lang in context.sides]
        rows = pairs.with_columns(pl.any_horizontal(may_repeat).alias("asked"))["asked"].arg_true()
        (src, src_runs), (tgt, tgt_runs) = (
            distinct_runs(pairs[side].gather(rows)) for side in ("src", "tgt")
        )
        is_repeated_row = np.zeros(len(rows), bool)
        for side, share, other, num_runs in (("src", src, tgt, src_runs), ("tgt", tgt, src, tgt_runs)):
            at_fault = (
                (share < self.min_distinct) & (share < other - self.margin) & (num_runs >= self.min_runs)
            )
            long_share, many_long = distinct_runs(
                pairs[side].gather(rows).filter(pl.Series(at_fault)), _LONG_RUN
            )
            at_fault[at_fault] = (long_share < self.min_distinct) | (many_long < self.min_runs)
            is_repeated_row |= at_fault
        distinct, is_repeated = np.ones(pairs.height, np.float32), np.zeros(pairs.height, bool)
        distinct[rows.to_numpy()] = np.minimum(src, tgt)
        is_repeated[rows.to_numpy()[is_repeated_row]] = True
        return pairs.with_columns(pl.Series("distinct", distinct), pl.Series(_FAULT_COLUMN, is_repeated))

    def judge(self, pairs: pl.DataFrame, context: Context) -> pl.Series:
        """Return the reason to drop each pair, null for pairs that stay."""
        pairs = pairs if _FAULT_COLUMN in pairs.columns else self.measured(pairs, context)
        return first_reason(pairs, {"repeated": pl.col(_FAULT_COLUMN)})


def _may_repeat(side: str) -> pl.Expr:
    words = pl.col(side).str.to_lowercase().str.split(" ")
    return words.list.n_unique() < _MIN_DISTINCT_WORDS * words.list.len()


def distinct_runs(
    texts: pl.Series, size: int = _RUN_CHARS
) -> tuple[Float64[np.ndarray, " texts"], Int64[np.ndarray, " texts"]]:
    """Return share of distinct runs of ``size`` characters of each text, 1 for a text without runs, and their number.

    Returns:
        float64 (num_texts,) and int64 (num_texts,).
    """
    lowered = texts.str.to_lowercase()
    lengths = lowered.str.len_chars().to_numpy().astype(np.int64)
    chars = np.frombuffer("".join(lowered).encode("utf-32-le"), dtype=np.uint32).astype(np.uint64)
    num_runs = np.maximum(lengths - size + 1, 0)
    if not num_runs.sum():
        return np.ones(len(texts)), num_runs
    row_of = np.repeat(np.arange(len(texts)), num_runs)
    starts = np.repeat(np.cumsum(lengths) - lengths, num_runs)
    position = np.arange(len(row_of)) - np.repeat(np.cumsum(num_runs) - num_runs, num_runs)
    hashes = hash_runs(chars, size)[starts + position]
    order = np.lexsort((hashes, row_of))
    row_of, hashes = row_of[order], hashes[order]
    is_new = np.ones(len(hashes), bool)
    is_new[1:] = (hashes[1:] != hashes[:-1]) | (row_of[1:] != row_of[:-1])
    distinct = np.bincount(row_of[is_new], minlength=len(texts))
    return np.where(num_runs > 0, distinct / np.maximum(num_runs, 1), 1.0), num_runs
