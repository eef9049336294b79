"""Pairs with a sentence of a dev or test set on either side."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import polars as pl

from xling.corpora.parallel.filters import PAIR_FILTERS, Context, PairExample, PairFilter, first_reason
from xling.corpora.stages.contamination import Stamped, stamped, texts_of
from xling.text.pairs import near_key


@PAIR_FILTERS.register("overlap")
@dataclass(frozen=True)
class Overlap(PairFilter):
    """Drop pairs that hold a held-out sentence, whichever side or direction it comes from.

    Args:
        min_letters: held-out sentences with fewer letters are common phrases and do not count.
    """

    min_letters: int = 10

    name: ClassVar[str] = "overlap"
    reasons: ClassVar[dict[str, str]] = {
        "heldout_src": "the source side is a sentence of a dev or test set",
        "heldout_tgt": "the target side is a sentence of a dev or test set",
    }
    examples = (
        PairExample("", "Yes!", "Ja!", heldout=("Yes!",)),
        PairExample("heldout_src", "A sentence of the test.", "Etwas", heldout=("a SENTENCE, of the test",)),
        PairExample(
            "heldout_tgt",
            "A sentence of the test.",
            "Ein Satz aus dem Test.",
            heldout=("Ein Satz aus dem Test",),
        ),
    )

    def judge(self, pairs: pl.DataFrame, context: Context) -> pl.Series:
        """See `xling.corpora.parallel.filters.PairFilter`."""
        if not context.heldout:
            return pl.repeat(None, pairs.height, dtype=pl.String, eager=True)
        known = _heldout(stamped(context.heldout), self.min_letters)
        tests = {f"heldout_{side}": near_key(side).is_in(known.implode()) for side in ("src", "tgt")}
        return first_reason(pairs, tests)


@lru_cache(maxsize=2)
def _heldout(files: tuple[Stamped, ...], min_letters: int) -> pl.Series:
    """The letters of every held-out sentence."""
    texts = pl.DataFrame(
        {"text": [text for file, _ in files for text in texts_of(file)]}, {"text": pl.String}
    )
    keys = texts.select(near_key("text").alias("text").unique(maintain_order=True))["text"]
    return keys.filter(keys.str.len_chars() >= min_letters)
