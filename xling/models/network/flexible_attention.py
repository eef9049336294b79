"""Attention of packed sequences with relative biases on a GPU, by torch's FlexAttention, for compiled layers.

Flash attention adds no biases to the scores. FlexAttention does, and skips the blocks of 128 x 128 scores in which no
token sees another. It has no dropout. Torch trains it on a GPU only.

Source: Dong et al. 2024, "Flex Attention: A Programming Model for Generating Optimized Attention Kernels".
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from xling.array_types import Bool, Float, Int, Int32

BLOCK_SIZE = 128
MIN_HEAD_SIZE = 16
"""Smallest size of a head."""


class VisibleBlocks(NamedTuple):
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


class PackedDocuments(NamedTuple):
    """Which tokens attend to which, with biases, for compiled code.

    Attributes:
        sequence_ids: (N,) int64, each token's sequence.
        positions: (N,) int64, its position in the sequence.
        tiles: blocks to compute.
        bias: (H, longest, longest) float32, added to the scores by positions.
        sees: (N,) int64 or None, as in `xling.models.network.attention.Attention`.
        shows: the same.
    """

    sequence_ids: Int[Tensor, " tokens"]
    positions: Int[Tensor, " tokens"]
    tiles: VisibleBlocks
    bias: Float[Tensor, "heads longest longest"]
    sees: Int[Tensor, " tokens"] | None = None
    shows: Int[Tensor, " tokens"] | None = None


def is_supported(x: Any, width: int, drop: float) -> bool:
    """Return whether FlexAttention accepts states ``x`` (N, D) with heads of ``width`` and this dropout."""
    return bool(x.is_cuda and width >= MIN_HEAD_SIZE and drop == 0)


def describe_documents(
    starts: Int32[Tensor, " borders"], num_tokens: int, causal: bool, has_marks: bool
) -> tuple[Int[Tensor, " tokens"], Int[Tensor, " tokens"], VisibleBlocks]:
    """Return the sequences, positions and blocks of a packed batch.

    Args:
        starts: offsets of the sequences, (sequences + 1,).
        num_tokens: N, the last offset.
        causal: tokens see only what is before them.
        has_marks: ``sees`` and ``shows`` will hide tokens, so no block is fully visible.
    """
    tokens = torch.arange(num_tokens, device=starts.device)
    sequence_ids = torch.searchsorted(starts, tokens, right=True) - 1
    positions = tokens - starts[sequence_ids].long()
    first_ids = sequence_ids[::BLOCK_SIZE]
    last_ids = sequence_ids[(tokens[::BLOCK_SIZE] + BLOCK_SIZE - 1).clamp(max=num_tokens - 1)]
    is_visible = (first_ids[:, None] <= last_ids) & (first_ids <= last_ids[:, None])
    if causal:
        is_visible = is_visible.tril()
    is_one_sequence = (first_ids == last_ids) & (
        tokens[::BLOCK_SIZE] + BLOCK_SIZE <= num_tokens
    )  # the last block may be shorter
    is_full = is_visible & is_one_sequence[:, None] & is_one_sequence & (not (causal or has_marks))
    return (
        sequence_ids,
        positions,
        VisibleBlocks(*_chosen_first(is_visible & ~is_full), *_chosen_first(is_full)),
    )


def _chosen_first(
    chosen: Bool[Tensor, "blocks blocks"],
) -> tuple[Int32[Tensor, "1 1 blocks"], Int32[Tensor, "1 1 blocks blocks"]]:
    """Return how many columns each row chooses, and the columns, the chosen ones first."""
    order = torch.argsort(chosen.int(), descending=True, stable=True)
    return chosen.sum(1, dtype=torch.int32)[None, None], order.int()[None, None]


def attend_flex(
    query: Float[Tensor, "tokens heads head_dim"],
    key: Float[Tensor, "tokens heads head_dim"],
    value: Float[Tensor, "tokens heads head_dim"],
    documents: PackedDocuments,
    causal: bool,
) -> Float[Tensor, " tokens heads*head_dim"]:
    """Compute attention of each sequence to itself, (N, H, C) -> (N, H * C)."""
    sequence_ids, positions, visible_blocks, bias, sees, shows = documents

    def _score(score: Tensor, batch: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        return score + bias[head, positions[row], positions[column]]

    def _visible(batch: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        is_visible = sequence_ids[row] == sequence_ids[column]
        if causal:
            is_visible = is_visible & (row >= column)
        if sees is not None and shows is not None:
            is_visible = is_visible & ((sees[row] == shows[column]) | (row == column))
        return is_visible

    lengths = (query.shape[0], key.shape[0])
    blocks = BlockMask.from_kv_blocks(
        *visible_blocks, BLOCK_SIZE=BLOCK_SIZE, mask_mod=_visible, seq_lengths=lengths
    )
    # Contiguous: torch 2.13 generates wrong code for views on a CPU.
    q, k, v = (x.transpose(0, 1)[None].contiguous() for x in (query, key, value))
    attended = flex_attention(q, k, v, score_mod=_score, block_mask=blocks)
    assert isinstance(attended, Tensor)
    return attended[0].transpose(0, 1).flatten(1)
