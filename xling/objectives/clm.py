"""Causal language modelling (XLM's CLM): predict the next piece from the ones before it, in many languages.

The blocks are those of masked LM; every token but the first is predicted with a causal attention mask.

Source: Conneau & Lample 2019, section 3.2.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from xling.array_types import Int
from xling.data.packing import Example
from xling.objectives.base import Loss, Objective, ObjectiveDataset, objective
from xling.objectives.contract_facts import Trial
from xling.objectives.mmlm import BlockDataset, masked_loss


def example(tokens: Int[np.ndarray, " length"]) -> Example:
    """Build an example of one block (length,), ``<s>`` first, with token i + 1 as the target at position i."""
    return {
        "tokens": tokens,
        "positions": np.arange(len(tokens)),
        "chosen": np.arange(len(tokens) - 1),
        "target": tokens[1:],
    }


@objective("clm")
class Clm(Objective):
    """The CLM objective: causal LM on monolingual text of many languages."""

    trial = Trial(changes=("context",), ignores=("own token", "later tokens"))

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Return the dataset of blocks of a split in every language of the task."""
        return BlockDataset(self.cfg, data, split, self.langs, "clm", lambda block: example(block.tokens))

    def loss(self, model: Any, sample: dict[str, Any]) -> Loss:
        """Return the cross-entropy of every next piece."""
        return masked_loss(model, sample, causal=True)
