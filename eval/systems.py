"""Interface between an evaluation and a model, and the registry of systems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from xling.core.registry import Registry
from xling.core.settings import ranges
from xling.core.settings.codes import Lang
from xling.core.settings.ranges import COUNT, ranged
from xling.eval.metrics import METRICS, evaluate
from xling.eval.rows.suite import Example, Suite
from xling.transfer.settings import check_tuning_settings

if TYPE_CHECKING:
    from jaxtyping import Float32


@dataclass(frozen=True)
class FitConfig:
    """Settings of fine-tuning, named as in `xling.transfer.settings.TuneConfig`.

    Args:
        seed: seed of the new head, the order of rows and dropout; taken from ``seeds`` of the evaluation.
        lr: peak learning rate; base-size models need 2e-5 to 5e-5 (XTREME: 2e-5), tiny ones far more.
        epochs: passes over the training rows.
        batch_rows: rows per update.
        max_length: sub-words per sequence; longer rows are cut into windows or truncated, never dropped.
        method: ``plain``, or ``r3f``, noise on the word vectors (Aghajanyan et al. 2021). With ``self_distillation``
            the model of the last updates is the teacher (Xu et al. 2020). ``ewc``, elastic weight consolidation, holds
            what an old task needs (Kirkpatrick et al. 2017).
        strength: weight of what the method adds to the loss; for ``ewc`` 1e2 to 1e5.
        teacher_steps: updates whose models, in the mean, are the teacher of ``self_distillation``.
        old_text: texts of the old task for ``ewc``, one a line, without labels; of pairs both texts with a tab. The old
            task is that of a fine-tuned checkpoint, or of a pre-trained one masked language modelling.
        old_rows: number of these texts that are read.
        pair_features: features of a sentence pair. ``cls``: the state of ``<s>``. ``match``: with means,
            difference and product. ``align``: what one text says and the other does not, from the word
            vectors alone.
        text_features: features of a single text with one class. ``cls``: the state of ``<s>``. ``concat``: with the
            largest and the mean state (Howard & Ruder 2018, section 3.3, with the last state first).
        label_smoothing: share of the target distribution that is spread evenly over all labels, for example .1.
        freeze_embeddings: do not train the word vectors, so that those of the source language do not
            drift away from the others.
        freeze_layers: number of layers, from the bottom, that do not learn, nor do the embeddings; 0 for none.
        switch: language -> MUSE dictionary from the source language: words of the training rows are replaced
            by its translations, redrawn every epoch (CoSDA-ML, Qin et al. 2020). No labels of other languages
            are used, but their words are, and the signature says so.
        switch_rate: probability that a word is replaced, if a dictionary has it.
        freeze: frozen side of a model that writes texts, with the embeddings; ``decoder`` keeps it
            from forgetting the languages it is not trained in (XNLG). For suites of labels ``encoder`` makes the
            encoder a source of features: it has no dropout, and only what is above it learns (Peters et al. 2019).
        layers: states that the head reads: of the ``last`` layer, a learned ``mix`` of the word vectors and all layers
            (ELMo, Peters et al. 2018), or after that many layers, for example 6.
        layer_decay: learning rate of a layer relative to the layer above it, for example .8; 1 for one rate.
        unfreeze_epochs: the head learns alone first; the layers join from the top, the embeddings last,
            evenly over this many epochs (gradual unfreezing); 0 for all at once.
        l2_start: strength of the pull of the pre-trained weights to their initial values (L2-SP), for example
            .01.
        task_adapter: width of an adapter in every layer, for example 48, which learns with the head while the
            rest is frozen (MAD-X); 0 for none.
        adversary: binarised text of several languages over the vocabulary of the model: a discriminator learns to tell
            the languages of its sentences, and the encoder to hide them, see `xling.transfer.adversary`. No labels
            of other languages are used, but their text is, and the signature says so.
        adversary_reversal: factor of the reversed gradient that the encoder gets.
        adversary_form: ``classes`` or ``wgan``, see `xling.objectives.adversary_settings`.
        project: output of ``xling corpus links``: tags of a static encoder's first tagger are projected to
            the other languages of the links, and a second tagger is trained on both.
        text_to_text: a model with a decoder writes the name of a class, which counts if it is right in every character
            (mT5, Xue et al. 2021), instead of a head over its encoder.
        precision: precision of the weights in fine-tuning and prediction; ``auto`` is bf16 if the processor
            is fast at it.
    """

    seed: int = 1
    lr: float = 5e-4
    epochs: int = ranged(5, COUNT)
    batch_rows: int = ranged(32, COUNT)
    max_length: int = 128
    method: Literal["plain", "r3f", "self_distillation", "ewc"] = "plain"
    strength: float = 1.0
    teacher_steps: int = 1
    old_text: str = ""
    old_rows: int = 200
    freeze_embeddings: bool = False
    freeze_layers: int = 0
    pair_features: Literal["cls", "match", "align"] = "cls"
    text_features: Literal["cls", "concat"] = "cls"
    label_smoothing: float = 0.0
    switch: dict[Lang, str] = field(default_factory=dict)
    switch_rate: float = 0.5
    freeze: Literal["none", "encoder", "decoder"] = "none"
    layers: str = "last"
    layer_decay: float = 1.0
    unfreeze_epochs: float = 0.0
    l2_start: float = 0.0
    task_adapter: int = 0
    adversary: str = ""
    adversary_reversal: float = 0.1
    adversary_form: Literal["classes", "wgan"] = "classes"
    project: Path | None = None
    text_to_text: bool = False
    precision: Literal["auto", "fp32", "bf16"] = "auto"

    def __post_init__(self) -> None:
        """Reject a number out of its range, or two that do not go together; raises UserError."""
        ranges.check(self, "fit.")
        check_tuning_settings(self)


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
            lang: language of the texts.
            layer: hidden layer, -1 is the last, 0 the input embeddings.
            pooling: ``mean``, ``cls`` or ``max`` over sub-words.
        """
        ...


BACKENDS: Registry[Callable[[Any], Backend]] = Registry("system", plugin="system")
"""Name of a system -> what makes its backend from an `xling.eval.run.settings.EvalConfig`."""

# Registered by name, so that a rerun without new predictions imports no model.
BACKENDS.register_target("pretrained", "xling.transfer.backend:pretrained_system")
BACKENDS.register_target("random", "xling.transfer.backend:random_control")
BACKENDS.register_target("majority", "xling.eval.controls.majority_ngrams:majority")
BACKENDS.register_target("ngram", "xling.eval.controls.majority_ngrams:ngram")
BACKENDS.register_target("dictionary", "xling.eval.controls.dictionary:dictionary")
BACKENDS.register_target("with_ngrams", "xling.eval.controls.ensemble:with_ngrams")


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
