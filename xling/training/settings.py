"""The settings of a pre-training, which a login node reads without torch: `xling.training.train` carries them out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from xling.core import ranges
from xling.core.errors import UserError
from xling.core.ranges import COUNT, NOT_NEGATIVE, POSITIVE, SHARE, Range, ranged
from xling.core.rerun import UNCHANGED
from xling.models.shape import ModelConfig


@dataclass(frozen=True)
class TrainConfig:
    """How long and how fast.

    Attributes:
        updates: optimiser steps.
        batch_tokens: real tokens in a batch of one process.
        accumulate: batches per update.
        batch_first: batches of the first updates, where they grow.
        batch_warmup: tokens over which updates grow from ``batch_first`` batches to ``accumulate``, 0 for none.
        optimizer: ``adamw``, ``stable_adamw`` (Wortsman et al. 2023), or ``muon`` for the matrices of layers with AdamW
            for the rest, see `xling.models.rules`.
        beta1, beta2, eps: of AdamW; .98 is RoBERTa's and XLM-R's second, .999 BERT's.
        momentum: of Muon.
        weight_decay: decoupled; biases and norms have none.
        lr: peak learning rate, reached after ``warmup`` updates.
        warmup: updates in which the learning rate rises.
        decay: share of the updates, at the end, in which ``wsd`` falls.
        schedule: what it does then: ``linear`` and ``cosine`` decay over all that is left, ``inverse_sqrt`` falls with
            the square root of the updates, ``wsd`` stays until the last share ``decay`` of the updates.
        decay_shape: of ``wsd``: 1 - sqrt of the decay that is done, or a straight line.
        final_lr: where decays end, as a share of ``lr``; for ``linear`` it is 0.
        clip: largest gradient norm, 0 for none.
        log_every, valid_every, save_every: in updates.
        keep: checkpoints kept.
        snapshots: updates after which the model is also published as it is then, in ``OUT/snapshots/UPDATES``, for
            ``xling watch``.
        max_skipped: updates skipped in a row, for gradients that are not finite, that stop training.
        sharding: ``full`` keeps a part of each weight, gradient and moment in every process (FSDP2) instead of all.
        threads: CPU threads of torch, 0 for its own choice.
        workers: processes that make batches ahead, 0 for none: for a GPU, which they keep busy. The batches are the
            same for any number.
    """

    updates: int = ranged(1000, COUNT)
    batch_tokens: int = 4096
    accumulate: int = ranged(1, COUNT)
    lr: float = ranged(5e-4, POSITIVE)
    warmup: int = ranged(100, NOT_NEGATIVE)
    batch_warmup: int = ranged(0, NOT_NEGATIVE)
    batch_first: int = ranged(1, COUNT)
    optimizer: Literal["adamw", "stable_adamw", "muon"] = "adamw"
    beta1: float = ranged(0.9, SHARE)
    beta2: float = ranged(0.98, Range(above=0, below=1, words="a number between 0 and 1"))
    eps: float = ranged(1e-6, POSITIVE)
    momentum: float = ranged(0.95, SHARE)
    schedule: Literal["linear", "cosine", "wsd", "inverse_sqrt"] = "linear"
    decay: float = ranged(0.2, Range(above=0, most=1))
    decay_shape: Literal["sqrt", "linear"] = "sqrt"
    final_lr: float = ranged(0.0, SHARE)
    weight_decay: float = ranged(0.01, NOT_NEGATIVE)
    clip: float = ranged(1.0, NOT_NEGATIVE)
    log_every: int = ranged(50, COUNT, UNCHANGED)
    valid_every: int = ranged(500, COUNT)
    save_every: int = ranged(500, COUNT, UNCHANGED)
    keep: int = ranged(2, COUNT, UNCHANGED)
    snapshots: tuple[int, ...] = ()
    max_skipped: int = ranged(10, COUNT)
    sharding: Literal["none", "full"] = "none"
    threads: int = ranged(0, NOT_NEGATIVE, UNCHANGED)
    workers: int = ranged(0, NOT_NEGATIVE, UNCHANGED)

    def __post_init__(self) -> None:
        """Refuse what cannot be trained.

        Raises:
            UserError: a setting out of its range.
        """
        ranges.check(self, "train.")
        if self.schedule == "linear" and self.final_lr:
            raise UserError(f"train.final_lr={self.final_lr} with train.schedule=linear", "cosine or wsd")
        if any(not 0 < number <= self.updates for number in self.snapshots):
            given = ",".join(map(str, self.snapshots))
            raise UserError(f"train.snapshots={given}", f"updates from 1 to train.updates={self.updates}")


@dataclass(frozen=True)
class PhaseConfig:
    """A phase of a run: what it names replaces the settings of the run, see `xling.training.phases`.

    Attributes:
        updates, tokens: its length, in one of both; tokens as batches are filled at most.
        langs: languages, one file that lists them, or ``all`` that are in the data; empty: those of the run.
        alpha, mask_prob, tokens_per_sample: of every objective of the phase that has such a setting.
        objectives: those of the phase with their settings, laid over those of the run; empty: all of the run.
        part: of the schedule ``wsd``: the rate is ``stable``, or it begins to ``decay``.
        global_theta: base of rotary positions of global layers from now on.
    """

    updates: int = ranged(0, NOT_NEGATIVE)
    tokens: int = ranged(0, NOT_NEGATIVE)
    langs: tuple[str, ...] = ()
    alpha: float | None = None
    mask_prob: float | None = None
    tokens_per_sample: int | None = None
    objectives: dict[str, dict[str, str]] = field(default_factory=dict)
    part: Literal["stable", "decay"] = "stable"
    global_theta: float | None = None

    def __post_init__(self) -> None:
        """Refuse lengths below 0.

        Raises:
            UserError: a setting out of its range.
        """
        ranges.check(self, "phases.")


@dataclass(frozen=True)
class PretrainConfig:
    """Settings of `run`.

    Attributes:
        data: binarised directory.
        out: directory to publish.
        objectives: objective -> its settings, for example ``mmlm: {alpha: 0.3}``.
        mix: how several objectives meet; see `xling.objectives.multi`.
        langs: languages to train on; empty for all in ``data``.
        init: published model to start from, empty for fresh weights. Of another vocabulary only with
            ``freeze=body``: then its embeddings are left behind.
        init_layers: layers of ``init`` to start from, the lowest is 0, in place of all: for a model of fewer layers.
        freeze: what stays as it is: nothing, the ``embeddings`` of the pieces with the output bias, the ``body``,
            which is all the rest (Artetxe et al. 2020), the ``encoder`` with the embeddings that the decoder shares
            (XNLG), or the ``decoder`` with them. At the end it is checked that no bit of it has changed. Adapters
            always learn; where they are, ``body`` means all that ``init`` brings, embeddings of the same vocabulary
            included (MAD-X).
        phases: parts of the run with lengths, languages and objectives of their own, in this order; ``train.updates``
            is then their sum.
        seed: of every draw, and of fresh weights.
        log: where the curves are shown while it runs, see `xling.training.track`; changes nothing of the result.
        dry_run: print the plan, measured by a short warm-up, and stop.
    """

    data: str
    out: str
    objectives: dict[str, dict[str, str]] = field(default_factory=lambda: {"mmlm": {}})
    mix: Literal["alternate", "sum", "common"] = "alternate"
    langs: tuple[str, ...] = ()
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = TrainConfig()
    seed: int = 1
    init: str = ""
    init_layers: tuple[int, ...] = ()
    freeze: Literal["none", "body", "embeddings", "encoder", "decoder"] = "none"
    phases: dict[str, PhaseConfig] = field(default_factory=dict)
    log: str = "none"
    dry_run: bool = False
