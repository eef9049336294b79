"""Forward and backward language models at once (ELMo; Rosita: one such model of several languages).

The blocks are those of masked LM. Every token but the first is predicted from those before it, and every token but the
last from those behind it; both losses count alike. A model with ``model.two_way`` reads both ways in one pass, and half
of its states predict either way. Any other encoder reads twice, under a causal mask, the second time from the end: its
tasks then see states that were never trained together, so ``model.two_way`` is what a recipe wants.

Mulcaire et al. 2019 sample one language a batch, equally often; here ``alpha`` says how often, and batches are mixed.

Sources: Peters et al. 2018, section 3.1; Mulcaire et al. 2019, section 2.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from xling.array_types import Float, Int
from xling.data.packing import Example
from xling.objectives.base import Loss, Objective, ObjectiveDataset, objective
from xling.objectives.contract_facts import Trial
from xling.objectives.mmlm import BlockDataset
from xling.papers import bilm_settings as bilm_settings  # declares it
from xling.papers.two_way import turned


def example(tokens: Int[np.ndarray, " length"]) -> Example:
    """Build an example in which each position predicts the next token and the previous one."""
    places = np.arange(len(tokens))
    return {
        "tokens": tokens,
        "positions": places,
        "chosen": np.concatenate([places[:-1], places[1:]]),
        "target": np.concatenate([tokens[1:], tokens[:-1]]),
    }


@objective("bilm")
class Bilm(Objective):
    """Forward and backward LM on monolingual text of many languages."""

    trial = Trial(changes=("context",), ignores=("own token",))

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Blocks of the split in every language of the task."""
        return BlockDataset(self.cfg, data, split, self.langs, "bilm", lambda block: example(block.tokens))

    def loss(self, model: Any, sample: dict[str, Any]) -> Loss:
        """Cross-entropy of every next and every previous piece."""
        return loss_of(model, sample)


def loss_of(model: Any, sample: dict[str, Any]) -> Loss:
    """The losses of both ways, in the order of the chosen places."""
    halves = [half for num in sample["num_chosen"] for half in (num // 2, num // 2)]
    ways = torch.repeat_interleave(torch.arange(len(halves)) % 2, torch.tensor(halves))
    offsets = ways * len(sample["net_input"]["src_tokens"])
    places = sample["chosen"] + offsets.to(sample["chosen"].device, non_blocking=True)
    total, rows = model.lm_head.loss(both_ways(model, sample)[places], sample["target"])
    return Loss(total, len(rows), rows, sample["target_langs"])


def both_ways(model: Any, sample: dict[str, Any]) -> Float[Tensor, "twice_tokens dim"]:
    """States of a packed batch that have read forwards, and behind them those that have read backwards: (2 N, D)."""
    inputs = sample["net_input"]
    if model.cfg.two_way:
        before, behind = model(**inputs).chunk(2, -1)
        none = torch.zeros_like(before)
        return torch.cat([torch.cat([before, none], -1), torch.cat([none, behind], -1)])
    order = turned(inputs["runs"], inputs["src_tokens"].device)
    back = inputs | {key: inputs[key][order] for key in ("src_tokens", "langs") if key in inputs}
    return torch.cat([model(**inputs, causal=True), model(**back, causal=True)[order]])
