"""Filters of sentence pairs, one file each, by name.

A filter is a frozen dataclass of its settings on `PairFilter`, registered in `PAIR_FILTERS`; ``reasons`` says what
it drops and why, ``values`` names the columns that it leaves with each pair. Examples of each reason stand in
``tests/corpora/parallel/filter_examples.py``; a filter of another package may have ``examples`` itself. Its
``judge`` sees a batch of `xling.text.pairs.SCHEMA` and answers with a reason for each pair, null where it may stay.
A `CorpusFilter` first reduces each batch to ``keys`` and judges those of the whole corpus at once, so that text
never has to be in memory together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl

from xling.array_types import Float32
from xling.core import languages
from xling.core.languages import Language
from xling.core.registry import Registry
from xling.text.encoders import SentenceVectors

REPAIRS: dict[str, pl.DataType] = {
    "id": pl.String(), "kind": pl.String(), "before": pl.String(), "after": pl.String(),
}  # fmt: skip
"""Columns of the changes that a filter makes: the pair, what was wrong with it, and its text before and after."""


@dataclass(frozen=True)
class Context:
    """Languages and held-out files that a filter knows besides its settings.

    Attributes:
        src: language of the source side.
        tgt: language of the target side.
        heldout: files of dev and test sets, whose sentences must not appear.
        vectors: sentence vectors of an encoder; None without one.
    """

    src: Language
    tgt: Language
    heldout: tuple[Path, ...] = ()
    vectors: SentenceVectors | None = None

    @classmethod
    def of_pair(
        cls, pair: str, heldout: tuple[Path, ...] = (), vectors: SentenceVectors | None = None
    ) -> Context:
        """The context of ``en-sw``."""
        src, tgt = languages.get_pair(pair)
        return cls(src, tgt, heldout, vectors)

    @property
    def embed(self) -> Callable[[pl.DataFrame], Float32[np.ndarray, "pairs 2 dim"]] | None:
        """A function from pairs to the vectors of both sides, float32 (num_pairs, 2, dim); None without an encoder."""
        if (vectors := self.vectors) is None:
            return None
        return lambda pairs: np.stack(
            [vectors.embed(pairs[side].to_list(), lang.code) for side, lang in self.sides], axis=1
        )

    @property
    def sides(self) -> tuple[tuple[str, Language], ...]:
        """Column name and language of each side."""
        return (("src", self.src), ("tgt", self.tgt))


@dataclass(frozen=True)
class PairExample:
    """A pair and what a filter does to it: the contract tests of all filters run on these.

    Attributes:
        reason: why the pair is dropped; "" where it is kept.
        before: pairs that stand before it in the corpus.
        heldout: lines of a dev or test set.
        score: of the pair, from a model or a file.
        corpus: pairs of the toy world that stand before it, for filters that learn from the corpus.
    """

    reason: str
    src: str
    tgt: str
    pair: str = "en-de"
    settings: Mapping[str, Any] = field(default_factory=dict)
    before: tuple[tuple[str, str], ...] = ()
    heldout: tuple[str, ...] = ()
    score: float | None = None
    corpus: int = 0


class PairFilter:
    """Base of filters that judge a batch of pairs by itself."""

    name: ClassVar[str]
    reasons: ClassVar[dict[str, str]]
    values: ClassVar[dict[str, str]] = {}
    examples: ClassVar[tuple[PairExample, ...]] = ()

    def fitted(self, pairs: pl.DataFrame, context: Context) -> PairFilter:
        """The filter with what it learns from the first batch that reaches it; most learn nothing."""
        return self

    def repaired(self, pairs: pl.DataFrame, context: Context) -> tuple[pl.DataFrame, pl.DataFrame]:
        """``pairs`` with their texts put right, and what was changed, of `REPAIRS`; most filters change nothing."""
        return pairs, pl.DataFrame(schema=REPAIRS)

    def measured(self, pairs: pl.DataFrame, context: Context) -> pl.DataFrame:
        """``pairs`` with the columns ``values``, and perhaps others that ``judge`` alone reads, which are cut off."""
        return pairs

    def judge(self, pairs: pl.DataFrame, context: Context) -> pl.Series:
        """A reason for each pair of the batch, null where it may stay."""
        raise NotImplementedError(f"{type(self).__name__} has no judge")

    def notes(self, pairs: pl.DataFrame, context: Context) -> dict[str, int]:
        """Events in a batch that the card counts beside what is dropped."""
        return {}


class CorpusFilter(PairFilter):
    """Base of filters that compare pairs across the corpus: ``judge`` sees the keys of all batches."""

    def keys(self, pairs: pl.DataFrame, context: Context) -> pl.DataFrame:
        """A few numbers for each pair of a batch."""
        raise NotImplementedError(f"{type(self).__name__} has no keys")


PAIR_FILTERS: Registry[type[PairFilter]] = Registry("pair filter", __name__, plugin="filter")


def first_reason(pairs: pl.DataFrame, tests: dict[str, pl.Expr]) -> pl.Series:
    """The first reason whose test is true for each pair, null where none is."""
    answer = pl.lit(None, dtype=pl.String)
    for reason, test in reversed(tests.items()):
        answer = pl.when(test).then(pl.lit(reason)).otherwise(answer)
    return pairs.select(answer.alias("reason"))["reason"]
