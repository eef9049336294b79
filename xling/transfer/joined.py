"""System ``joined``: an encoder with ``model.features`` and the static encoder of its features answer together.

For classes and tags both are fitted on the same rows, and what is most likely by the sum of their log-probabilities is
the answer. First those of the Transformer are softened by a temperature until it is not surer than the static encoder
on average over the rows that they answer: it is far surer without being more often right in other
languages, and rows of the source language cannot show it. Sentence vectors are those of both side by side, see
`EncoderBackend.embed`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from xling.array_types import Float, Float32, Int64
from xling.core.errors import UserError
from xling.models.files.model_folder import JOINED_FOLDER
from xling.static.head_files import save_task
from xling.static.tagger import most_likely_tags
from xling.transfer import tune
from xling.transfer.backend import JOINED, EncoderBackend
from xling.transfer.encode import LabelledRow
from xling.transfer.static_system import StaticBackend, TunedStatic
from xling.transfer.task import TASKS, TaskShape, check_tuned_for
from xling.transfer.tasks.pair import Pair
from xling.transfer.tasks.tag import Tag

TEMPERATURES = 1.0, 1e3
STEPS = 40
"""Bounds of a temperature, and number of halvings of the interval between them."""
STATIC_PAIR_EPOCHS = 10
"""Least passes of the small network for pairs on static vectors, as in `xling run hour`; a Transformer needs 2 or 3."""


@dataclass(frozen=True)
class TunedJoined:
    """A fine-tuned model and a fitted head over a static encoder, with the interface of `tune.TunedModel`."""

    ROWS_AT_ONCE: ClassVar[int] = TunedStatic.ROWS_AT_ONCE

    tuned: tune.TunedModel
    static: TunedStatic

    @property
    def task(self) -> str:
        """The name of its task."""
        return self.tuned.task

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that it chooses from."""
        return self.tuned.labels

    def predict(self, rows: Sequence[LabelledRow], lang: str = "") -> list[Any]:
        """Return one answer per row, in the form of its label; the rows are of one language, best all of them."""
        is_iob2 = self.task == Tag.name and self.static.head.is_iob2
        by_static = self.static.log_probabilities(rows)
        by_model = no_surer_than(by_static, _scores_of_model(self.tuned, rows, lang))
        answers: list[Any] = []
        for first, second in zip(by_model, by_static, strict=True):
            labels = most_likely_tags(first + second, self.labels, is_iob2)
            answers.append(labels if self.task == Tag.name else labels[0])
        return answers


