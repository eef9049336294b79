"""System ``joined``: an encoder with ``model.features`` and the static encoder of its features answer together.

For classes and tags both are fitted on the same rows, and what is most likely by the sum of their log-probabilities is
the answer. The log-probabilities of each are divided by a temperature first, which its dev rows choose: a head over a
Transformer is surer of itself than one over a static encoder. Sentence vectors are those of
both side by side, see `EncoderBackend.embed`.

Source: temperatures: Guo et al. 2017, On calibration of modern neural networks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from xling.array_types import Float, Float32, Int64
from xling.core.errors import UserError
from xling.models.files.model_folder import JOINED_FILE
from xling.static.head_files import save_task
from xling.static.tagger import most_likely_tags
from xling.transfer import tune
from xling.transfer.backend import JOINED, EncoderBackend
from xling.transfer.encode import LabelledRow
from xling.transfer.static_system import StaticBackend, TunedStatic
from xling.transfer.task import TASKS, TaskShape, check_tuned_for
from xling.transfer.tasks.pair import Pair
from xling.transfer.tasks.tag import Tag

STATIC_FOLDER = "static"
"""Folder of the fine-tuned static encoder in that of the fine-tuned model."""
TEMPERATURES = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0)
STATIC_PAIR_EPOCHS = 10
"""Least passes of the small network for pairs on static vectors, as in `xling run hour`; a Transformer needs 2 or 3."""


@dataclass(frozen=True)
class TunedJoined:
    """A fine-tuned model and a fitted head over a static encoder, with the interface of `tune.TunedModel`.

    Attributes:
        temperatures: of the model and of the head.
    """

    ROWS_AT_ONCE: ClassVar[int] = TunedStatic.ROWS_AT_ONCE

    tuned: tune.TunedModel
    static: TunedStatic
    temperatures: tuple[float, float]

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
        of_model, of_static = self.temperatures
        is_iob2 = self.task == Tag.name and self.static.head.is_iob2
        answers: list[Any] = []
        for first, second in zip(
            _scores_of_model(self.tuned, rows, lang), self.static.log_probabilities(rows), strict=True
        ):
            both = _soften(first, of_model) + _soften(second, of_static)
            labels = most_likely_tags(both, self.labels, is_iob2)
            answers.append(labels if self.task == Tag.name else labels[0])
        return answers


class JoinedBackend:
    """The two encoders as one system; see the module.

    Args:
        encoder: an encoder with ``model.features``, or a fine-tuned one with `JOINED_FILE` beside it.
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

        Of several heads of the static encoder the one is taken that finds the dev rows most likely.
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
        targets = _targets(suite, dev, labels)
        fits = [_calibrate(head.log_probabilities(dev), targets) for head in heads]
        best = min(range(len(heads)), key=lambda i: fits[i][0])
        joined = []
        for tuned in self._encoder.fit(suite, train, dev, lang, cfg):
            _, temperature = _calibrate(_scores_of_model(tuned, dev, lang), targets)
            joined.append(TunedJoined(tuned, heads[best], (temperature, fits[best][1])))
        return joined

    def average(self, checkpoints: Sequence[TunedJoined]) -> TunedJoined:
        """Average the weights of fine-tuned models; the other head and the temperatures are those of the last."""
        return replace(checkpoints[-1], tuned=tune.average_models([each.tuned for each in checkpoints]))

    def predict(
        self, checkpoint: TunedJoined, suite: TaskShape, rows: Sequence[LabelledRow], lang: str
    ) -> list[Any]:
        """Return one answer per row, in the form of the suite's labels; the rows are of one language."""
        return checkpoint.predict(rows, lang)

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
        self._encoder.save({name: joined.tuned}, suite, train, out)
        (out / STATIC_FOLDER).mkdir()
        save_task(out / STATIC_FOLDER, self._static.ckpt, joined.task, joined.labels, joined.static.head)
        facts = {"temperatures": joined.temperatures}
        (out / JOINED_FILE).write_text(f"{json.dumps(facts)}\n", encoding="utf-8")

    def tuned(self) -> TunedJoined:
        """Return what `save` has written.

        Raises:
            UserError: a file is missing or damaged, or they are of different models.
        """
        folder = self._encoder.ckpt
        tuned, static = tune.load_tuned(folder), self._static.tuned()
        try:
            first, second = json.loads((folder / JOINED_FILE).read_text(encoding="utf-8"))["temperatures"]
            if not (first > 0 and second > 0 and (tuned.task, tuned.labels) == (static.task, static.labels)):
                raise ValueError("its two models are not of one fine-tuning")
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise UserError(
                f"{folder / JOINED_FILE}: {type(error).__name__} {error}",
                "an output of xling finetune joined=true",
                "copy it again, or run xling finetune again",
            ) from None
        return TunedJoined(tuned, static, (first, second))


def ready_system(checkpoint: Path, name: str) -> JoinedBackend:
    """Return the system of a fine-tuned folder with `JOINED_FILE`."""
    return JoinedBackend(
        EncoderBackend(checkpoint, name), StaticBackend(checkpoint / STATIC_FOLDER, name), name
    )


def _scores_of_model(
    tuned: tune.TunedModel, rows: Sequence[LabelledRow], lang: str
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
