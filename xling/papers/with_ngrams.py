"""The system ``with_ngrams``: the model under test and the control ``ngram`` answer together.

Both learn the same rows. Their probabilities are multiplied (a product of experts, Hinton 2002), so a class needs both.
The model knows what words mean; character n-grams know words that the model has never read. It stands in tables as a
system of its own, beside ``pretrained`` and ``ngram``, which show what each of the two is worth alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from xling.array_types import Float32
from xling.core.errors import UserError
from xling.eval.controls.majority_ngrams import NgramControl
from xling.eval.rows.suite import Example, Suite
from xling.eval.systems import FitConfig, build


class NgramEnsemble:
    """A model and character n-grams that learn the same rows, for texts with one class."""

    name = "with_ngrams"

    def __init__(self, model: Any) -> None:
        self._model, self._grams = model, NgramControl()
        self.seeded: bool = model.seeded
        self.digest = hashlib.sha256(f"{model.digest} {self._grams.digest}".encode()).hexdigest()

    def fit(
        self, suite: Suite, train: Sequence[Example], dev: Sequence[Example], lang: str, cfg: FitConfig
    ) -> Sequence[Any]:
        """Fit both, and return each checkpoint of the model with the n-grams.

        Raises:
            UserError: the rows of the suite are not single texts with one class.
        """
        if not suite.has_one_class:
            raise UserError(
                f"the system {self.name} has no answer to the {suite.kind} rows of {suite.name}",
                f"systems= without {self.name}",
            )
        (grams,) = self._grams.fit(suite, train, dev, lang, cfg)
        return [(model, grams) for model in self._model.fit(suite, train, dev, lang, cfg)]

    def average(self, checkpoints: Sequence[Any]) -> Any:
        """Average the weights of the model; the n-grams are the same in all."""
        models, grams = zip(*checkpoints, strict=True)
        return self._model.average(models), grams[0]

    def probabilities(
        self, checkpoint: Any, suite: Suite, rows: Sequence[Example], lang: str
    ) -> Float32[np.ndarray, "rows labels"]:
        """Return the probability of each label of the suite, float32 (rows, labels), of sum 1."""
        model, grams = checkpoint
        both = self._model.probabilities(model, suite, rows, lang)
        both = both * self._grams.probabilities(grams, suite.labels, rows) + np.finfo(np.float32).tiny
        return np.asarray(both / both.sum(1, keepdims=True))

    def predict(self, checkpoint: Any, suite: Suite, rows: Sequence[Example], lang: str) -> list[Any]:
        """Return the most probable label of each row."""
        probabilities = self.probabilities(checkpoint, suite, rows, lang) if rows else np.zeros((0, 1))
        return [suite.labels[place] for place in probabilities.argmax(1).tolist()]

    def embed(
        self, texts: Sequence[str], lang: str, layer: int, pooling: str
    ) -> Float32[np.ndarray, "texts dim"]:
        """Return the vectors of the model."""
        vectors: Float32[np.ndarray, "texts dim"] = self._model.embed(texts, lang, layer, pooling)
        return vectors


def with_ngrams(cfg: Any) -> NgramEnsemble:
    """Create the system from the checkpoint of an evaluation.

    Raises:
        UserError: there is none.
    """
    if not cfg.checkpoint:
        raise UserError("no checkpoint is given", "a directory made by `xling pretrain`", "checkpoint=DIR")
    return NgramEnsemble(build("pretrained", cfg))
