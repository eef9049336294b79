"""Causal language modelling (XLM's CLM): the next piece from those before it, on streams of many languages.

The blocks are those of masked LM; every token but the first is predicted under a causal attention mask.

Source: Conneau & Lample 2019, section 3.2.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xling.data.packing import Example
from xling.objectives.base import Loss, Objective, ObjectiveDataset, TaskConfig, objective
from xling.objectives.mmlm import BlockDataset, masked_loss
from xling.objectives.trial import Trial

if TYPE_CHECKING:
    from jaxtyping import Int


def example(tokens: Int[np.ndarray, " length"]) -> Example:
    """One block (length,), ``<s>`` first, whose token i + 1 is the target at position i."""
    return {
        "tokens": tokens,
        "positions": np.arange(len(tokens)),
        "chosen": np.arange(len(tokens) - 1),
        "target": tokens[1:],
    }


@objective("clm")
class Clm(Objective):
    """Causal LM on monolingual text of many languages."""

    trial = Trial(changes=("context",), ignores=("own token", "later tokens"))
    config = TaskConfig

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Blocks of the split in every language of the task."""
        return BlockDataset(self.cfg, data, split, self.langs, "clm", lambda block: example(block.tokens))

    def loss(self, model: Any, sample: dict[str, Any]) -> Loss:
        """Cross-entropy of every next piece."""
        return masked_loss(model, sample, causal=True)
