"""The settings of a pre-training, which a login node reads without torch: `xling.training.train` carries them out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from xling.core.rerun import UNCHANGED


@dataclass(frozen=True)
class ModelConfig:
    """Shape of the model; see `xling.models.encoder.EncoderConfig` and `xling.models.seq2seq.Seq2SeqConfig`.

    ``decoder_layers``, ``plain_head``, ``unbiased_head``, ``untied_head`` and ``source_lang`` count where an objective
    needs a decoder, ``lang_adapter`` (a width), ``invertible`` and ``segment_embeddings`` where none does.
    """

    layers: int = 4
    dim: int = 256
    heads: int = 4
    ffn_dim: int = 1024
    dropout: float = 0.1
    attention_dropout: float = 0.0
    max_positions: int = 512
    pre_norm: bool = False
    lang_embeddings: bool = False
    segment_embeddings: bool = False
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    decoder_layers: int = 0
    plain_head: bool = False
    unbiased_head: bool = False
    checkpoint_activations: bool = False
    compile: bool = False
    lang_adapter: int = 0
    invertible: bool = False
    scale_embeddings: bool = False
    norm_eps: float = 1e-5
    norm: Literal["layer", "rms"] = "layer"
    embedding_norm: bool = True
    biases: bool = True
    positions: Literal["learnt", "relative"] = "learnt"
    ffn: Literal["gelu", "relu", "gated_gelu"] = "gelu"
    head_dim: int = 0
    untied_head: bool = False
    source_lang: bool = True


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
    """

    updates: int = 1000
    batch_tokens: int = 4096
    accumulate: int = 1
    lr: float = 5e-4
    warmup: int = 100
    beta2: float = 0.98
    weight_decay: float = 0.01
    clip: float = 1.0
    log_every: int = field(default=50, metadata=UNCHANGED)
    valid_every: int = 500
    save_every: int = field(default=500, metadata=UNCHANGED)
    keep: int = field(default=2, metadata=UNCHANGED)
    max_skipped: int = 10
    sharding: Literal["none", "full"] = "none"
    threads: int = field(default=0, metadata=UNCHANGED)


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
    model: ModelConfig = ModelConfig()
    train: TrainConfig = TrainConfig()
    seed: int = 1
    init: str = ""
    init_layers: tuple[int, ...] = ()
    freeze: Literal["none", "body", "embeddings", "encoder", "decoder"] = "none"
    log: str = "none"
    dry_run: bool = False
