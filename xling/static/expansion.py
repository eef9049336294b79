"""Words as waves, so that a sum over words tells more than their mean meaning.

The product of two sums of word vectors counts every pair of words by its cosine, and the many pairs with a small one
outweigh the few translations. Here a word is a row of waves of its vector, so that the product counts a pair by a
Gaussian of the angle, to which translations alone contribute. It stays one vector a text and plain cosine.

An exported encoder carries a copy of this file, so it imports nothing but torch.

Source: Rahimi and Recht 2007, Random features for large-scale kernel machines, section 3.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float32

WAVES_SEED = 2


def draw_waves(dim: int, out_dim: int, sharpness: float) -> Float32[Tensor, "dim_and_phase out_dim"]:
    """Return frequencies and, in the last row, phases of waves, float32 (dim + 1, out_dim); the same in every call."""
    generator = torch.Generator().manual_seed(WAVES_SEED)
    frequencies = torch.randn(dim, out_dim, generator=generator) * sharpness
    phases = torch.rand(1, out_dim, generator=generator) * 2 * math.pi
    return torch.cat([frequencies, phases])


def expand(
    vectors: Float32[Tensor, "words dim"], waves: Float32[Tensor, "dim_and_phase out_dim"]
) -> Float32[Tensor, "words out_dim"]:
    """Return the waves of words, float32 (num_words, out_dim); a vector keeps its length, its direction is expanded."""
    lengths = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
    angles = torch.addmm(waves[-1], F.normalize(vectors, dim=1, eps=1e-6), waves[:-1])
    return lengths * math.sqrt(2 / waves.shape[1]) * angles.cos()
