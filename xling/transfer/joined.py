"""System ``joined``: an encoder with ``model.features`` and the static encoder of its features answer together.

Sentence vectors are those of both, each of length 1, side by side. For classes and tags both are fitted on the same
rows, and what is most likely by the sum of their log-probabilities is the answer. The log-probabilities of each are
divided by a temperature first, which its dev rows choose: a head over a Transformer is surer of itself than it is
right, one over a static encoder is less sure.

Source: temperatures: Guo et al. 2017, On calibration of modern neural networks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from xling.array_types import Float, Float32
from xling.static.tagger import most_likely_tags
from xling.transfer.backend import JOINED, pretrained_system
from xling.transfer.checks import features_of
from xling.transfer.encode import LabelledRow
from xling.transfer.static_system import StaticBackend
from xling.transfer.task import TASKS, TaskShape
from xling.transfer.tasks.pair import Pair
from xling.transfer.tasks.tag import Tag

TEMPERATURES = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0)


STATIC_PAIR_EPOCHS = 10
"""Least passes of the small network for pairs on static vectors, as in `xling run hour`; a Transformer needs 2 or 3."""


@dataclass(frozen=True)
class JoinedHeads:
    """A fine-tuned model and a fitted head, their labels, and the temperature of each."""

    tuned: Any
    head: Any
    labels: tuple[str, ...]
    temperatures: tuple[float, float]


class JoinedBackend:
    """The two encoders as one system; see the module.

    Args:
        encoder: an encoder with ``model.features``.
        static: the static encoder of its features.
        name: name in tables.
    """

    seeded = True

    def __init__(self, encoder: Any, static: StaticBackend, name: str = "joined") -> None:
        self.name, self._encoder, self._static = name, encoder, static
        self.digest = hashlib.sha256(f"{encoder.digest} {static.digest}".encode()).hexdigest()

    def fit(
        self, suite: TaskShape, train: Sequence[LabelledRow], dev: Sequence[LabelledRow], lang: str, cfg: Any
    ) -> list[JoinedHeads]:
        """Fine-tune the one and fit the other; return a pair of heads for each epoch.

        Of several heads of the static encoder the one is taken that finds the dev rows most likely.
        """
        labels = TASKS[suite.task].closed_labels(suite, train)
        epochs = max(cfg.epochs, STATIC_PAIR_EPOCHS) if suite.task == Pair.name else cfg.epochs
        heads = self._static.fit(suite, train, dev, lang, replace(cfg, epochs=epochs))
        targets = _targets(suite, dev, labels)
        fits = [_calibrate(self._static_scores(head, suite, dev), targets) for head in heads]
        best = min(range(len(heads)), key=lambda i: fits[i][0])
        joined = []
        for tuned in self._encoder.fit(suite, train, dev, lang, cfg):
            _, temperature = _calibrate(_encoder_scores(tuned, dev, lang), targets)
            joined.append(JoinedHeads(tuned, heads[best], labels, (temperature, fits[best][1])))
        return joined

    def average(self, checkpoints: Sequence[JoinedHeads]) -> JoinedHeads:
        """Average the weights of fine-tuned models; the other head and the temperatures are those of the last."""
        last = checkpoints[-1]
        tuned = self._encoder.average([each.tuned for each in checkpoints])
        return JoinedHeads(tuned, last.head, last.labels, last.temperatures)

    def predict(
        self, checkpoint: JoinedHeads, suite: TaskShape, rows: Sequence[LabelledRow], lang: str
    ) -> list[Any]:
        """Return one answer per row, in the form of the suite's labels; the rows are of one language."""
        of_encoder, of_static = checkpoint.temperatures
        answers = []
        for first, second in zip(
            _encoder_scores(checkpoint.tuned, rows, lang),
            self._static_scores(checkpoint.head, suite, rows),
            strict=True,
        ):
            tags = most_likely_tags(
                _soften(first, of_encoder) + _soften(second, of_static), checkpoint.labels, bool(suite.scheme)
            )
            answers.append(tags if suite.task == Tag.name else tags[0])
        return answers

    def embed(
        self, texts: Sequence[str], lang: str, layer: int, pooling: str
    ) -> Float32[np.ndarray, "texts dim"]:
        """Compute sentence vectors of both side by side, float32 (num_texts, dim)."""
        vectors: Float32[np.ndarray, "texts dim"] = self._encoder.embed(texts, lang, layer, JOINED)
        return vectors

    def _static_scores(
        self, head: Any, suite: TaskShape, rows: Sequence[LabelledRow]
    ) -> list[Float[np.ndarray, "outputs labels"]]:
        if suite.task == Tag.name:
            return list(head.log_probabilities([row.fields["tokens"] for row in rows]))
        if suite.task == Pair.name:
            shares = head.probabilities(self._static.cached_pair_features(rows))
        else:
            shares = self._static.class_probabilities(head, [row.fields["text"] for row in rows])
        return [row[None] for row in shares.log().numpy()]


def joined_system(cfg: Any) -> JoinedBackend:
    """Create the system ``joined`` of an evaluation; errors are those of `features_of`."""
    static = StaticBackend(features_of(Path(cfg.checkpoint), "systems=joined"), "static")
    return JoinedBackend(pretrained_system(cfg), static)


def _encoder_scores(
    tuned: Any, rows: Sequence[LabelledRow], lang: str
) -> list[Float[np.ndarray, "outputs labels"]]:
    logits = [np.concatenate([scores for _, scores in windows]) for windows in tuned.scores(rows, lang=lang)]
    return [_soften(each, 1.0) for each in logits]


def _targets(suite: TaskShape, rows: Sequence[LabelledRow], labels: Sequence[str]) -> list[list[int]]:
    """Return the indices of the right labels of each row, -1 for one that is not among ``labels``."""
    index_of = {label: i for i, label in enumerate(labels)}
    of_rows = [row.label if suite.task == Tag.name else [row.label] for row in rows]
    return [[index_of.get(label, -1) for label in row] for row in of_rows]


def _calibrate(
    scores: Sequence[Float[np.ndarray, "outputs labels"]], targets: Sequence[Sequence[int]]
) -> tuple[float, float]:
    """Return the mean loss of the targets at the best temperature, and that temperature; 0 and 1 without targets."""
    right = np.array([index for row in targets for index in row], dtype=np.int64)
    if not (right >= 0).any():
        return 0.0, 1.0
    whole, right = np.concatenate(scores)[right >= 0], right[right >= 0]
    losses = [-_soften(whole, each)[np.arange(len(right)), right].mean() for each in TEMPERATURES]
    best = int(np.argmin(losses))
    return float(losses[best]), TEMPERATURES[best]


def _soften(
    scores: Float[np.ndarray, "outputs labels"], temperature: float
) -> Float[np.ndarray, "outputs labels"]:
    """Return log-probabilities of scores that are divided by a temperature."""
    scaled = np.maximum(scores, -1e4) / temperature
    scaled = scaled - scaled.max(1, keepdims=True)
    softened: np.ndarray = scaled - np.log(np.exp(scaled).sum(1, keepdims=True))
    return softened
