"""Interface between an evaluation and a model, and the registry of systems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from xling.array_types import Float32
from xling.core.errors import UserError
from xling.core.registry import Registry
from xling.core.settings import values
from xling.eval.metrics import METRICS, evaluate
from xling.eval.rows.suite import Example, Suite
from xling.transfer.settings import TuningSettings, check_tuning_settings


@dataclass(frozen=True)
class FitConfig(TuningSettings):
    """Settings of fine-tuning in an evaluation.

    Args:
        project: output of ``xling corpus links``: tags of a first tagger are projected to the other languages of the
            links, and a second tagger is trained on both.
        text_to_text: a model with a decoder writes the name of a class, which counts if it is right in every character
            (mT5, Xue et al. 2021), instead of a head over its encoder.
        precision: precision of the weights in fine-tuning and prediction; ``auto`` is bf16 if the processor
            is fast at it.
    """

    project: Path | None = None
    text_to_text: bool = False
    precision: Literal["auto", "fp32", "bf16"] = "auto"

    def __post_init__(self) -> None:
        """Reject a number out of its range, or two that do not go together; raises UserError."""
        values.check(self, "fit.")
        check_tuning_settings(self)
        if self.project and self.switch:
            raise UserError("fit.project= and fit.switch= together", "one of them", "leave the other out")

    def files(self) -> list[Path]:
        """Return what a fine-tuning reads beside its rows: dictionaries, texts and links."""
        given = (*self.switch.values(), self.old_text, self.adversary, self.project)
        return [Path(path) for path in given if path]


@dataclass(frozen=True)
class SearchConfig:
    """Settings of text generation, named as in `xling.models.generate.decode.Search`.

    Args:
        beam: number of hypotheses kept; 1 is greedy.
        length_penalty: exponent of the length that a score is divided by.
        max_len_a: with ``max_len_b``: an output has at most ``a * source length + b`` tokens.
        max_len_b: see ``max_len_a``.
    """

    beam: int = 5
    length_penalty: float = 1.0
    max_len_a: float = 1.5
    max_len_b: int = 10


class Backend(Protocol):
    """Interface of a system under test.

    Attributes:
        name: its name in tables, ``pretrained`` or one of `xling.eval.scores.score_file.CONTROLS` or another name.
        digest: identifies its weights; predictions and vectors are stored under it.
        seeded: whether the result depends on the seed; for a system that is not a control, whether it is to
            be fine-tuned.
    """

    name: str
    digest: str
    seeded: bool

    def fit(
        self, suite: Suite, train: Sequence[Example], dev: Sequence[Example], lang: str, cfg: FitConfig
    ) -> Sequence[Any]:
        """Train a head (and the encoder) and return the checkpoints, one per epoch, the last one last."""
        ...

    def average(self, checkpoints: Sequence[Any]) -> Any:
        """Return the checkpoint whose weights are the mean of the given ones."""
        ...

    def predict(self, checkpoint: Any, suite: Suite, rows: Sequence[Example], lang: str) -> list[Any]:
        """Return one prediction per row, JSON-ready, in the form of the suite's label.

        ``checkpoint`` is None for translation, which is not fine-tuned here (`xling finetune mt` is). A word that
        the model never saw gets None, not a guess.
        """
        ...

    def embed(
        self, texts: Sequence[str], lang: str, layer: int, pooling: str
    ) -> Float32[np.ndarray, "texts dim"]:
        """Return sentence (or word) vectors, float32 (num_texts, dim).

        Args:
            texts: not empty.
            layer: hidden layer, -1 is the last, 0 the input embeddings.
            pooling: ``mean``, ``cls`` or ``max`` over sub-words.
        """
        ...


BACKENDS: Registry[Callable[[Any], Backend]] = Registry("system", plugin="system")
"""Name of a system -> what makes its backend from an `xling.eval.run.settings.EvalConfig`."""

# Registered by name, so that a rerun without new predictions imports no model.
BACKENDS.register_target("pretrained", "xling.transfer.backend:pretrained_system")
BACKENDS.register_target("joined", "xling.transfer.backend:joined_system")
BACKENDS.register_target("random", "xling.transfer.backend:random_control")
BACKENDS.register_target("majority", "xling.eval.controls.majority_ngrams:majority")
BACKENDS.register_target("ngram", "xling.eval.controls.majority_ngrams:ngram")
BACKENDS.register_target("dictionary", "xling.eval.controls.dictionary:dictionary")


def build(name: str, cfg: Any) -> Backend:
    """Return the backend of a registered system."""
    return BACKENDS[name](cfg)


def scores_of(
    system: Backend, checkpoints: Sequence[Any], suite: Suite, rows: Sequence[Example], lang: str
) -> list[float]:
    """Return the score of each checkpoint on rows in one language, by the main metric of the suite."""
    metric = METRICS[suite.metric]
    predicted = [system.predict(checkpoint, suite, rows, lang) for checkpoint in checkpoints]
    return [evaluate(metric, rows, answers, lang)[0] for answers in predicted]
