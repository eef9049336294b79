"""Local attention: a token sees those at most a window away.

The cost grows with the window, not with the length squared.

Queries are divided into blocks of the window's width; each block sees its own keys and those of its two
neighbours. So the scores of a sequence of T tokens are 3 T x window numbers, never T x T. Source: Beltagy et
al. 2020, section 3 (sliding windows in chunks); Warner et al. 2024 (every third layer global).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, Shaped


def pays(length: int, window: int) -> bool:
    """Return whether blocks need fewer scores than the whole square."""
    return length > 3 * window


def blocks(x: Shaped[Tensor, "batch time *row"], window: int) -> Shaped[Tensor, "batch blocks {window} *row"]:
    """Divide (B, T, ...) into (B, T / window rounded up, window, ...); the last block is padded with zeros."""
    missing = -x.shape[1] % window
    x = F.pad(x, (0, 0) * (x.dim() - 2) + (0, missing)) if missing else x
    return x.unflatten(1, (-1, window))


def neighbours(x: Shaped[Tensor, "batch blocks window *row"]) -> Shaped[Tensor, "batch blocks keys *row"]:
    """Return each block with its predecessor and successor, zeros at the ends: (B, blocks, 3 x window, ...)."""
    none = torch.zeros_like(x[:, :1])
    padded = torch.cat([none, x, none], 1)
    return torch.cat([padded[:, :-2], x, padded[:, 2:]], 2)


def mask(
    filled: Bool[Tensor, "batch time"],
    window: int,
    causal: bool = False,
    sees: Int[Tensor, "batch time"] | None = None,
    shows: Int[Tensor, "batch time"] | None = None,
) -> Bool[Tensor, "rows 1 queries keys"]:
    """Return which keys each query sees.

    Args:
        filled: (B, T), True where a token is not padding.
        window: tokens visible to either side.
        causal, sees, shows: as in `xling.models.network.attention.Attention`, (B, T).

    Returns:
        (B * blocks, 1, window, 3 * window) if blocks pay, else (B, 1, T, T); a padding query sees itself.
    """
    width, before = (window, window) if pays(filled.shape[1], window) else (filled.shape[1], 0)
    query = torch.arange(width, device=filled.device)[:, None]
    offset = torch.arange(-before, width + before, device=filled.device)[None] - query
    near = (offset.abs() <= window) & ((offset <= 0) | (not causal))
    rows = blocks(filled, width)
    seen = near & (neighbours(rows) if before else rows)[:, :, None]
    if sees is not None and shows is not None:
        shown = blocks(shows, width)
        seen &= blocks(sees, width)[..., None] == (neighbours(shown) if before else shown)[:, :, None]
    return (seen | (offset == 0)).flatten(0, 1)[:, None]


def in_blocks(
    q: Float[Tensor, "batch time heads head_dim"],
    k: Float[Tensor, "batch time heads head_dim"],
    v: Float[Tensor, "batch time heads head_dim"],
    window: int,
) -> tuple[
    Float[Tensor, "rows heads {window} head_dim"],
    Float[Tensor, "rows heads keys head_dim"],
    Float[Tensor, "rows heads keys head_dim"],
]:
    """Divide queries, keys and values (B, T, H, C) into blocks: (B * blocks, H, window or 3 x window, C)."""
    rows = blocks(q, window)
    columns = (neighbours(blocks(x, window)) for x in (k, v))
    query, key, value = (x.flatten(0, 1).transpose(1, 2) for x in (rows, *columns))
    return query, key, value
