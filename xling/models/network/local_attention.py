"""Local attention: a token sees those at most a window away.

The cost grows with the window, not with the length squared.

Queries are divided into blocks of the window's width; each block sees its own keys and those of its two
neighbours. So the scores of a sequence of T tokens are 3 T x window numbers, never T x T. Source: Beltagy et
al. 2020, section 3 (sliding windows in chunks); Warner et al. 2024 (every third layer global).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from xling.array_types import Bool, Float, Int, Shaped


def saves_scores(length: int, window: int) -> bool:
    """Return whether blocks need fewer scores than the whole square."""
    return length > 3 * window


def split_into_blocks(
    x: Shaped[Tensor, "batch time *row"], window: int
) -> Shaped[Tensor, "batch blocks {window} *row"]:
    """Divide (B, T, ...) into (B, T / window rounded up, window, ...); the last block is padded with zeros."""
    num_padding = -x.shape[1] % window
    x = F.pad(x, (0, 0) * (x.dim() - 2) + (0, num_padding)) if num_padding else x
    return x.unflatten(1, (-1, window))


def with_neighbours(
    x: Shaped[Tensor, "batch blocks window *row"],
) -> Shaped[Tensor, "batch blocks keys *row"]:
    """Return each block with its predecessor and successor, zeros at the ends: (B, blocks, 3 x window, ...)."""
    zero_block = torch.zeros_like(x[:, :1])
    padded = torch.cat([zero_block, x, zero_block], 1)
    return torch.cat([padded[:, :-2], x, padded[:, 2:]], 2)


def window_mask(
    is_real: Bool[Tensor, "batch time"],
    window: int,
    causal: bool = False,
    sees: Int[Tensor, "batch time"] | None = None,
    shows: Int[Tensor, "batch time"] | None = None,
) -> Bool[Tensor, "rows 1 queries keys"]:
    """Return which keys each query sees.

    Args:
        is_real: (B, T), True where a token is not padding.
        window: tokens visible to either side.
        causal, sees, shows: as in `xling.models.network.attention.Attention`, (B, T).

    Returns:
        (B * blocks, 1, window, 3 * window) if blocks pay, else (B, 1, T, T); a padding query sees itself.
    """
    width, num_before = (window, window) if saves_scores(is_real.shape[1], window) else (is_real.shape[1], 0)
    query = torch.arange(width, device=is_real.device)[:, None]
    offset = torch.arange(-num_before, width + num_before, device=is_real.device)[None] - query
    is_near = (offset.abs() <= window) & ((offset <= 0) | (not causal))
    rows = split_into_blocks(is_real, width)
    is_visible = is_near & (with_neighbours(rows) if num_before else rows)[:, :, None]
    if sees is not None and shows is not None:
        key_marks = split_into_blocks(shows, width)
        is_visible &= (
            split_into_blocks(sees, width)[..., None]
            == (with_neighbours(key_marks) if num_before else key_marks)[:, :, None]
        )
    return (is_visible | (offset == 0)).flatten(0, 1)[:, None]


def divide_into_blocks(
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
    query_blocks = split_into_blocks(q, window)
    key_value_blocks = (with_neighbours(split_into_blocks(x, window)) for x in (k, v))
    query, key, value = (x.flatten(0, 1).transpose(1, 2) for x in (query_blocks, *key_value_blocks))
    return query, key, value
