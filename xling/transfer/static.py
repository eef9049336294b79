"""Static encoders as a system under test: heads on fixed vectors, see `xling.transfer.static_heads`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from xling.core import manifest
from xling.core.errors import UserError
from xling.models import static
from xling.models.static import StaticEncoder, unit
from xling.text.links import Linked, read
from xling.transfer.encode import Row
from xling.transfer.project import projected
from xling.transfer.static_heads import (
    Classifier,
    Tagged,
    averaged,
    logistic,
    network,
    pair_features,
    rescaled,
    tagger,
    text_features,
)
from xling.transfer.task import TASKS, TaskShape
from xling.transfer.tasks.intent_slots import INTENT

if TYPE_CHECKING:
    from jaxtyping import Float32

ANSWERED = ("classify", "pair", "tag", "intent_slots")
"""Tasks with a head here."""
STRENGTHS = (1.0, 3.0, 10.0, 30.0)
"""Of logistic regression; the dev rows of the source language choose, so each is one checkpoint."""


@dataclass(frozen=True)
class Both:
    """The two heads of intents with slots."""

    intent: Classifier
    slots: Tagged


class StaticBackend:
    """A static encoder, or the same shape with a fresh table: the control.

    Args:
        ckpt: directory of `xling pretrain static`.
        name: name in tables.
        random_init: the control.
    """

    def __init__(self, ckpt: Path, name: str, random_init: bool = False) -> None:
        self.name, self.seeded = name, True
        self.digest = manifest.digest(ckpt)
        self._ckpt, self._random_init = ckpt, random_init
        self._encoder: StaticEncoder | None = None
        self._pairs: dict[int, Tensor] = {}
        self._links: dict[Path, list[Linked]] = {}

    @property
    def encoder(self) -> StaticEncoder:
        """The encoder, read when it is first asked for."""
        if self._encoder is None:
            self._encoder = static.load(self._ckpt, self._random_init)
        return self._encoder

    def fit(
        self, suite: TaskShape, train: Sequence[Row], dev: Sequence[Row], lang: str, cfg: Any
    ) -> list[Any]:
        """Heads to choose from: of classes one for each of `STRENGTHS`, else one for each half of the epochs.

        Raises:
            UserError: the task of the suite has no head here, or there are no rows.
        """
        if suite.task not in ANSWERED:
            raise UserError(
                f"{suite.name} has rows that a static encoder does not answer",
                f"suites of the tasks {', '.join(ANSWERED)}",
            )
        if not train:
            raise UserError(f"{suite.name}: no training rows", fix="check the training split")
        labels = TASKS[suite.task].labels_of(suite, train)
        if suite.task == "classify":
            features = text_features(self.encoder, [row.fields["text"] for row in train])
            classes = [row.label for row in train]
            return [logistic(features, classes, labels, strength) for strength in STRENGTHS]
        if suite.task == "pair":
            features = self._of_pairs(train)
            return [network(features, [row.label for row in train], labels, cfg.epochs, cfg.seed)]
        sentences = [row.fields["tokens"] for row in train]
        if suite.task == "tag":
            tags, spans = [row.label for row in train], bool(suite.scheme)
            first = tagger(self.encoder, sentences, tags, labels, cfg.epochs, cfg.seed, spans)
            if not cfg.project:
                return [first]
            more = projected(self._linked(cfg.project), first.log_probabilities, labels)
            return [tagger(self.encoder, sentences, tags, labels, cfg.epochs, cfg.seed, spans, more)]
        intents = [label.removeprefix(INTENT) for label in labels if label.startswith(INTENT)]
        features = text_features(self.encoder, [" ".join(words) for words in sentences])
        intent = logistic(features, [row.label[0] for row in train], intents, 30.0)
        slots = [label for label in labels if not label.startswith(INTENT)]
        tags = [row.label[1] for row in train]
        return [Both(intent, tagger(self.encoder, sentences, tags, slots, cfg.epochs, cfg.seed, True))]

    def _of_pairs(self, rows: Sequence[Row]) -> Tensor:
        """The features of pairs of one language, worked out once for all seeds."""
        key = hash(tuple(pairs := [(row.fields["text_a"], row.fields["text_b"]) for row in rows]))
        if key not in self._pairs:
            self._pairs[key] = rescaled(pair_features(self.encoder, pairs))
        return self._pairs[key]

    def _linked(self, folder: Path) -> list[Linked]:
        """The linked texts, read once."""
        if folder not in self._links:
            self._links[folder] = read(folder)
        return self._links[folder]

    def average(self, checkpoints: Sequence[Any]) -> Any:
        """Mean of the weights of the heads."""
        if isinstance(checkpoints[0], Both):
            return Both(averaged([c.intent for c in checkpoints]), averaged([c.slots for c in checkpoints]))
        return averaged(checkpoints)

    def predict(self, checkpoint: Any, suite: TaskShape, rows: Sequence[Row], lang: str) -> list[Any]:
        """One answer per row, of the shape of the suite's labels; the rows are of one language."""
        if suite.task == "classify":
            return list(checkpoint.predict(text_features(self.encoder, [row.fields["text"] for row in rows])))
        if suite.task == "pair":
            return list(checkpoint.predict(self._of_pairs(rows)))
        sentences = [row.fields["tokens"] for row in rows]
        if suite.task == "tag":
            return list(checkpoint.predict(sentences))
        features = text_features(self.encoder, [" ".join(words) for words in sentences])
        intents, slots = checkpoint.intent.predict(features), checkpoint.slots.predict(sentences)
        return [[intent, tags] for intent, tags in zip(intents, slots, strict=True)]

    def embed(
        self, texts: Sequence[str], lang: str, layer: int, pooling: str
    ) -> Float32[np.ndarray, "texts dim"]:
        """Sentence vectors of length 1, float32 (num_texts, dim).

        Raises:
            UserError: another layer than the only one, another pooling than the mean.
        """
        if layer not in (-1, 0) or pooling != "mean":
            raise UserError(
                f"layer={layer} pooling={pooling}", "layer=-1 pooling=mean: a static encoder has no layers"
            )
        with torch.inference_mode():
            return np.asarray(unit(self.encoder.sentences(texts)).numpy())
