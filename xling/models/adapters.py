"""Adapters (MAD-X): small trained modules in a model that stays as it is.

A language adapter and a task adapter in every layer, one on top of the other, and an invertible adapter on the word
vectors. A language adapter is learned by masked LM on one language, a task adapter on labelled text of another language
on top of that one's adapter; then the language adapters are swapped. All start as the identity: a model with new
adapters computes what it did without them.

Source: Pfeiffer et al. 2020 (MAD-X), sections 3.1 to 3.3. Left open there and taken from their code: the adapter reads
the normalised sum of the layer, and what it adds goes through that layer norm again; a task adapter adds to what the
language adapter has added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

if TYPE_CHECKING:
    from jaxtyping import Float

LANG, TASK = "lang", "task"
"""Names of the adapters of a layer, from below."""


class Adapter(nn.Module):
    """A bottleneck, ``U relu(D h)``: MAD-X, equation 1, without its residual, which the layer adds.

    Args:
        dim: numbers in and out.
        width: of the bottleneck.
    """

    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(dim, width), nn.Linear(width, dim)
        nn.init.normal_(self.down.weight, std=0.02)
        for start in (self.down.bias, self.up.weight, self.up.bias):
            nn.init.zeros_(start)

    def forward(self, hidden: Float[Tensor, "tokens dim"]) -> Float[Tensor, "tokens dim"]:
        """(N, D) -> (N, D); zeros while the adapter is untrained."""
        out: Tensor = self.up(F.relu(self.down(hidden)))
        return out


class Invertible(nn.Module):
    """Half of the numbers changed by the other half and the reverse (NICE): MAD-X, equations 4 to 7.

    Args:
        dim: numbers in and out, even.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        assert dim % 2 == 0, f"dim {dim} is odd"
        self.first, self.second = (Adapter(dim // 2, max(1, dim // 4)) for _ in range(2))

    def forward(self, x: Float[Tensor, "tokens dim"]) -> Float[Tensor, "tokens dim"]:
        """(N, D) -> (N, D)."""
        left, right = x.chunk(2, -1)
        left = left + self.first(right)
        return torch.cat([left, right + self.second(left)], -1)

    def inverse(self, y: Float[Tensor, "tokens dim"]) -> Float[Tensor, "tokens dim"]:
        """What `forward` made ``y`` (N, D) from, up to rounding."""
        left, right = y.chunk(2, -1)
        right = right - self.second(left)
        return torch.cat([left - self.first(right), right], -1)


def add(encoder: Any, name: str, width: int) -> None:
    """Put an adapter of ``width`` into every layer of an encoder; 0 adds none."""
    if width:
        for layer in encoder.layers:
            layer.adapters[name] = Adapter(encoder.cfg.dim, width)


def is_adapter(name: str) -> bool:
    """Whether a parameter, by its name in a model or an encoder, is an adapter's."""
    return ".adapters." in name or "invertible." in name


def move(source: Any, target: Any) -> None:
    """Give the encoder ``target`` the language adapters, invertible ones included, of the encoder ``source``."""
    for theirs, ours in zip(source.layers, target.layers, strict=True):
        ours.adapters[LANG] = theirs.adapters[LANG]
    target.invertible = source.invertible
