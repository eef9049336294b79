"""Translation: a sentence out of its translation, by cross-entropy; the language token decides which language.

With ``pooling`` the decoder sees one vector of the source only, the maximum (or mean) over its positions, so that this
vector learns to hold the sentence in any language: LASER's encoder. The source then is ``<s> x </s>`` without a
language token, since the vector must not depend on it.

Source: Vaswani et al. 2017; Johnson et al. 2017 (many languages); Artetxe & Schwenk 2019 (bottleneck; here a
Transformer attends to the vector, where LASER's LSTM reads it at every step).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xling.core.errors import UserError, unknown
from xling.data.noise import check_share
from xling.data.packing import Example
from xling.data.symbols import NUM_SENTINELS
from xling.models.checkpoint import check_vocabulary
from xling.models.seq2seq import POOLINGS
from xling.objectives.base import BOS, Loss, ObjectiveDataset, objective
from xling.objectives.pairs import Pair, PairConfig
from xling.objectives.seq2seq import (
    Seq2SeqObjective,
    TranslationDataset,
    both_sides,
    pairs_of_directions,
    sequence_loss,
)
from xling.objectives.trial import Trial
from xling.text import shards
from xling.text.vocab import vocab_digest

if TYPE_CHECKING:
    from jaxtyping import Int

OVERHEAD = 1


@dataclass
class TranslationConfig(PairConfig):
    """Settings of translation.

    Attributes:
        directions: such as ``en-de,de-en``; empty for both of every pair.
        back_translated: binarised directory of back-translated text, whose pairs are named with the machine's language
            first.
        back_share: share of the tokens of an epoch that is back-translated.
        tag: put the last sentinel in front of back-translated sources, so that the model can tell them from genuine
            ones (Caswell et al. 2019).
        label_smoothing: share of the target distribution that is spread over all pieces.
        pooling: of the source for a decoder that reads one vector: ``max``, ``mean``, or empty to read all.
    """

    directions: str = ""
    back_translated: str = ""
    back_share: float = 0.5
    tag: bool = False
    label_smoothing: float = 0.0
    pooling: str = ""


def bottleneck(made: Example, source: Int[np.ndarray, " length"]) -> Example:
    """An example whose source, ``x </s>``, reads ``<s> x </s>``, as sentence vectors are made elsewhere."""
    tokens = np.concatenate([[BOS], source])
    langs = np.full(len(tokens), made["langs"][0])
    return made | {"tokens": tokens, "positions": np.arange(len(tokens)), "langs": langs}


@objective("translation")
class Translation(Seq2SeqObjective):
    """A sentence from its translation."""

    trial = Trial(
        mixed_with=("mmlm", "mbart"), changes=("context", "both sides"), ignores=("own token", "later tokens")
    )
    config = TranslationConfig

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Pairs of the split.

        Raises:
            UserError: an unknown pooling or direction, a smoothing that is no share.
        """
        cfg, symbols = self.cfg, self.symbols
        if cfg.pooling not in POOLINGS:
            raise unknown("pooling", cfg.pooling, POOLINGS)
        if not 0 <= cfg.label_smoothing < 1:
            raise UserError(f"label_smoothing={cfg.label_smoothing}", "a share from 0, below 1")
        check_share("back_share", cfg.back_share)
        if cfg.back_translated:
            check_vocabulary(vocab_digest(data), Path(cfg.back_translated), data)
            if not shards.pairs_in(Path(cfg.back_translated)):
                raise UserError(
                    f"no parallel shards in back_translated={cfg.back_translated}", "pairs SRC-TGT"
                )
        if cfg.directions:
            asked = pairs_of_directions(cfg.directions, shards.pairs_in(data))
            if cfg.pairs and set(cfg.pairs.split(",")) != set(asked.split(",")):
                raise UserError(
                    f"pairs={cfg.pairs} with directions={cfg.directions}",
                    f"pairs={asked}",
                    "give one of the two",
                )
            cfg.pairs = asked

        def build(pair: Pair, generator: np.random.Generator) -> Example:
            made = both_sides(pair, symbols)
            return bottleneck(made, pair.src) if cfg.pooling else made

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
        """Cross-entropy of the translation."""
        return sequence_loss(model, sample, self.cfg.label_smoothing, pooling=self.cfg.pooling)
