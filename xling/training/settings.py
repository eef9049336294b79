"""The settings of a pre-training, which a login node reads without torch: `xling.training.train` carries them out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from xling.core import ranges
from xling.core.ranges import COUNT, NOT_NEGATIVE, POSITIVE, Range, ranged
from xling.core.rerun import UNCHANGED
from xling.models.shape import ModelConfig


@dataclass(frozen=True)
class TrainConfig:
    """How long and how fast.

    Attributes:
        updates: optimiser steps.
        batch_tokens: real tokens in a batch of one process.
        accumulate: batches per update.
        beta2: of AdamW; .98 is RoBERTa's and XLM-R's, .999 BERT's.
        lr: peak learning rate; warms up over ``warmup`` updates, then decays linearly to 0.
        clip: largest gradient norm, 0 for none.
        log_every, valid_every, save_every: in updates.
        keep: checkpoints kept.
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
    beta2: float = ranged(0.98, Range(above=0, below=1, words="a number between 0 and 1"))
    weight_decay: float = ranged(0.01, NOT_NEGATIVE)
    clip: float = ranged(1.0, NOT_NEGATIVE)
    log_every: int = ranged(50, COUNT, UNCHANGED)
    valid_every: int = ranged(500, COUNT)
    save_every: int = ranged(500, COUNT, UNCHANGED)
    keep: int = ranged(2, COUNT, UNCHANGED)
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
        log: where the curves are shown while it runs, see `xling.training.track`; changes nothing of the result.
        dry_run: print the plan, measured by a short warm-up, and stop.
    """

    data: str
    out: str
    objectives: dict[str, dict[str, str]] = field(default_factory=lambda: {"mmlm": {}})
    mix: Literal["alternate", "sum"] = "alternate"
    langs: tuple[str, ...] = ()
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = TrainConfig()
    seed: int = 1
    init: str = ""
    init_layers: tuple[int, ...] = ()
    freeze: Literal["none", "body", "embeddings", "encoder", "decoder"] = "none"
    log: str = "none"
    dry_run: bool = False
