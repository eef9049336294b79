"""Cross-lingual word recovery (Unicoder): rebuild a sentence only from the words of its translation.

With word embeddings x_i and y_j, ``A_ij = W [x_i; y_j; x_i * y_j]`` and ``x^t_i = sum_j softmax_j(A_ij)
y_j``. The encoder reads x^t in place of x's embeddings, and the LM head predicts every piece of x: the
attention becomes a soft word alignment.

Source: Huang et al. 2019, section 3.2. Our choices: A and x^t are computed from the embeddings, as in the
paper's figure, and ``</s>`` of x is not predicted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from xling.array_types import Float
from xling.data.packing import Example, pack, sequence
from xling.models.network.attention import Attention
from xling.objectives.base import FIRST_PIECE, Loss, Objective, ObjectiveDataset, objective
from xling.objectives.contract_facts import Trial
from xling.objectives.pairs import Pair, PairDataset


def example(pair: Pair, generator: np.random.Generator) -> Example:
    """Build a packed example of the sentence to recover, with its translation's tokens as ``other``."""
    chosen = np.flatnonzero(pair.src >= FIRST_PIECE)
    return sequence(
        pair.src,
        pair.src_lang,
        chosen=chosen,
        target=pair.src[chosen],
        target_langs=np.full(len(chosen), pair.src_lang),
        other=pair.tgt,
    )


class RecoveryDataset(PairDataset):
    """Dataset of packed sentences with their translations."""

    def collater(self, samples: list[Any]) -> dict[str, Any]:
        """Pack x; ``others`` are the tokens of each y in the packed order."""
        sample = pack(samples)
        by_id = {int(e["id"][0]): torch.from_numpy(e["other"]) for e in samples}
        sample["others"] = [by_id[i] for i in sample["id"].tolist()]
        sample["ntokens"] += sum(len(other) for other in sample["others"])
        return sample


class SoftAlignment(nn.Module):
    """Attention ``A_ij = W [x_i; y_j; x_i * y_j]`` between word vectors of size D."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(3, dim).normal_(std=dim**-0.5))

    def forward(
        self, x: Float[Tensor, "words dim"], y: Float[Tensor, "others dim"]
    ) -> Float[Tensor, "words others"]:
        """Return the weights of y's words for each of x's, (n, D) and (m, D) -> (n, m); rows sum to 1."""
        scores = (x @ self.weight[0])[:, None] + (y @ self.weight[1])[None, :] + (x * self.weight[2]) @ y.t()
        return torch.softmax(scores.float(), -1).to(x.dtype)


@objective("clwr")
class Clwr(Objective):
    """The CLWR objective: recover a sentence's words from those of its translation."""

    trial = Trial(changes=("context", "both sides"))

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Return the dataset of pairs of a split."""
        return RecoveryDataset(self.cfg, data, split, self.langs, "clwr", example, 0)

    def modules(self, model: Any) -> nn.Module:
        """Create the attention between the two sentences."""
        return SoftAlignment(model.cfg.dim).to(model.lm_head.bias.dtype)

    def loss(self, model: Any, sample: dict[str, Any]) -> Loss:
        """Return the cross-entropy of every piece of x given x^t, nats."""
        encoder, inputs = model.encoder, sample["net_input"]
        words = encoder.tokens(inputs["src_tokens"])
        lengths = [length for count, length in inputs["runs"] for _ in range(count)]
        mixed = []
        for x, other in zip(words.split(lengths), sample["others"], strict=True):
            y = encoder.tokens(other)
            mixed.append(model.extras["clwr"](x, y) @ y)
        drop = encoder.cfg.attention_dropout if encoder.training else 0.0
        how = Attention(inputs["runs"], drop=drop)
        hidden = encoder.contextualise(torch.cat(mixed), inputs["positions"], how, inputs.get("langs"))
        total, rows = model.lm_head.loss(hidden[sample["chosen"]], sample["target"])
        return Loss(total, len(rows), rows, sample["target_langs"])
