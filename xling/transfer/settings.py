"""Settings of fine-tuning an encoder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from xling.transfer.heads import Features


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
