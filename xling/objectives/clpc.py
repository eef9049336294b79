"""Cross-lingual paraphrase classification (Unicoder): are these two sentences translations of each other?

Sequence as in TLM, a linear layer on the state of ``<s>``, binary cross-entropy. Half of the pairs of a batch
have their second sides exchanged among each other, so a wrong partner has about the right length.

Source: Huang et al. 2019, section 3.2. The paper picks hard negatives with a light model without further
detail. Our choice: a partner of similar length from the same batch, which is free because batches are sorted
by length.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import nn

from xling.array_types import Int
from xling.core.sampling import rng
from xling.data.packing import Example, pack
from xling.objectives.base import BOS, EOS, Loss, Objective, ObjectiveDataset, objective
from xling.objectives.contract_facts import Trial
from xling.objectives.pairs import PairDataset
from xling.objectives.xlco import OVERHEAD
from xling.objectives.xlco import example as two_sides


def exchange(
    samples: list[Example], generator: np.random.Generator
) -> tuple[list[int], Int[np.ndarray, " pairs"]]:
    """Return the partner of each pair's first side, and 1 if it is its own translation.

    Half of the pairs (of the same two languages) exchange their second sides cyclically; a cycle of one stays
    correct.
    """
    partners = np.arange(len(samples))
    by_langs: dict[tuple[int, ...], list[int]] = {}
    for index, sample in enumerate(samples):
        by_langs.setdefault(tuple(sample["pair_langs"].tolist()), []).append(index)
    for members in by_langs.values():
        chosen = np.array(members)[generator.random(len(members)) < 0.5]
        partners[chosen] = np.roll(chosen, 1)
    return partners.tolist(), (partners == np.arange(len(samples))).astype(np.int64)


class PartnerDataset(PairDataset):
    """Dataset of pairs, half of them mismatched."""

    def collater(self, samples: list[Any]) -> dict[str, Any]:
        """Exchange partners and pack."""
        generator = rng(self.seed, self.epoch, "exchange", int(samples[0]["id"][0]))
        partners, is_translation = exchange(samples, generator)
        examples = []
        for index, (sample, partner) in enumerate(zip(samples, partners, strict=True)):
            first = np.concatenate([[BOS], sample["src"]])
            second = np.concatenate([[EOS], samples[partner]["tgt"]])
            src_lang, tgt_lang = sample["pair_langs"]
            examples.append(
                {
                    "id": sample["id"],
                    "tokens": np.concatenate([first, second]),
                    "positions": np.concatenate([np.arange(len(first)), np.arange(len(second))]),
                    "langs": np.repeat([src_lang, tgt_lang], [len(first), len(second)]),
                    "segments": np.repeat([0, 1], [len(first), len(second)]),
                    "chosen": np.zeros(1, dtype=np.int64),
                    "target": is_translation[index : index + 1],
                    "target_langs": np.array([tgt_lang]),
                }
            )
        return pack(examples)


@objective("clpc")
class Clpc(Objective):
    """The CLPC objective: classify pairs as translations or not."""

    trial = Trial(changes=("context", "both sides"))

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Return the dataset of pairs of a split."""
        return PartnerDataset(self.cfg, data, split, self.langs, "clpc", two_sides, OVERHEAD)

    def modules(self, model: Any) -> nn.Module:
        """Create the classifier that tells translations from other pairs."""
        layer = nn.Linear(model.cfg.dim, 2)
        nn.init.normal_(layer.weight, std=0.02)
        nn.init.zeros_(layer.bias)
        return layer.to(model.lm_head.bias.dtype)

    def loss(self, model: Any, sample: dict[str, Any]) -> Loss:
        """Return the cross-entropy of correct and wrong partners, nats."""
        hidden = model(**sample["net_input"])[sample["chosen"]]
        logits = model.extras["clpc"](hidden).float()
        rows = F.cross_entropy(logits, sample["target"], reduction="none")
        return Loss(rows.sum(), len(rows), rows.detach(), sample["target_langs"])
