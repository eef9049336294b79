"""Rotary positions.

Queries and keys are rotated by angles proportional to their position, so scores depend on distances.

Source: Su et al. 2021, section 3.4.2; the halves of a head are paired as in ModernBERT and GPT-NeoX.
"""

from __future__ import annotations

import torch
from torch import Tensor

from xling.array_types import Float, Int

Rotation = tuple[Tensor, Tensor]
"""Cosines and sines of a batch, each float (N, 1, 1, C / 2)."""


def rotation_angles(
    positions: Int[Tensor, " tokens"], width: int, theta: float, dtype: torch.dtype = torch.float32
) -> tuple[Float[Tensor, "tokens 1 1 half"], Float[Tensor, "tokens 1 1 half"]]:
    """Return cosines and sines of the rotation angles of tokens.

    Args:
        positions: (N,) int64, from 0 in each sequence.
        width: C, size of a head, even.
        theta: the base: pair i rotates by ``position * theta ** (-2 i / C)``.
        dtype: dtype of the angles; float64 in gradient checks, float32 otherwise.

    Returns:
        Two tensors (N, 1, 1, C / 2).
    """
    dimensions = torch.arange(0, width, 2, dtype=dtype, device=positions.device)
    angles = positions.to(dtype)[:, None] * (1.0 / theta ** (dimensions / width))
    return angles.cos()[:, None, None], angles.sin()[:, None, None]


def rotate(
    x: Float[Tensor, "tokens kinds heads head_dim"], rotation: Rotation
) -> Float[Tensor, "tokens kinds heads head_dim"]:
    """Rotate rows (N, K, H, C) by the angles of their tokens, computed in the angles' dtype, returned in x's."""
    cos, sin = rotation
    first, second = x.to(cos.dtype).chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1).to(x.dtype)


def angle_dtype(x: Float[Tensor, " ..."]) -> torch.dtype:
    """Return the dtype in which angles for ``x`` are computed: float64 for float64, else float32."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32
