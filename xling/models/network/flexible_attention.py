"""Attention of packed sequences with relative biases on a GPU, by torch's FlexAttention, for compiled layers.

Flash attention adds no biases to the scores. FlexAttention does, and skips the blocks of 128 x 128 scores in which no
token sees another. It has no dropout. Torch trains it on a GPU only.

Source: Dong et al. 2024, "Flex Attention: A Programming Model for Generating Optimized Attention Kernels".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, Int32

BLOCK = 128
NARROWEST = 16
"""Smallest size of a head."""


class Tiles(NamedTuple):
    """Blocks of scores in which tokens see each other, by block of queries.

    Attributes:
        counts: (1, 1, blocks) int32, partly visible blocks of keys.
        indices: (1, 1, blocks, blocks) int32, their numbers; only the first ``counts`` of a row are read.
        full_counts: the same for blocks in which all tokens see all.
        full_indices: see ``indices``.
    """

    counts: Int32[Tensor, "1 1 blocks"]
    indices: Int32[Tensor, "1 1 blocks blocks"]
    full_counts: Int32[Tensor, "1 1 blocks"]
    full_indices: Int32[Tensor, "1 1 blocks blocks"]


class Documents(NamedTuple):
    """Which tokens attend to which, with biases, for compiled code.

    Attributes:
        numbers: (N,) int64, each token's sequence.
        places: (N,) int64, its position in the sequence.
        tiles: blocks to compute.
        bias: (H, longest, longest) float32, added to the scores by positions.
        sees: (N,) int64 or None, as in `xling.models.network.attention.Attention`.
        shows: the same.
    """

    numbers: Int[Tensor, " tokens"]
    places: Int[Tensor, " tokens"]
    tiles: Tiles
    bias: Float[Tensor, "heads longest longest"]
    sees: Int[Tensor, " tokens"] | None = None
    shows: Int[Tensor, " tokens"] | None = None


def fits(x: Any, width: int, drop: float) -> bool:
    """Return whether FlexAttention accepts states ``x`` (N, D) with heads of ``width`` and this dropout."""
    return bool(x.is_cuda and width >= NARROWEST and drop == 0)


def documents(
    starts: Int32[Tensor, " borders"], num_tokens: int, causal: bool, marked: bool
) -> tuple[Int[Tensor, " tokens"], Int[Tensor, " tokens"], Tiles]:
    """Return the sequences, positions and blocks of a packed batch.

    Args:
        starts: offsets of the sequences, (sequences + 1,).
        num_tokens: N, the last offset.
        causal: tokens see only what is before them.
        marked: ``sees`` and ``shows`` will hide tokens, so no block is fully visible.
    """
    tokens = torch.arange(num_tokens, device=starts.device)
    numbers = torch.searchsorted(starts, tokens, right=True) - 1
    places = tokens - starts[numbers].long()
    first, last = numbers[::BLOCK], numbers[(tokens[::BLOCK] + BLOCK - 1).clamp(max=num_tokens - 1)]
    seen = (first[:, None] <= last) & (first <= last[:, None])
    if causal:
        seen = seen.tril()
    alone = (first == last) & (tokens[::BLOCK] + BLOCK <= num_tokens)  # the last block may be shorter
    full = seen & alone[:, None] & alone & (not (causal or marked))
    return numbers, places, Tiles(*_listed(seen & ~full), *_listed(full))


def _listed(
    chosen: Bool[Tensor, "blocks blocks"],
) -> tuple[Int32[Tensor, "1 1 blocks"], Int32[Tensor, "1 1 blocks blocks"]]:
    """Return how many columns each row chooses, and the columns, the chosen ones first."""
    order = torch.argsort(chosen.int(), descending=True, stable=True)
    return chosen.sum(1, dtype=torch.int32)[None, None], order.int()[None, None]


def attend_flexibly(
    query: Float[Tensor, "tokens heads head_dim"],
    key: Float[Tensor, "tokens heads head_dim"],
    value: Float[Tensor, "tokens heads head_dim"],
    told: Documents,
    causal: bool,
) -> Float[Tensor, " tokens heads*head_dim"]:
    """Compute attention of each sequence to itself, (N, H, C) -> (N, H * C)."""
    numbers, places, tiles, bias, sees, shows = told

    def _score(score: Tensor, batch: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        return score + bias[head, places[row], places[column]]

    def _visible(batch: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        seen = numbers[row] == numbers[column]
        if causal:
            seen = seen & (row >= column)
        if sees is not None and shows is not None:
            seen = seen & ((sees[row] == shows[column]) | (row == column))
        return seen

    lengths = (query.shape[0], key.shape[0])
    blocks = BlockMask.from_kv_blocks(*tiles, BLOCK_SIZE=BLOCK, mask_mod=_visible, seq_lengths=lengths)
    # Contiguous: torch 2.13 generates wrong code for views on a CPU.
    q, k, v = (x.transpose(0, 1)[None].contiguous() for x in (query, key, value))
    attended = flex_attention(q, k, v, score_mod=_score, block_mask=blocks)
    assert isinstance(attended, Tensor)
    return attended[0].transpose(0, 1).flatten(1)