class JoinedBackend:
    """The two encoders as one system; see the module.

    Args:
        encoder: an encoder with ``model.features``, or a fine-tuned one.
        static: the static encoder of its features, fine-tuned as the encoder is.
        name: name in tables.
    """

    def __init__(self, encoder: EncoderBackend, static: StaticBackend, name: str = JOINED) -> None:
        self.name, self.seeded, self._encoder, self._static = name, encoder.seeded, encoder, static
        self.digest = hashlib.sha256(f"{encoder.digest} {static.digest}".encode()).hexdigest()

    def fit(
        self, suite: TaskShape, train: Sequence[LabelledRow], dev: Sequence[LabelledRow], lang: str, cfg: Any
    ) -> list[TunedJoined]:
        """Fine-tune the one and fit the other; return a pair of heads for each epoch.

        Of several heads of the static encoder the one is taken that has most dev rows right.
        """
        if not self.seeded:
            own = self.tuned()
            check_tuned_for(self._encoder.ckpt, own.task, own.labels, suite)
            return [own]
        labels = TASKS[suite.task].closed_labels(suite, train)
        epochs = max(cfg.epochs, STATIC_PAIR_EPOCHS) if suite.task == Pair.name else cfg.epochs
        heads = [
            TunedStatic(self._static, suite.task, labels, head)
            for head in self._static.fit(suite, train, dev, lang, replace(cfg, epochs=epochs))
        ]
        right = [_share_right(head, dev) for head in heads] if len(heads) > 1 else [0.0]
        best = heads[right.index(max(right))]
        return [TunedJoined(tuned, best) for tuned in self._encoder.fit(suite, train, dev, lang, cfg)]

    def contains(self, system: Any) -> bool:
        """Whether `fit` fine-tunes the encoder of another system as that one's ``fit`` does."""
        is_trained = isinstance(system, EncoderBackend) and self.seeded and not system.random_init
        return is_trained and system.digest == self._encoder.digest

    def average(self, checkpoints: Sequence[TunedJoined]) -> TunedJoined:
        """Average the weights of fine-tuned models; the other head is the same in all."""
        return replace(checkpoints[-1], tuned=tune.average_models([each.tuned for each in checkpoints]))

    def predict(
        self, checkpoint: TunedJoined, suite: TaskShape, rows: Sequence[LabelledRow], lang: str
    ) -> list[Any]:
        """Return one answer per row, in the form of the suite's labels; the rows are of one language."""
        return replace(checkpoint, tuned=self._encoder.in_int8(checkpoint.tuned)).predict(rows, lang)

    def embed(
        self, texts: Sequence[str], lang: str, layer: int, pooling: str
    ) -> Float32[np.ndarray, "texts dim"]:
        """Compute sentence vectors of both side by side, float32 (num_texts, dim); of a fine-tuned model its body's."""
        return self._encoder.embed(texts, lang, layer, JOINED if self.seeded else pooling)

    def matched(
        self, src: Sequence[str], tgt: Sequence[str], candidates: Int64[np.ndarray, "src depth"]
    ) -> Float32[np.ndarray, "src depth"]:
        """Return how well the words of texts match, by the static encoder; see `StaticBackend.matched`."""
        return self._static.matched(src, tgt, candidates)

    def save(self, heads: Mapping[str, TunedJoined], suite: Any, train: Any, out: Path) -> None:
        """Write the only pair of heads and copies of both encoders, for `tuned`."""
        ((name, joined),) = heads.items()
        self._encoder.save({name: joined.tuned}, suite, train, out, joined=True)
        (out / JOINED_FOLDER).mkdir()
        save_task(out / JOINED_FOLDER, self._static.ckpt, joined.task, joined.labels, joined.static.head)

    def tuned(self) -> TunedJoined:
        """Return what `save` has written.

        Raises:
            UserError: a file is missing or damaged, or they are of different models.
        """
        tuned, static = tune.load_tuned(self._encoder.ckpt), self._static.tuned()
        if (tuned.task, tuned.labels) != (static.task, static.labels):
            raise UserError(
                f"{self._encoder.ckpt}: its two models are not of one fine-tuning",
                "an output of xling finetune joined=true",
                "copy it again, or run xling finetune again",
            )
        return TunedJoined(tuned, static)


def ready_system(checkpoint: Path, name: str) -> JoinedBackend:
    """Return the system of a folder of `xling finetune joined=true`."""
    return JoinedBackend(
        EncoderBackend(checkpoint, name), StaticBackend(checkpoint / JOINED_FOLDER, name), name
    )


def _scores_of_model(
    tuned: tune.TunedModel, rows: Sequence[LabelledRow], lang: str
) -> list[Float[np.ndarray, "_ labels"]]:
    logits = [np.concatenate([scores for _, scores in windows]) for windows in tuned.scores(rows, lang=lang)]
    return [_soften(each, 1.0) for each in logits]


def _share_right(head: TunedStatic, rows: Sequence[LabelledRow]) -> float:
    answers = zip(head.predict(rows), rows, strict=True) if rows else ()
    right = [list(answer) == list(row.label) for answer, row in answers]
    return sum(right) / max(1, len(right))


def no_surer_than(
    others: Sequence[Float[np.ndarray, "_ labels"]], scores: Sequence[Float[np.ndarray, "_ labels"]]
) -> list[Float[np.ndarray, "_ labels"]]:
    """Return log-probabilities, divided by the temperature from 1 on that gives them at least the entropy of others.

    Args:
        others: log-probabilities of another model for the same rows.
        scores: for each row (outputs, labels).
    """
    target, (low, high) = _entropy(others, 1.0), TEMPERATURES
    for _ in range(STEPS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if _entropy(scores, middle) < target else (low, middle)
    return [_soften(row, low) for row in scores]


def _entropy(scores: Sequence[Float[np.ndarray, "_ labels"]], temperature: float) -> float:
    """Return the mean entropy of the answers, in nats; 0 without answers."""
    if not sum(map(len, scores)):
        return 0.0
    softened = _soften(np.concatenate(scores), temperature)
    return float(-(np.exp(softened) * softened).sum(1).mean())


def _soften(
    scores: Float[np.ndarray, "outputs labels"], temperature: float
) -> Float[np.ndarray, "outputs labels"]:
    """Return log-probabilities of scores that are divided by a temperature."""
    scaled = np.maximum(scores, -1e4) / temperature
    scaled = scaled - scaled.max(1, keepdims=True)
    softened: np.ndarray = scaled - np.log(np.exp(scaled).sum(1, keepdims=True))
    return softened
