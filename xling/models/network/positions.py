"""Position vectors that are computed, and relative position biases."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from xling.array_types import Float, Int
from xling.models.network.attention import Attention

NUM_BUCKETS, MAX_DISTANCE = 32, 128  # number of buckets and largest distance of relative positions
NUM_UNUSED_ROWS = 2  # rows of fairseq's table of sines before that of the first position


class RelativeBiases(nn.Module):
    """Relative position biases (T5): a number per head and distance, added to the attention score.

    Half of the buckets (of each direction, if both are visible) hold one distance each. The others hold
    increasing ranges of distances up to `MAX_DISTANCE` and beyond.

    Args:
        heads: attention heads.
        causal: positions after the query are not visible.
        layers: number of layers with their own biases, 1 if all layers share them.

    Source: Raffel et al. 2020, section 2.1; ``_relative_position_bucket`` of their code.
    """

    def __init__(self, heads: int, causal: bool = False, layers: int = 1) -> None:
        super().__init__()
        self.causal, self.layers, self.table = causal, layers, nn.Embedding(NUM_BUCKETS, layers * heads)

    def bucket_of(self, offsets: Int[Tensor, " *shape"]) -> Int[Tensor, " *shape"]:
        """Return the buckets of offsets (key position minus query position), int64 of any shape."""
        num_per_direction = NUM_BUCKETS if self.causal else NUM_BUCKETS // 2
        num_exact = num_per_direction // 2
        distances = (-offsets if self.causal else offsets.abs()).clamp(min=0)
        log_buckets = (
            torch.log(distances.clamp(min=1).float() / num_exact)
            / math.log(MAX_DISTANCE / num_exact)
            * (num_per_direction - num_exact)
        )
        buckets = torch.where(
            distances < num_exact,
            distances,
            (num_exact + log_buckets.long()).clamp(max=num_per_direction - 1),
        )
        return buckets if self.causal else buckets + num_per_direction * (offsets > 0)

    def biases_at(self, offsets: Int[Tensor, " *shape"]) -> Float[Tensor, " *shape heads"]:
        """Return the biases of each head, layer after layer, at offsets of any shape, (..., H)."""
        biases: Tensor = self.table(self.bucket_of(offsets))
        return biases

    def forward(self, length: int, device: torch.device) -> Float[Tensor, "heads {length} {length}"]:
        """Return the biases of every query and key of a sequence, (H, length, length)."""
        offsets = torch.arange(1 - length, length, device=device)
        return self.biases_at(offsets).t().unfold(1, length, 1).flip(1)

    def by_layer(self, attention: Attention, num_layers: int, device: torch.device) -> list[Attention]:
        """Return the attention of each layer with its biases."""
        first, *others = self(attention.longest, device).chunk(self.layers)
        attentions = [replace(attention, bias=first)]
        attentions += [attentions[0].with_bias(bias) for bias in others]
        return attentions if self.layers > 1 else attentions * num_layers


class SinusoidalPositions(nn.Module):
    """Fixed position vectors: sines in the first half and cosines in the second.

    Source: fairseq, ``sinusoidal_positional_embedding.py``; its first position has the third row.
    """

    table: Float[Tensor, "positions dim"]

    def __init__(self, positions: int, dim: int) -> None:
        super().__init__()
        frequencies = torch.exp(torch.arange(dim // 2).float() * -(math.log(10_000) / max(1, dim // 2 - 1)))
        angles = torch.arange(NUM_UNUSED_ROWS, NUM_UNUSED_ROWS + positions).float()[:, None] * frequencies
        self.register_buffer("table", torch.cat([angles.sin(), angles.cos()], 1), persistent=False)

    def forward(self, positions: Int[Tensor, " tokens"]) -> Float[Tensor, "tokens dim"]:
        """Return the vectors (N, D) of positions (N,)."""
        return self.table[positions]
