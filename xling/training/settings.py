"""Settings of pre-training, which a login node reads without torch; `xling.training.train` executes them."""

from dataclasses import dataclass, field
from typing import Literal

from xling.core.errors import UserError
from xling.core.output.rerun import NO_EFFECT_METADATA
from xling.core.settings import values
from xling.core.settings.values import COUNT, NOT_NEGATIVE, POSITIVE, SHARE, Lang, Objectives, Range, ranged
from xling.models.shape import ModelConfig

WITH_ENCODER = ("focus", "wechsel")
"""Values of ``embeddings`` that need a static encoder."""


@dataclass(frozen=True)
class TrainConfig:
    """Length, batch size and optimiser of the training.

    Attributes:
        updates: optimiser steps.
        batch_tokens: real tokens in a batch of one process.
        accumulate: batches per update.
        batch_first: batches of the first updates, if they grow.
        batch_warmup: tokens over which updates grow from ``batch_first`` batches to ``accumulate``, 0 for no
            growth.
        optimizer: ``adamw``, ``stable_adamw`` (Wortsman et al. 2023), or ``muon`` for the matrices of layers
            with AdamW for the rest, see `xling.models.optim.update_rules`.
        beta1, beta2, eps: settings of AdamW; beta2 is .98 in RoBERTa and XLM-R, .999 in BERT.
        momentum: momentum of Muon.
        weight_decay: decoupled; not applied to biases and norms.
        lr: peak learning rate, reached after ``warmup`` updates.
        warmup: updates in which the learning rate rises.
        decay: share of the updates, at the end, in which ``wsd`` decays.
        schedule: learning rate after the warm-up: ``linear`` and ``cosine`` decay over the remaining updates,
            ``inverse_sqrt`` falls with the square root of the updates, ``wsd`` is constant until the last
            share ``decay``.
        decay_shape: decay of ``wsd``: 1 minus the square root of the completed share, or linear.
        final_lr: learning rate at the end of a decay, as a share of ``lr``; 0 for ``linear``.
        clip: largest gradient norm, 0 for no clipping.
        log_every, valid_every, save_every: in updates.
        keep: number of checkpoints to keep.
        snapshots: updates after which the model is also kept, in ``OUT/snapshots/UPDATES``.
        snapshot_state: keep the optimiser and the place in the data with it, so that ``branch`` can start there.
        max_skipped: training stops after this many successive updates were skipped for gradients that are not
            finite.
        sharding: ``full`` shards each weight, gradient and moment over the processes (FSDP2), ``hybrid`` over
            ``shard_size`` of them, with a copy in every other group of that many (HSDP).
        shard_size: processes that share a copy with ``hybrid``, 0 for those of a node.
        exchange: when processes sum gradients. ``update``: after the last batch of an update; while there are
            several, a sharded model needs 4 more bytes a weight in each process. ``batch``: a sharded model also
            after every batch, with ``hybrid`` only among the processes that share a copy.
        threads: CPU threads of torch, 0 for its own choice.
        workers: processes that prepare batches, 0 for none; they keep a GPU busy. The batches do not depend
            on the number.
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
    log_every: int = ranged(50, COUNT, NO_EFFECT_METADATA)
    valid_every: int = ranged(500, COUNT)
    save_every: int = ranged(500, COUNT, NO_EFFECT_METADATA)
    keep: int = ranged(2, COUNT, NO_EFFECT_METADATA)
    snapshots: tuple[int, ...] = ()
    snapshot_state: bool = False
    max_skipped: int = ranged(10, COUNT)
    sharding: Literal["none", "full", "hybrid"] = "none"
    shard_size: int = ranged(0, NOT_NEGATIVE, NO_EFFECT_METADATA)
    exchange: Literal["update", "batch"] = "update"
    threads: int = ranged(0, NOT_NEGATIVE, NO_EFFECT_METADATA)
    workers: int = ranged(0, NOT_NEGATIVE, NO_EFFECT_METADATA)

    def __post_init__(self) -> None:
        """Reject invalid settings.

        Raises:
            UserError: a setting out of its range.
        """
        values.check(self, "train.")
        if self.schedule == "linear" and self.final_lr:
            raise UserError(
                f"train.final_lr={self.final_lr} with train.schedule=linear, which ends at 0",
                "train.schedule=cosine or wsd",
            )
        if any(not 0 < number <= self.updates for number in self.snapshots):
            snapshots = ",".join(map(str, self.snapshots))
            raise UserError(f"train.snapshots={snapshots}", f"updates from 1 to train.updates={self.updates}")
        if self.shard_size and self.sharding != "hybrid":
            raise UserError(
                f"train.shard_size={self.shard_size} with train.sharding={self.sharding}", "hybrid"
            )
        if self.exchange == "batch" and self.sharding == "none":
            raise UserError("train.exchange=batch with train.sharding=none", "full or hybrid")


def check_two(encoder: str, decoder: str, name: str, one: str) -> None:
    """Reject ``encoder`` without ``decoder``, and both beside ``one``, another start whose setting is ``name``."""
    if bool(encoder) != bool(decoder):
        raise UserError(
            f"encoder={encoder} decoder={decoder}",
            "both, or neither",
            f"{name}=MODEL starts both sides from one",
        )
    if encoder and one:
        raise UserError(
            f"encoder={encoder} beside another start, {one}", "one of the two", f"leave {name}= out"
        )


@dataclass(frozen=True)
class PhaseConfig:
    """A phase of a run: its settings replace those of the run, see `xling.training.plan`.

    Attributes:
        updates, tokens: its length, given as one of both; tokens count batches as full.
        langs: languages, one file that lists them, or ``all`` of the data; empty: those of the run.
        alpha, mask_prob, tokens_per_sample: for every objective of the phase that has such a setting.
        objectives: objectives of the phase with their settings, applied over those of the run; empty: all of
            the run.
        part: phase of the schedule ``wsd``: the rate is ``stable``, or it begins to ``decay``.
        global_theta, local_theta: bases of rotary positions of global layers and of layers with a window, from this
            phase on.
    """

    updates: int = ranged(0, NOT_NEGATIVE)
    tokens: int = ranged(0, NOT_NEGATIVE)
    langs: tuple[Lang, ...] = ()
    alpha: float | None = None
    mask_prob: float | None = None
    tokens_per_sample: int | None = None
    objectives: Objectives = field(default_factory=dict)
    part: Literal["stable", "decay"] = "stable"
    global_theta: float | None = None
    local_theta: float | None = None

    def __post_init__(self) -> None:
        """Reject negative lengths.

        Raises:
            UserError: a setting out of its range.
        """
        values.check(self, "phases.")


@dataclass(frozen=True)
class PretrainConfig:
    """Settings of ``xling pretrain``.

    Attributes:
        data: binarised directory.
        out: directory to publish.
        objectives: objective -> its settings, for example ``mmlm: {alpha: 0.3}``.
        mix: how several objectives are combined; see `xling.objectives.multi`.
        langs: languages to train on; empty for all in ``data``.
        init: published model to start from, empty for fresh weights; of a fine-tuned one the body, under a fresh
            LM head. It may have another vocabulary with
            ``freeze=body``: then its embeddings are dropped; or with ``embeddings``.
        embeddings: how the embeddings of another vocabulary start from those of ``init``: ``overlap``, ``mean``,
            ``fvt``, ``focus``, ``wechsel`` or ``random``, see `xling.static.new_rows`. ``focus`` and ``wechsel`` read
            the static encoder ``init_pieces``.
        init_layers: layers of ``init`` to start from, the lowest is 0, instead of all: for a model with fewer
            layers.
        branch: state of another run of the same model, data and objectives, from which this one goes on under its
            own schedule: ``OUT/snapshots/UPDATES`` or ``OUT.partial/update-NUMBER.pt``. The decay of ``wsd`` begins
            there and ends with ``train.updates``.
        encoder, decoder: two published models to start a model with a decoder from, in place of ``init``: encoder and
            embeddings of the first, decoder of the second, which may be an encoder. See `xling.training.two_starts`.
        cross: the cross-attention is new (``random``), or the encoder's self-attention (``self``).
        init_pieces: static encoder (`xling pretrain static`) whose vectors of words the embeddings of the pieces
            start from, see `xling.static.pieces`; empty for random ones, or those of ``init``.
        freeze: frozen part. ``embeddings``: the embeddings of the pieces with the output bias. ``body``: all the
            rest (Artetxe et al. 2020). ``encoder`` or ``decoder``: with the embeddings that both share (XNLG). At
            the end it is verified that no bit has changed. Adapters always learn; with adapters, ``body`` means
            all weights of ``init``, including embeddings of the same vocabulary (MAD-X).
        freeze_pieces: folder of a vocabulary whose ASCII pieces keep their embeddings, for example the model that
            ``embeddings`` started from: what it learned of English stays. Needs ``train.weight_decay=0``.
        phases: parts of the run with their own lengths, languages and objectives, in this order;
            ``train.updates`` is then their sum.
        seed: seed of every draw and of fresh weights.
        log: where curves are shown during training, see `xling.training.trackers`; does not change the result.
        dry_run: print the plan, measured by a short warm-up, and stop.
    """

    data: str
    out: str
    objectives: Objectives = field(default_factory=lambda: {"mmlm": {}})
    mix: Literal["alternate", "sum", "common"] = "alternate"
    langs: tuple[Lang, ...] = ()
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = TrainConfig()
    seed: int = 1
    init: str = ""
    embeddings: Literal["", "overlap", "mean", "fvt", "focus", "wechsel", "random"] = ""
    init_layers: tuple[int, ...] = ()
    branch: str = ""
    encoder: str = ""
    decoder: str = ""
    cross: Literal["random", "self"] = "random"
    init_pieces: str = ""
    freeze: Literal["none", "body", "embeddings", "encoder", "decoder"] = "none"
    freeze_pieces: str = ""
    phases: dict[str, PhaseConfig] = field(default_factory=dict)
    log: str = "none"
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Reject settings of ``init`` that do not fit together.

        Raises:
            UserError: a setting out of its range, or two that exclude each other.
        """
        values.check(self, "")
        check_two(self.encoder, self.decoder, "init", self.init or self.branch or self.init_pieces)
        if self.embeddings and not self.init:
            raise UserError(
                f"embeddings={self.embeddings} without init=", "init=MODEL over another vocabulary"
            )
        if self.freeze_pieces and self.train.weight_decay:
            raise UserError(
                f"freeze_pieces={self.freeze_pieces} with train.weight_decay={self.train.weight_decay}",
                "train.weight_decay=0, which leaves rows without gradients as they are",
            )
        if self.embeddings and bool(self.init_pieces) != (self.embeddings in WITH_ENCODER):
            raise UserError(
                f"embeddings={self.embeddings} with init_pieces={self.init_pieces}",
                f"init_pieces=ENCODER with embeddings={' or '.join(WITH_ENCODER)} alone",
            )
