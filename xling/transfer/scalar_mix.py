"""Learned mix of the layers of an encoder (ELMo, Peters et al. 2018, equation 1).

With the encoder frozen it is the feature extraction of Peters et al. 2019. The paper adds a penalty of the weights that
is small or zero in its own runs; there is none here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from jaxtyping import Float


class ScalarMix(nn.Module):
    """``gamma * sum_j softmax(weights)_j * states_j`` over the word vectors and all layers; the plain mean at first.

    Args:
        num: number of states that are mixed, one more than there are layers.
    """

    def __init__(self, num: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(num))
        self.gamma = nn.Parameter(torch.ones(()))

    def forward(self, states: Sequence[Float[Tensor, "tokens dim"]]) -> Float[Tensor, "tokens dim"]:
        """Mix ``num`` states (N, D) to (N, D)."""
        shares = torch.softmax(self.weights.float(), 0).to(self.weights.dtype)
        mixed = sum(share * state for share, state in zip(shares, states, strict=True))
        out: Tensor = self.gamma * mixed
        return out
