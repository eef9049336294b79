"""Settings of the stages of this package; apart from them, since they load without torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from xling.core import config, languages, manifest
from xling.core.errors import UserError
from xling.core.parts import Work
from xling.models.search import Search
from xling.models.shape import ModelConfig
from xling.text import reader
from xling.training.settings import TrainConfig

Features = Literal["cls", "match", "align"]
TextFeatures = Literal["cls", "concat"]


@dataclass(frozen=True)
class TuneConfig:
    """How to fine-tune.

    Attributes:
        lr: peak learning rate; base-size models want 2e-5 to 5e-5, tiny ones far more.
        epochs: passes over the training rows; each leaves a checkpoint to choose from.
        batch_rows: rows in a batch.
        max_length: sub-tokens of one sequence, specials included.
        method: ``plain``, or ``r3f``: a symmetric KL between the predictions with and without noise on the word
            vectors is added (Aghajanyan et al. 2021; noise 1e-5, weight 1).
        freeze_embeddings: leave the word vectors as pre-trained.
        pair_features: what is read of a pair; see `TaskModel`.
        text_features: what is read of a single text that is classified; see `TaskModel`.
        label_smoothing: share of the target distribution that is spread evenly over all labels.
        switch: language -> MUSE dictionary from the rows' language; words of the training rows are replaced by its
            translations, anew every epoch (CoSDA-ML).
        switch_rate: probability that a word is replaced, where a dictionary has it.
        layer_decay: learning rate of a layer relative to the layer above it; 1 for one rate.
        unfreeze_epochs: the head learns alone first; the layers join it from the top, the embeddings last, evenly
            over so many epochs; 0 for all at once.
        l2_start: strength of the pull of the pre-trained weights to where they started (L2-SP), in place of their
            weight decay; 0 for none. `xling.transfer.regime` has the sources of these three.
        task_adapter: width of a new adapter in every layer, which learns with the head while all else stays; 0 for
            none.
        warmup: share of the updates.
        random_init: throw the pre-trained weights away first: the control.
    """

    lr: float = 5e-4
    epochs: int = 5
    batch_rows: int = 32
    max_length: int = 128
    method: Literal["plain", "r3f"] = "plain"
    freeze_embeddings: bool = False
    pair_features: Features = "cls"
    text_features: TextFeatures = "cls"
    label_smoothing: float = 0.0
    switch: dict[str, str] = field(default_factory=dict)
    switch_rate: float = 0.5
    layer_decay: float = 1.0
    unfreeze_epochs: float = 0.0
    l2_start: float = 0.0
    task_adapter: int = 0
    warmup: float = 0.1
    weight_decay: float = 0.01
    dropout: float = 0.1
    clip: float = 1.0
    random_init: bool = False
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    seed: int = 1


@dataclass(frozen=True)
class CollapseConfig:
    """When a run is given up: one of these, in one direction, at ``patience`` validations in a row.

    Attributes:
        copied: share of the output's words that stand in the source, at most.
        in_language: share of outputs in the language asked for, at least.
        shortest, longest: tokens of all outputs per token of the sources.
        distinct: different pairs of neighbouring words per pair, of that of real text in the language, at least.
        patience: validations in a row; 0 never stops.
        after: updates before which nothing is stopped.
    """

    copied: float = 0.8
    in_language: float = 0.5
    shortest: float = 0.4
    longest: float = 2.5
    distinct: float = 0.1
    patience: int = 3
    after: int = 1000

    def reason(self, seen: dict[str, float]) -> str:
        """What is wrong with the numbers of a direction, empty for nothing."""
        if seen["copied"] > self.copied:
            return f"copies {seen['copied']:.0%} of its words from the source"
        if seen["in_language"] < self.in_language:
            return f"writes the language asked for in {seen['in_language']:.0%} of the outputs"
        if not self.shortest <= seen["length_ratio"] <= self.longest:
            return f"writes {seen['length_ratio']:.2f} tokens for one of the source"
        if seen["distinct"] < self.distinct:
            return f"repeats itself: {seen['distinct']:.0%} of the different word pairs of real text"
        return ""


@dataclass(frozen=True)
class MtConfig:
    """Settings of `run`.

    Attributes:
        data: binarised directory with pairs.
        out: directory to publish: the model, ``scores.json`` and the translations of the test sets.
        checkpoint: model to start from, with a decoder or an encoder alone, which then gives both sides their start
            and decides the shape; empty for fresh weights of the shape ``model``.
        directions: ``src-tgt``; empty for both of every pair in ``data``.
        alpha: exponent of the sampling of pairs by their tokens.
        back_translated: binarised directory of back-translated text over the same vocabulary, whose pairs are named
            with the machine's language first: only that direction is trained.
        back_share: share of the tokens of an epoch that is back-translated; 1 with the same directory as ``data``
            for training without genuine pairs.
        tag: put a token in front of back-translated sources (Caswell et al. 2019).
        test: ``src-tgt`` -> the two line-aligned files to score on.
        label_smoothing: share of the target distribution that is spread over all pieces.
        seed: of every draw, and of fresh weights.
        tokens_per_sample: longest sequence of either side.
        freeze: ``encoder`` or ``decoder`` stays as it is, with the embeddings.
        search: how test sets are translated.
        precision: of the weights in translating.
        log: where the curves are shown, see `xling.training.track`.
    """

    data: str
    out: str
    checkpoint: str = ""
    directions: tuple[str, ...] = ()
    alpha: float = 0.7
    back_translated: str = ""
    back_share: float = 0.5
    tag: bool = False
    test: dict[str, tuple[str, ...]] = field(default_factory=dict)
    label_smoothing: float = 0.1
    tokens_per_sample: int = 256
    freeze: Literal["none", "encoder", "decoder"] = "none"
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    search: Search = field(default_factory=Search)
    precision: Literal["auto", "fp32", "bf16"] = "fp32"
    seed: int = 1
    log: str = "none"


@dataclass(frozen=True)
class UmtConfig:
    """Settings of `run`.

    Attributes:
        data: binarised directory with monolingual text of the languages.
        out: directory to publish: the model, ``scores.json`` and the translations of the test sets.
        pairs: ``src-tgt``, trained in both directions.
        checkpoint: model to start from: an encoder (mmlm, tlm), which gives both sides their start, or a model with a
            decoder (mass, mbart, dae); it decides the shape. Empty for fresh weights of the shape ``model``.
        back: settings of back-translation, see `xling.objectives.umt.UmtConfig`.
        denoise: what stands beside back-translation in every update.
        denoise_settings: of ``dae`` or ``mass``; ``schedule`` is the factor on its loss by update, for example XLM's
            ``0:1,100000:0.1,300000:0``.
        parallel_data: binarised directory with pairs over the same vocabulary, for a semi-supervised run.
        tokens_per_sample: longest sequence of either side.
        select: the best by the unsupervised criterion, by BLEU on ``oracle`` (marked as such), or the last.
        oracle: ``src-tgt`` -> two line-aligned files whose BLEU is logged; used only by ``select=oracle``.
        test: ``src-tgt`` -> the two line-aligned files to score on at the end.
        valid_lines: held-out sentences of each language that go there and back.
        search: how test sets are translated.
        collapse: when a run is given up.
        seed: of every draw, and of fresh weights.
        log: where the curves are shown, see `xling.training.track`.
    """

    data: str
    out: str
    pairs: tuple[str, ...]
    checkpoint: str = ""
    back: dict[str, str] = field(default_factory=dict)
    denoise: Literal["dae", "mass", "none"] = "dae"
    denoise_settings: dict[str, str] = field(default_factory=dict)
    parallel_data: str = ""
    tokens_per_sample: int = 128
    select: Literal["two_way", "oracle", "last"] = "two_way"
    oracle: dict[str, tuple[str, ...]] = field(default_factory=dict)
    test: dict[str, tuple[str, ...]] = field(default_factory=dict)
    valid_lines: int = 200
    search: Search = field(default_factory=lambda: Search(beam=1))
    collapse: CollapseConfig = field(default_factory=CollapseConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    seed: int = 1
    log: str = "none"


BACK_TRANSLATE = "back-translate"
Side = Literal["none", "decoder", "encoder"]


@dataclass(frozen=True)
class FitConfig:
    """How to train.

    Attributes:
        lr: peak learning rate; warms up over a share ``warmup`` of the updates, then decays linearly to 0.
        epochs: passes over the rows.
        batch_rows: rows in an update.
        warmup: share of the updates in which the learning rate rises.
        label_smoothing: share of the target distribution that is spread over all pieces.
        weight_decay: decoupled; biases and norms have none.
        dropout: probability in training.
        clip: largest gradient norm, 0 for none.
        precision: of the weights; ``auto`` is bf16 where the processor multiplies it.
    """

    lr: float = 1e-4
    epochs: int = 5
    batch_rows: int = 32
    warmup: float = 0.1
    label_smoothing: float = 0.1
    weight_decay: float = 0.01
    dropout: float = 0.1
    clip: float = 1.0
    precision: Literal["auto", "fp32", "bf16"] = "auto"


@dataclass(frozen=True)
class GenerateConfig:
    """Settings of `run`.

    Attributes:
        checkpoint: directory with a model that has a decoder.
        out: directory to publish: the model, ``scores.json`` and what it wrote.
        train: file of ``source<TAB>target`` rows.
        lang: their language.
        test: language -> file of rows to write and score.
        freeze: ``decoder`` or ``encoder`` stays as it is, with the embeddings.
        max_length: sub-tokens of a source or target, specials included, 0 for what the model has room for; longer
            ones are cut.
        search: how test rows are written.
        seed: of every draw.
        log: where the curves are shown, see `xling.training.track`.
    """

    checkpoint: str
    out: str
    train: str
    lang: str = "en"
    test: dict[str, str] = field(default_factory=dict)
    freeze: Side = "none"
    max_length: int = 0
    fit: FitConfig = field(default_factory=FitConfig)
    search: Search = field(default_factory=Search)
    seed: int = 1
    log: str = "none"


@dataclass(frozen=True)
class TranslateConfig:
    """Settings of `run`.

    Attributes:
        checkpoint: directory with a model that has a decoder.
        src, tgt: languages of the input and of the output.
        via: language to translate through, where the model knows ``src``-``via`` and ``via``-``tgt`` better than the
            pair itself (pivoting); empty for none.
        search: how to look for the best output.
        buffer: lines read before they are translated together: more are faster, fewer come sooner.
        batch_tokens: source tokens of a batch.
        precision: of the weights; ``auto`` takes bfloat16 where the machine is fast at it.
        threads: CPU threads of torch, 0 for its own choice.
    """

    checkpoint: str
    src: str
    tgt: str
    via: str = ""
    search: Search = field(default_factory=Search)
    buffer: int = 1000
    batch_tokens: int = 2048
    precision: Literal["auto", "fp32", "bf16"] = "fp32"
    threads: int = 0


@dataclass(frozen=True)
class BackTranslateConfig:
    """Settings of `phases` and `run_part`.

    Attributes:
        checkpoint: directory with a model that has a decoder.
        text: files, globs or corpus directories with text of ``src``, a sentence a line; blank lines are left out.
        src, tgt: languages of the text and of the translations.
        via: language to translate through, empty for none.
        out: directory to publish: ``train.SRC`` and ``train.TGT``, line-aligned.
        lines: of the text that are taken, from the first; 0 for all.
        part_lines: lines of a part.
        search: how to translate.
        batch_tokens: source tokens of a batch.
        threads: CPU threads of torch, 0 for its own choice.
    """

    checkpoint: str
    text: tuple[str, ...]
    src: str
    tgt: str
    out: str
    via: str = ""
    lines: int = 0
    part_lines: int = 50_000
    search: Search = field(default_factory=lambda: Search(beam=1))
    batch_tokens: int = 4096
    threads: int = 0

    def __post_init__(self) -> None:
        """Check what types cannot say.

        Raises:
            UserError: an unknown language, the same twice, or a number out of range.
        """
        if languages.get(self.src) == languages.get(self.tgt):
            raise UserError(f"src={self.src} and tgt={self.tgt}", "two different languages")
        if self.part_lines < 1 or self.lines < 0:
            raise UserError(
                f"part_lines={self.part_lines} and lines={self.lines}", "whole numbers, part_lines from 1"
            )

    @property
    def files(self) -> list[Path]:
        """The files of the text."""
        return reader.resolve(self.text)

    def content(self) -> dict[str, Any]:
        """The settings that decide what comes out."""
        return {k: v for k, v in config.to_dict(self).items() if k not in ("out", "threads")}

    def inputs(self) -> list[Path]:
        """What is read."""
        return [Path(self.checkpoint), *self.files]

    def work(self) -> Work:
        """The parts, keyed by the settings and what is read."""
        return Work.beside(
            Path(self.out), [self.content(), [manifest.digest(path) for path in self.inputs()]]
        )

    def is_published(self) -> bool:
        """Whether these settings and files have been translated already."""
        return manifest.up_to_date(Path(self.out), BACK_TRANSLATE, self.content(), self.inputs()) is not None


@dataclass(frozen=True)
class SwapConfig:
    """Settings of `run`; at least one of ``embeddings`` and ``adapters`` is given.

    Attributes:
        task: directory of `xling finetune`.
        out: directory to publish; `xling eval` scores it as it scores ``task``.
        embeddings: directory of `xling pretrain`, whose embeddings and vocabulary are taken.
        adapters: directory of `xling pretrain`, whose language adapters are taken. Both may be the same one.
    """

    task: str
    out: str
    embeddings: str = ""
    adapters: str = ""
