"""Translation of a sentence, trained by cross-entropy; the language token selects the target language.

With ``pooling`` the decoder sees only one vector of the source, the maximum (or mean) over its positions.
This vector learns to represent the sentence in any language: LASER's encoder. The source then is ``<s> x
</s>`` without a language token, since the vector must not depend on it.

With ``join`` an example is a block of neighbouring sentences of a document on both sides, each with its ``</s>``. A
target then ends with the token of its language, which ends the block (mBART, section 4).

Source: Vaswani et al. 2017; Johnson et al. 2017 (many languages); Artetxe & Schwenk 2019 (bottleneck; here a
Transformer attends to the vector, while LASER's LSTM reads it at every step; its BiLSTM is ``model.arch=bilstm``).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from xling.array_types import Int
from xling.data.packing import Example
from xling.data.symbols import NUM_SENTINELS
from xling.objectives.base import BOS, Loss, ObjectiveDataset, objective
from xling.objectives.contract_facts import Trial
from xling.objectives.pairs import Pair
from xling.objectives.seq2seq import (
    Seq2SeqObjective,
    TranslationDataset,
    both_sides,
    sequence_loss,
)
from xling.objectives.settings import TranslationConfig

OVERHEAD = 1


def bottleneck(translated: Example, source: Int[np.ndarray, " length"]) -> Example:
    """Change an example's source ``x </s>`` to ``<s> x </s>``, as sentence vectors are computed elsewhere."""
    tokens = np.concatenate([[BOS], source])
    langs = np.full(len(tokens), translated["langs"][0])
    return translated | {"tokens": tokens, "positions": np.arange(len(tokens)), "langs": langs}


@objective("translation")
class Translation(Seq2SeqObjective):
    """The translation objective."""

    settings: TranslationConfig

    trial = Trial(
        mixed_with=("mmlm", "mbart"), changes=("context", "both sides"), ignores=("own token", "later tokens")
    )

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Return the dataset of pairs of a split."""
        cfg = self.cfg
        symbols = replace(self.symbols, documents=cfg.join)
        cfg.pairs = self.settings.asked_pairs()

        def build(pair: Pair, generator: np.random.Generator) -> Example:
            translated = both_sides(pair, symbols)
            return bottleneck(translated, pair.src) if cfg.pooling else translated

        return TranslationDataset(
            cfg,
            data,
            split,
            self.langs,
            self.name,
            build,
            OVERHEAD,
            directions=cfg.directions,
            back_translated=cfg.back_translated,
            back_share=cfg.back_share,
            tag=symbols.sentinel(NUM_SENTINELS - 1) if cfg.tag else None,
            join=cfg.join,
        )

    def loss(self, model: Any, sample: dict[str, Any]) -> Loss:
        """Return the cross-entropy of the translation."""
        return sequence_loss(model, sample, self.cfg.label_smoothing, pooling=self.cfg.pooling)
