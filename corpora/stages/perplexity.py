"""Perplexity of documents under an n-gram model, and their split into head, middle and tail.

CCNet (Wenzek et al. 2020, section 3.3) cuts at the percentiles 30 and 60 of a reference. Without a table of
cut-offs `fit_cutoffs` takes the percentiles of the corpus itself: score every shard, fit, then split.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from xling.core.errors import UserError
from xling.corpora.stages import STREAMING
from xling.text.document import Document, Ledger
from xling.text.lm.model import LanguageModel, load

HEAD, MIDDLE, TAIL, ALL = "head", "middle", "tail", "all"
PERCENTILES = (30.0, 60.0)


@STREAMING.register("perplexity")
@dataclass(frozen=True)
class Perplexity:
    """Set ``meta["perplexity"]`` and ``meta["bucket"]`` and drop what is not wanted.

    A document that has its perplexity already is not scored again, so that the first pass of a corpus may
    score and the second, when the cut-offs are known, split. Without a model nothing is scored; without
    cut-offs every bucket is ``all``.

    Args:
        lm: directory of the model, from ``xling corpus lm``.
        head: perplexity under which a document is head; 0 when not known.
        tail: perplexity from which it is tail; 0 when not known.
        keep: buckets that are kept.
        max_perplexity: documents above are dropped in any case; 0 for no bound.
    """

    lm: str = ""
    head: float = 0.0
    tail: float = 0.0
    keep: tuple[str, ...] = (HEAD, MIDDLE, TAIL)
    max_perplexity: float = 0.0

    name: ClassVar[str] = "perplexity"
    reasons: ClassVar[dict[str, str]] = {
        "head": "perplexity under the first cut-off, a bucket that is not kept",
        "middle": "perplexity between the cut-offs, a bucket that is not kept",
        "tail": "perplexity from the second cut-off on, a bucket that is not kept",
        "too_perplexing": "perplexity above max_perplexity",
    }
    partial: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        """Check the cut-offs and buckets.

        Raises:
            UserError: cut-offs in the wrong order, or an unknown bucket.
        """
        if not 0 <= self.head <= self.tail:
            raise UserError(f"cut-offs head={self.head}, tail={self.tail}", "0 <= head <= tail")
        if wrong := sorted(set(self.keep) - {HEAD, MIDDLE, TAIL}):
            raise UserError(f"unknown bucket {wrong[0]!r}", f"{HEAD}, {MIDDLE}, {TAIL}")

    def __call__(self, docs: Iterable[Document], ledger: Ledger) -> Iterator[Document]:
        """Yield the scored documents of the wanted buckets."""
        model = load(Path(self.lm)) if self.lm else None
        for doc in _scored(docs, model) if model else docs:
            ledger.enter(self.name, doc)
            perplexity = doc.meta.get("perplexity")
            bucket = doc.meta["bucket"] = self.bucket(perplexity)
            if perplexity is not None and 0 < self.max_perplexity < perplexity:
                ledger.drop(self.name, "too_perplexing", doc)
            elif bucket != ALL and bucket not in self.keep:
                ledger.drop(self.name, bucket, doc)
            else:
                yield doc

    def bucket(self, perplexity: float | None) -> str:
        """Head, middle or tail; ``all`` where the perplexity or the cut-offs are not known."""
        if perplexity is None or not self.tail:
            return ALL
        return HEAD if perplexity < self.head else MIDDLE if perplexity < self.tail else TAIL


def _scored(docs: Iterable[Document], model: LanguageModel) -> Iterator[Document]:
    """The documents in their order; those that have a perplexity are not scored again."""
    for doc in docs:
        if "perplexity" not in doc.meta:
            doc.meta["perplexity"] = round(model.perplexity(doc.text), 1)
        yield doc


def fit_cutoffs(
    perplexities: Iterable[float], percentiles: tuple[float, float] = PERCENTILES
) -> tuple[float, float]:
    """The cut-offs ``(head, tail)`` at two percentiles of a corpus's own perplexities.

    Args:
        perplexities: of every document, or of a sample.
        percentiles: share of documents under each cut-off, in percent.

    Raises:
        UserError: there is no perplexity to fit to, or the percentiles are out of order.
    """
    low, high = percentiles
    if not 0 < low <= high < 100:
        raise UserError(f"percentiles {low:g}, {high:g}", "0 < first <= second < 100")
    values = np.fromiter(perplexities, dtype=np.float64)
    values = values[np.isfinite(values)]
    if not len(values):
        raise UserError("no document has a perplexity", fix="name a language model with lm=")
    head, tail = np.percentile(values, [low, high], method="inverted_cdf")
    return float(head), float(tail)
