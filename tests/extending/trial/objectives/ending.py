"""The end of a block from its beginning: an objective in one file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xling.core.errors import UserError
from xling.data.packing import Example
from xling.objectives.base import Loss, Objective, ObjectiveDataset, TaskConfig, objective
from xling.objectives.mmlm import BlockDataset, masked_loss


@dataclass
class EndingConfig(TaskConfig):
    """``share`` is the part of a block that is hidden at its end."""

    share: float = 0.25


def example(tokens: np.ndarray, share: float, mask: int) -> Example:
    """One block (length,), whose last tokens are masks and targets."""
    num_hidden = max(1, int(share * (len(tokens) - 1)))
    chosen = np.arange(len(tokens) - num_hidden, len(tokens))
    shown = tokens.copy()
    shown[chosen] = mask
    return {"tokens": shown, "positions": np.arange(len(tokens)), "chosen": chosen, "target": tokens[chosen]}


@objective("ending")
class Ending(Objective):
    """Predict the end of a block."""

    config = EndingConfig

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Blocks of the split in every language of the task."""
        if not 0 < self.cfg.share < 1:
            raise UserError(f"objectives.ending.share={self.cfg.share}", "between 0 and 1")
        mask = self.dictionary.index("<mask>")
        return BlockDataset(
            self.cfg, data, split, self.langs, "ending", lambda b: example(b.tokens, self.cfg.share, mask)
        )

    def loss(self, model: Any, sample: dict[str, Any]) -> Loss:
        """Cross-entropy of the hidden end."""
        return masked_loss(model, sample)
