"""Adapters (MAD-X): small trained modules in a frozen model.

Every layer has a language adapter and a task adapter on top of it, and the word vectors have an invertible
adapter. A language adapter is trained by masked LM on one language. A task adapter is trained on labelled
text of a language, on top of that language's adapter. Then the language adapters are swapped. All adapters
start as the identity: a model with new adapters computes the same as before.

Source: Pfeiffer et al. 2020 (MAD-X), sections 3.1 to 3.3. Details that the paper leaves open follow its code:
the adapter reads the normalised sum of the layer, and its output passes through that layer norm again. A task
adapter adds to the output of the language adapter.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xling.array_types import Float

LANG_ADAPTER, TASK_ADAPTER = "lang", "task"
"""Names of the adapters of a layer, in order of application."""


class Adapter(nn.Module):
    """A bottleneck, ``U relu(D h)``: MAD-X, equation 1, without its residual, which the layer adds."""

    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(dim, width), nn.Linear(width, dim)
        nn.init.normal_(self.down.weight, std=0.02)
        for start in (self.down.bias, self.up.weight, self.up.bias):
            nn.init.zeros_(start)

    def forward(self, hidden: Float[Tensor, "tokens dim"]) -> Float[Tensor, "tokens dim"]:
        """Map (N, D) -> (N, D); zeros while the adapter is untrained."""
        out: Tensor = self.up(F.relu(self.down(hidden)))
        return out


class InvertibleAdapter(nn.Module):
    """Invertible coupling of the two halves of a vector (NICE): MAD-X, equations 4 to 7.

    Args:
        dim: input and output size, even.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        assert dim % 2 == 0, f"dim {dim} is odd"
        self.first, self.second = (Adapter(dim // 2, max(1, dim // 4)) for _ in range(2))

    def forward(self, x: Float[Tensor, "tokens dim"]) -> Float[Tensor, "tokens dim"]:
        """Map (N, D) -> (N, D)."""
        first_half, second_half = x.chunk(2, -1)
        first_half = first_half + self.first(second_half)
        return torch.cat([first_half, second_half + self.second(first_half)], -1)

    def inverse(self, y: Float[Tensor, "tokens dim"]) -> Float[Tensor, "tokens dim"]:
        """Invert `forward`: return the input that gives ``y`` (N, D), up to rounding."""
        first_half, second_half = y.chunk(2, -1)
        second_half = second_half - self.second(first_half)
        return torch.cat([first_half - self.first(second_half), second_half], -1)


def add_adapter(encoder: Any, name: str, width: int) -> None:
    """Add an adapter of ``width`` to every layer of an encoder; 0 adds none."""
    if width:
        for layer in encoder.layers:
            layer.adapters[name] = Adapter(encoder.cfg.dim, width)


def is_adapter(name: str) -> bool:
    """Return whether a parameter, named as in a model or an encoder, belongs to an adapter."""
    return ".adapters." in name or "invertible." in name


def move_language_adapters(source: Any, target: Any) -> None:
    """Copy the language adapters, including invertible ones, from the encoder ``source`` to ``target``."""
    for source_layer, target_layer in zip(source.layers, target.layers, strict=True):
        target_layer.adapters[LANG_ADAPTER] = source_layer.adapters[LANG_ADAPTER]
    target.invertible = source.invertible
