"""Filters of sentence pairs, one file each, by name.

A filter is a frozen dataclass of its settings, registered in `PAIR_FILTERS`; ``reasons`` says what it drops and
why. A batch filter's ``judge`` sees a batch of `xling.text.pairs.SCHEMA` and answers with a reason for
each pair, null where it may stay. A corpus filter first reduces each batch to ``keys`` and judges those of the
whole corpus at once, so that text never has to be in memory together.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import polars as pl

from xling.core import languages
from xling.core.languages import Language
from xling.core.registry import Registry


@dataclass(frozen=True)
class Context:
    """What filters know beside their settings.

    Attributes:
        src: language of the source side.
        tgt: language of the target side.
        heldout: files of dev and test sets, whose sentences must not appear.
    """

    src: Language
    tgt: Language
    heldout: tuple[Path, ...] = ()

    @classmethod
    def of_pair(cls, pair: str, heldout: tuple[Path, ...] = ()) -> Context:
        """The context of ``en-sw``."""
        src, tgt = languages.get_pair(pair)
        return cls(src, tgt, heldout)

    @property
    def sides(self) -> tuple[tuple[str, Language], ...]:
        """Column name and language of each side."""
        return (("src", self.src), ("tgt", self.tgt))


class BatchFilter(Protocol):
    """A filter that judges each batch by itself."""

    name: ClassVar[str]
    reasons: ClassVar[dict[str, str]]

    def judge(self, pairs: pl.DataFrame, context: Context) -> pl.Series:
        """A reason for each pair of the batch, null where it may stay."""
        ...


class CorpusFilter(Protocol):
    """A filter that compares pairs across the corpus."""

    name: ClassVar[str]
    reasons: ClassVar[dict[str, str]]

    def keys(self, pairs: pl.DataFrame, context: Context) -> pl.DataFrame:
        """A few numbers for each pair of a batch."""
        ...

    def judge(self, keys: pl.DataFrame, context: Context) -> pl.Series:
        """A reason for each pair of the corpus, given the keys of all batches; null where it may stay."""
        ...


PAIR_FILTERS: Registry[Any] = Registry("pair filter")


def load_all() -> Registry[Any]:
    """The registry with every filter of this folder in it."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return PAIR_FILTERS


def first_reason(pairs: pl.DataFrame, tests: dict[str, pl.Expr]) -> pl.Series:
    """The first reason whose test is true for each pair, null where none is."""
    answer = pl.lit(None, dtype=pl.String)
    for reason, test in reversed(tests.items()):
        answer = pl.when(test).then(pl.lit(reason)).otherwise(answer)
    return pairs.select(answer.alias("reason"))["reason"]
