"""Settings of the stages of this package, in a separate module because they load without torch."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from xling.core import languages
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.parts import Workspace
from xling.core.settings import config, values
from xling.core.settings.values import (
    COUNT,
    COUNT_OR_NONE,
    NOT_NEGATIVE,
    POSITIVE,
    SEQUENCE,
    SHARE,
    Lang,
    ObjectiveSettings,
    Pair,
    Range,
    ranged,
)
from xling.models.generate.settings import Search
from xling.models.shape import ModelConfig
from xling.text.files import corpus_reader
from xling.training.settings import TrainConfig, check_two
from xling.transfer import method_settings

PairFeatures = Literal["cls", "match", "align"]
TextFeatures = Literal["cls", "concat", "neighbours"]
LAST, MIX = "last", "mix"
"""States that a head reads: of the last layer, or a learned mix of all."""


@dataclass(frozen=True)
class TuningSettings:
    """Settings of fine-tuning that its users give.

    Args:
        seed: seed of the new head, the order of rows and dropout; taken from ``seeds`` of the evaluation.
        lr: peak learning rate; base-size models need 2e-5 to 5e-5 (XTREME: 2e-5), tiny ones far more.
        epochs: passes over the training rows.
        batch_rows: rows per update.
        max_length: sub-words per sequence; longer rows are cut into windows or truncated, never dropped.
        method: ``plain``, or ``self_distillation``: the model of the last updates is the teacher (Xu et al. 2020).
            ``ewc``, elastic weight consolidation, holds what an old task needs (Kirkpatrick et al. 2017).
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
            ``neighbours``: the mean state, on which a regression and the labelled texts nearby decide, while the
            encoder stays as it is; for some hundreds of labelled rows, see `xling.transfer.neighbours`.
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
        task_adapter: width of an adapter in every layer, for example 48, which learns with the head while the
            rest is frozen (MAD-X); 0 for none.
        adversary: binarised text of several languages over the vocabulary of the model: a discriminator learns to tell
            the languages of its sentences, and the encoder to hide them, see `xling.transfer.adversary`. No labels
            of other languages are used, but their text is, and the signature says so.
        adversary_reversal: factor of the reversed gradient that the encoder gets.
        adversary_form: ``classes`` or ``wgan``, see `xling.objectives.adversary_settings`.
    """

    seed: int = 1
    lr: float = 5e-4
    epochs: int = ranged(5, COUNT)
    batch_rows: int = ranged(32, COUNT)
    max_length: int = ranged(128, SEQUENCE)
    method: Literal["plain", "self_distillation", "ewc"] = "plain"
    strength: float = ranged(1.0, POSITIVE)
    teacher_steps: int = ranged(1, COUNT)
    old_text: str = ""
    old_rows: int = ranged(200, COUNT)
    freeze_embeddings: bool = False
    freeze_layers: int = ranged(0, COUNT_OR_NONE)
    pair_features: PairFeatures = "cls"
    text_features: TextFeatures = "cls"
    label_smoothing: float = ranged(0.0, SHARE)
    switch: dict[Lang, str] = field(default_factory=dict)
    switch_rate: float = 0.5
    freeze: Literal["none", "encoder", "decoder"] = "none"
    layers: str = LAST
    layer_decay: float = ranged(1.0, Range(above=0, most=1, words="above 0, at most 1"))
    unfreeze_epochs: float = 0.0
    task_adapter: int = ranged(0, Range(least=0, words="a width from 1, or 0 for none"))
    adversary: str = ""
    adversary_reversal: float = ranged(0.1, NOT_NEGATIVE)
    adversary_form: Literal["classes", "wgan"] = "classes"


@dataclass(frozen=True)
class TuneConfig(TuningSettings):
    """Settings of fine-tuning.

    Args:
        warmup: share of the updates in which the learning rate rises.
        random_init: replace the pre-trained weights by fresh ones, as a control.
        precision: precision of the weights; ``auto`` is bf16 if the processor is fast at it.
    """

    warmup: float = 0.1
    weight_decay: float = 0.01
    dropout: float = 0.1
    clip: float = 1.0
    random_init: bool = False
    precision: Literal["auto", "fp32", "bf16"] = "auto"


def check_tuning_settings(cfg: Any) -> None:
    """Reject settings of fine-tuning that are out of range or incompatible.

    Args:
        cfg: a `TuneConfig`, or settings of the same names.

    Raises:
        UserError: naming such a setting.
    """
    values.check(cfg, "fit.")
    if not 0 <= cfg.unfreeze_epochs <= cfg.epochs:
        raise UserError(f"fit.unfreeze_epochs={cfg.unfreeze_epochs}", f"0 to fit.epochs={cfg.epochs}")
    if cfg.task_adapter and cfg.unfreeze_epochs:
        raise UserError(
            "fit.task_adapter with fit.unfreeze_epochs",
            "one of them: under a task adapter no pre-trained weight learns",
        )
    if cfg.layers not in (LAST, MIX) and not (cfg.layers.isascii() and cfg.layers.isdigit()):
        raise UserError(f"fit.layers={cfg.layers}", "last, mix, or a number of layers from 0")
    if cfg.layers == MIX and cfg.text_features == "neighbours":
        raise UserError("fit.layers=mix with fit.text_features=neighbours", "last, or a number of layers")
    method_settings.check_method(cfg, TuneConfig())
    if cfg.freeze == "encoder":
        method_settings.refuse_learning_encoder(cfg, TuneConfig())


@dataclass(frozen=True)
class CollapseConfig:
    """Conditions that stop a run: one of them, in one direction, at ``patience`` successive validations.

    Attributes:
        copied: maximum share of the output's words that occur in the source.
        in_language: minimum share of outputs in the requested language.
        shortest, longest: bounds of output tokens per source token.
        distinct: minimum rate of distinct pairs of neighbouring words, relative to real text in the language.
        patience: number of successive validations; 0 never stops.
        after: number of first updates in which nothing is stopped.
    """

    copied: float = 0.8
    in_language: float = 0.5
    shortest: float = 0.4
    longest: float = 2.5
    distinct: float = 0.1
    patience: int = 3
    after: int = 1000

    def describe_collapse(self, measured: dict[str, float]) -> str:
        """Describe what is wrong with the numbers of a direction; empty if nothing is."""
        if measured["copied"] > self.copied:
            return f"copies {measured['copied']:.0%} of its words from the source"
        if measured["in_language"] < self.in_language:
            return f"writes the requested language in {measured['in_language']:.0%} of the outputs"
        if not self.shortest <= measured["length_ratio"] <= self.longest:
            return f"writes {measured['length_ratio']:.2f} tokens for one of the source"
        if measured["distinct"] < self.distinct:
            return f"repeats itself: {measured['distinct']:.0%} of the different word pairs of real text"
        return ""


class _TwoStarts:
    """Settings of a training that may start from two models."""

    checkpoint: str
    encoder: str
    decoder: str

    def __post_init__(self) -> None:
        """Reject two starts at once.

        Raises:
            UserError: ``encoder`` without ``decoder``, or beside ``checkpoint``.
        """
        check_two(self.encoder, self.decoder, "checkpoint", self.checkpoint)


@dataclass(frozen=True)
class MtConfig(_TwoStarts):
    """Settings of ``xling finetune mt``.

    Attributes:
        data: binarised directory with pairs.
        out: directory to publish: the model, ``scores.json`` and the translations of the test sets.
        checkpoint: model to start from, with a decoder, or an encoder, which then initialises both sides
            and determines the shape; empty for fresh weights of the shape ``model``.
        encoder, decoder: two models to start from in place of ``checkpoint``: the encoder and the embeddings of the
            first, the decoder of the second, or its encoder as the decoder; see `xling.training.two_starts`.
        cross: with two models, the cross-attention is new or from the encoder's self-attention.
        directions: ``src-tgt``; empty for both of every pair in ``data``.
        alpha: exponent of the sampling of pairs by their tokens.
        back_translated: binarised directory of back-translated text over the same vocabulary. Its pairs are
            named with the machine-translated language first: only that direction is trained.
        back_share: share of the tokens of an epoch that is back-translated; 1 with the same directory as
            ``data`` for training without genuine pairs.
        tag: put a token in front of back-translated sources (Caswell et al. 2019).
        test: ``src-tgt`` -> the two line-aligned files to score on.
        label_smoothing: share of the target distribution that is spread over all pieces.
        seed: seed of every draw and of fresh weights.
        tokens_per_sample: longest sequence of either side.
        join: train and translate blocks of neighbouring sentences of a document, see
            `xling.transfer.translation.documents`; ``data`` is binarised with ``documents=true``, and documents of a
            test set are divided by lines that are blank on both sides.
        freeze: freeze the ``encoder`` or the ``decoder``, with the embeddings.
        search: settings of translation of the test sets.
        precision: precision of the weights for translation.
        log: where the curves are shown, see `xling.training.trackers`.
    """

    data: str
    out: str
    checkpoint: str = ""
    encoder: str = ""
    decoder: str = ""
    cross: Literal["random", "self"] = "random"
    directions: tuple[Pair, ...] = ()
    alpha: float = 0.7
    back_translated: str = ""
    back_share: float = 0.5
    tag: bool = False
    test: dict[Pair, tuple[str, ...]] = field(default_factory=dict)
    label_smoothing: float = 0.1
    tokens_per_sample: int = 256
    join: bool = False
    freeze: Literal["none", "encoder", "decoder"] = "none"
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    search: Search = field(default_factory=Search)
    precision: Literal["auto", "fp32", "bf16"] = "fp32"
    seed: int = 1
    log: str = "none"


@dataclass(frozen=True)
class UmtConfig(_TwoStarts):
    """Settings of ``xling umt``.

    Attributes:
        data: binarised directory with monolingual text of the languages.
        out: directory to publish: the model, ``scores.json`` and the translations of the test sets.
        pairs: ``src-tgt``, trained in both directions.
        checkpoint: model to start from: an encoder (mmlm, tlm), which initialises both sides, or a model with
            a decoder (mass, mbart, dae); it determines the shape. Empty for fresh weights of the shape
            ``model``.
        encoder, decoder: two models to start from in place of ``checkpoint``: the encoder and the embeddings of the
            first, the decoder of the second, or its encoder as the decoder; see `xling.training.two_starts`.
        cross: with two models, the cross-attention is new or from the encoder's self-attention.
        back: settings of back-translation, see `xling.objectives.umt.UmtConfig`.
        denoise: objective combined with back-translation in every update.
        denoise_settings: settings of ``dae`` or ``mass``; ``schedule`` is the factor on its loss by update,
            for example XLM's ``0:1,100000:0.1,300000:0``.
        parallel_data: binarised directory with pairs over the same vocabulary, for a semi-supervised run.
        tokens_per_sample: longest sequence of either side.
        select: the best model by the unsupervised criterion, by BLEU on ``oracle`` (reported as such), or the
            last.
        oracle: ``src-tgt`` -> two line-aligned files whose BLEU is logged; only used by ``select=oracle``.
        test: ``src-tgt`` -> the two line-aligned files to score on at the end.
        valid_lines: held-out sentences of each language for round trips.
        search: settings of translation of the test sets.
        collapse: conditions that stop a run.
        seed: seed of every draw and of fresh weights.
        log: where the curves are shown, see `xling.training.trackers`.
    """

    data: str
    out: str
    pairs: tuple[Pair, ...]
    checkpoint: str = ""
    encoder: str = ""
    decoder: str = ""
    cross: Literal["random", "self"] = "random"
    back: ObjectiveSettings = field(default_factory=dict)
    denoise: Literal["dae", "mass", "none"] = "dae"
    denoise_settings: ObjectiveSettings = field(default_factory=dict)
    parallel_data: str = ""
    tokens_per_sample: int = 128
    select: Literal["two_way", "oracle", "last"] = "two_way"
    oracle: dict[Pair, tuple[str, ...]] = field(default_factory=dict)
    test: dict[Pair, tuple[str, ...]] = field(default_factory=dict)
    valid_lines: int = 200
    search: Search = field(default_factory=lambda: Search(beam=1))
    collapse: CollapseConfig = field(default_factory=CollapseConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    seed: int = 1
    log: str = "none"


BACK_TRANSLATE_STAGE = "back-translate"
FrozenSide = Literal["none", "decoder", "encoder"]


@dataclass(frozen=True)
class FitConfig:
    """Settings of the optimiser and the batches of ``xling finetune generate``.

    Attributes:
        lr: peak learning rate; warms up over a share ``warmup`` of the updates, then decays linearly to 0.
        epochs: passes over the rows.
        batch_rows: rows in an update.
        warmup: share of the updates in which the learning rate rises.
        label_smoothing: share of the target distribution that is spread over all pieces.
        weight_decay: decoupled; not applied to biases and norms.
        dropout: probability in training.
        clip: largest gradient norm, 0 for no clipping.
        precision: precision of the weights; ``auto`` is bf16 if the processor multiplies it fast.
    """

    lr: float = 1e-4
    epochs: int = ranged(5, COUNT)
    batch_rows: int = ranged(32, COUNT)
    warmup: float = 0.1
    label_smoothing: float = 0.1
    weight_decay: float = 0.01
    dropout: float = 0.1
    clip: float = 1.0
    precision: Literal["auto", "fp32", "bf16"] = "auto"


@dataclass(frozen=True)
class GenerateConfig:
    """Settings of ``xling finetune generate``.

    Attributes:
        checkpoint: directory with a model that has a decoder.
        out: directory to publish: the model, ``scores.json`` and its outputs.
        train: file of ``source<TAB>target`` rows.
        lang: their language.
        test: language -> file of rows to answer and score.
        freeze: freeze the ``decoder`` or the ``encoder``, with the embeddings.
        max_length: sub-tokens of a source or target, including specials, 0 for the model's maximum; longer
            ones are cut.
        search: settings of generation for the test rows.
        seed: seed of every draw.
        log: where the curves are shown, see `xling.training.trackers`.
    """

    checkpoint: str
    out: str
    train: str
    lang: Lang = "en"
    test: dict[Lang, str] = field(default_factory=dict)
    freeze: FrozenSide = "none"
    max_length: int = 0
    fit: FitConfig = field(default_factory=FitConfig)
    search: Search = field(default_factory=Search)
    seed: int = 1
    log: str = "none"


@dataclass(frozen=True)
class TranslateConfig:
    """Settings of ``xling translate``.

    Attributes:
        checkpoint: directory with a model that has a decoder.
        src, tgt: languages of the input and of the output.
        via: pivot language, if the model translates ``src``-``via`` and ``via``-``tgt`` better than the
            pair itself; empty for none.
        search: search settings.
        join: translate blocks of neighbouring lines together, with a model that was trained so; blank lines divide
            documents, and so does the end of a ``buffer``.
        block: most pieces of a block: the ``tokens_per_sample`` of the training.
        buffer: lines that are read and translated together: more are faster, fewer are output sooner.
        batch_tokens: source tokens of a batch.
        precision: precision of the weights; ``auto`` uses bfloat16 if the machine is fast at it.
        threads: CPU threads of torch, 0 for its own choice.
    """

    checkpoint: str
    src: Lang
    tgt: Lang
    via: Lang = ""
    join: bool = False
    block: int = ranged(512, COUNT)
    search: Search = field(default_factory=Search)
    buffer: int = ranged(1000, COUNT)
    batch_tokens: int = ranged(2048, COUNT)
    precision: Literal["auto", "fp32", "bf16"] = "fp32"
    threads: int = ranged(0, NOT_NEGATIVE)


@dataclass(frozen=True)
class BackTranslateConfig:
    """Settings of ``xling back-translate``.

    Attributes:
        checkpoint: directory with a model that has a decoder.
        text: files, globs or corpus directories with text of ``src``, one sentence per line; blank lines are
            skipped.
        src, tgt: languages of the text and of the translations.
        via: language to translate through, empty for none.
        out: directory to publish: ``train.SRC`` and ``train.TGT``, line-aligned.
        lines: number of lines to use, from the first; 0 for all.
        part_lines: lines of a part.
        search: search settings.
        batch_tokens: source tokens of a batch.
        threads: CPU threads of torch, 0 for its own choice.
    """

    checkpoint: str
    text: tuple[str, ...]
    src: Lang
    tgt: Lang
    out: str
    via: Lang = ""
    lines: int = ranged(0, NOT_NEGATIVE)
    part_lines: int = ranged(50_000, COUNT)
    search: Search = field(default_factory=lambda: Search(beam=1))
    batch_tokens: int = ranged(4096, COUNT)
    threads: int = ranged(0, NOT_NEGATIVE)

    def __post_init__(self) -> None:
        """Reject unknown or equal languages.

        Raises:
            UserError: an unknown language, or the same twice.
        """
        if languages.get(self.src) == languages.get(self.tgt):
            raise UserError(f"src={self.src} and tgt={self.tgt}", "two different languages")

    @property
    def files(self) -> list[Path]:
        """Return the files of the text."""
        return corpus_reader.resolve_files(self.text)

    def content(self) -> dict[str, Any]:
        """Return the settings that determine the output."""
        return {k: v for k, v in config.to_dict(self).items() if k not in ("out", "threads")}

    def inputs(self) -> list[Path]:
        """Return the input files and folders."""
        return [Path(self.checkpoint), *self.files]

    def workspace(self) -> Workspace:
        """Return the parts, keyed by the settings and the inputs."""
        return Workspace.for_output(
            Path(self.out), [self.content(), [manifest.digest(path) for path in self.inputs()]]
        )

    def is_published(self) -> bool:
        """Return whether these settings and files have already been translated."""
        return (
            manifest.up_to_date(Path(self.out), BACK_TRANSLATE_STAGE, self.content(), self.inputs())
            is not None
        )


@dataclass(frozen=True)
class SwapConfig:
    """Settings of ``xling swap``; at least one of ``embeddings`` and ``adapters`` is given.

    Attributes:
        task: directory of `xling finetune`.
        out: directory to publish; `xling eval` scores it like ``task``.
        embeddings: directory of `xling pretrain` whose embeddings and vocabulary are used.
        adapters: directory of `xling pretrain` whose language adapters are used. Both may be the same one.
    """

    task: str
    out: str
    embeddings: str = ""
    adapters: str = ""
