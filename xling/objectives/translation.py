"""Translation of a sentence, trained by cross-entropy; the language token selects the target language.

With ``pooling`` the decoder sees only one vector of the source, the maximum (or mean) over its positions.
This vector learns to represent the sentence in any language: LASER's encoder. The source then is ``<s> x
</s>`` without a language token, since the vector must not depend on it.

Source: Vaswani et al. 2017; Johnson et al. 2017 (many languages); Artetxe & Schwenk 2019 (bottleneck; here a
Transformer attends to the vector, while LASER's LSTM reads it at every step).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xling.core.settings.ranges import PART, SHARE, OneOf, ranged
from xling.data.packing import Example
from xling.data.symbols import NUM_SENTINELS
from xling.models import objective_constraints
from xling.objectives.base import BOS, Loss, ObjectiveDataset, objective
from xling.objectives.contract_facts import Trial
from xling.objectives.pairs import Pair, PairConfig
from xling.objectives.seq2seq import (
    Seq2SeqObjective,
    TranslationDataset,
    both_sides,
    sequence_loss,
)

if TYPE_CHECKING:
    from jaxtyping import Int

OVERHEAD = 1


@dataclass
class TranslationConfig(PairConfig):
    """Settings of translation.

    Attributes:
        directions: directions such as ``en-de,de-en``; empty for both of every pair.
        back_translated: binarised directory of back-translated text; its pairs are named with the
            machine-translated language first.
        back_share: share of the tokens of an epoch that is back-translated.
        tag: put the last sentinel in front of back-translated sources, so that the model can distinguish them
            from genuine ones (Caswell et al. 2019).
        label_smoothing: share of the target distribution that is spread over all pieces.
        pooling: pooling of the source for a decoder that reads one vector: ``max``, ``mean``, or empty to
            read all.
    """

    directions: str = ""
    back_translated: str = ""
    back_share: float = ranged(0.5, PART)
    tag: bool = False
    label_smoothing: float = ranged(0.0, SHARE)
    pooling: str = ranged("", OneOf(("", "max", "mean")))


def bottleneck(translated: Example, source: Int[np.ndarray, " length"]) -> Example:
    """Change an example's source ``x </s>`` to ``<s> x </s>``, as sentence vectors are computed elsewhere."""
    tokens = np.concatenate([[BOS], source])
    langs = np.full(len(tokens), translated["langs"][0])
    return translated | {"tokens": tokens, "positions": np.arange(len(tokens)), "langs": langs}


@objective("translation")
class Translation(Seq2SeqObjective):
    """The translation objective."""

    trial = Trial(
        mixed_with=("mmlm", "mbart"), changes=("context", "both sides"), ignores=("own token", "later tokens")
    )
    config = TranslationConfig

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Return the dataset of pairs of a split."""
        cfg, symbols = self.cfg, self.symbols
        cfg.pairs = objective_constraints.asked_pairs(cfg)

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
        )

    def loss(self, model: Any, sample: dict[str, Any]) -> Loss:
        """Return the cross-entropy of the translation."""
        return sequence_loss(model, sample, self.cfg.label_smoothing, pooling=self.cfg.pooling)
