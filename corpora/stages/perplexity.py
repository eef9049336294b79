"""Perplexity of documents under an n-gram model, and their split into head, middle and tail.

CCNet (Wenzek et al. 2020, section 3.3) cuts at the percentiles 30 and 60 of a reference. Without a table of
cut-offs `fit_cutoffs` takes the percentiles of the corpus itself: score every shard, fit, then split.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np

from xling.core.errors import UserError
from xling.corpora.stages import PERPLEXITY, STREAMING, Stage
from xling.text.document import Document
from xling.text.lm.model import LanguageModel, load_language_model

HEAD, MIDDLE, TAIL, ALL = "head", "middle", "tail", "all"
PERCENTILES = (30.0, 60.0)


@STREAMING.register(PERPLEXITY)
@dataclass(frozen=True)
class Perplexity(Stage):
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

    def __post_init__(self) -> None:
        """Check the cut-offs and buckets.

        Raises:
            UserError: cut-offs in the wrong order, or an unknown bucket.
        """
        if not 0 <= self.head <= self.tail:
            raise UserError(
                f"settings.perplexity.head={self.head} settings.perplexity.tail={self.tail}",
                "0 <= head <= tail",
            )
        if wrong := sorted(set(self.keep) - {HEAD, MIDDLE, TAIL}):
            raise UserError(
                f"settings.perplexity.keep has an unknown bucket {wrong[0]!r}", f"{HEAD}, {MIDDLE}, {TAIL}"
            )

    def judge(self, doc: Document) -> str | None:
        """Return why a document is dropped, storing perplexity and bucket in ``meta``."""
        if self._model and "perplexity" not in doc.meta:
            doc.meta["perplexity"] = round(self._model.perplexity(doc.text), 1)
        perplexity = doc.meta.get("perplexity")
        bucket = doc.meta["bucket"] = self.bucket(perplexity)
        if perplexity is not None and 0 < self.max_perplexity < perplexity:
            return "too_perplexing"
        return None if bucket == ALL or bucket in self.keep else bucket

    @cached_property
    def _model(self) -> LanguageModel | None:
        return load_language_model(Path(self.lm)) if self.lm else None

    def bucket(self, perplexity: float | None) -> str:
        """Return head, middle or tail; ``all`` if the perplexity or the cut-offs are unknown."""
        if perplexity is None or not self.tail:
            return ALL
        return HEAD if perplexity < self.head else MIDDLE if perplexity < self.tail else TAIL


def fit_cutoffs(
    perplexities: Iterable[float], percentiles: tuple[float, float] = PERCENTILES
) -> tuple[float, float]:
    """Return the cut-offs ``(head, tail)`` at two percentiles of the corpus's own perplexities.

    Args:
        perplexities: of every document, or of a sample.
        percentiles: share of documents under each cut-off, in percent.

    Raises:
        UserError: there is no perplexity to fit to, or the percentiles are out of order.
    """
    low_percentile, high_percentile = percentiles
    if not 0 < low_percentile <= high_percentile < 100:
        raise UserError(f"percentiles {low_percentile:g}, {high_percentile:g}", "0 < first <= second < 100")
    values = np.fromiter(perplexities, dtype=np.float64)
    values = values[np.isfinite(values)]
    if not len(values):
        raise UserError("no document has a perplexity", fix="name a language model with lm=")
    head, tail = np.percentile(values, [low_percentile, high_percentile], method="inverted_cdf")
    return float(head), float(tail)
