"""Conversion of packed sequences to a few dense blocks, since attention is slow on many small ones.

Sequences of equal lengths form a block without padding. Others are padded to the longest of their block: a
separate block costs about as much as `MAX_WASTED_SCORES` wasted scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from xling.array_types import Int, Shaped

MAX_WASTED_SCORES = 64 * 64


def group_into_blocks(
    lengths: Sequence[tuple[int, int]], max_wasted: int = MAX_WASTED_SCORES
) -> list[list[tuple[int, int]]]:
    """Group neighbouring sequences, given as (queries, keys) lengths, into blocks.

    Example:
        >>> cut([(5, 4), (5, 4), (3, 3), (1, 1)], spare=20)
        [[(5, 4), (5, 4), (3, 3)], [(1, 1)]]
    """
    blocks: list[list[tuple[int, int]]] = []
    num_real, longest = 0, (0, 0)
    for query, key in lengths:
        new_longest = max(longest[0], query), max(longest[1], key)
        if (
            blocks
            and (len(blocks[-1]) + 1) * new_longest[0] * new_longest[1] - num_real - query * key <= max_wasted
        ):
            blocks[-1].append((query, key))
            num_real, longest = num_real + query * key, new_longest
        else:
            blocks.append([(query, key)])
            num_real, longest = query * key, (query, key)
    return blocks


class BlockLayout:
    """Mapping between packed rows (N, ...) of sequences and dense blocks.

    Args:
        blocks: lengths of the sequences of each block, in order.
        device: device of the rows.

    Attributes:
        device: device of the rows.
        shapes: (sequences, longest) of each block.
        is_real: for each block the places without padding, bool (sequences, longest), or None if there is no
            padding.
    """

    def __init__(self, blocks: Sequence[Sequence[int]], device: torch.device) -> None:
        self.device = device
        self.shapes = [(len(block), max(block)) for block in blocks]
        self.is_real: list[Tensor | None] = [None] * len(blocks)
        self._num_rows = sum(map(sum, blocks))
        self._row_maps: tuple[Tensor, Tensor, Tensor] | None = None
        if all(min(block) == longest for block, (_, longest) in zip(blocks, self.shapes, strict=True)):
            return
        masks = []
        for number, (block, (_, longest)) in enumerate(zip(blocks, self.shapes, strict=True)):
            masks.append(torch.arange(longest) < torch.tensor(block)[:, None])
            if not masks[-1].all():
                self.is_real[number] = masks[-1].to(
                    device, non_blocking=True
                )  # else a GPU would be waited for
        flat_mask = torch.cat([filled.flatten() for filled in masks])
        places, empty_places = flat_mask.nonzero().flatten(), (~flat_mask).nonzero().flatten()
        rows = flat_mask.cumsum(0) - 1  # padding repeats the preceding row
        rows, places, empty_places = (
            side.to(device, non_blocking=True) for side in (rows, places, empty_places)
        )
        self._row_maps = rows, places, empty_places

    def to_blocks(self, packed: Shaped[Tensor, " tokens *row"]) -> tuple[Shaped[Tensor, " _ _ *row"], ...]:
        """Convert (N, ...) to one (sequences, longest, ...) per block; padding repeats the sequence's last row."""
        assert len(packed) == self._num_rows, f"runs cover {self._num_rows} of {len(packed)} tokens"
        if self._row_maps is not None:
            rows, places, _ = self._row_maps
            packed = _MoveRows.apply(packed, rows, places, None)  # type: ignore[no-untyped-call]
        parts = packed.split([count * longest for count, longest in self.shapes])
        return tuple(part.unflatten(0, shape) for part, shape in zip(parts, self.shapes, strict=True))

    def to_packed(self, blocks: Sequence[Shaped[Tensor, " _ _ *row"]]) -> Shaped[Tensor, "tokens size"]:
        """Concatenate the blocks of `to_blocks` back to flat packed rows, (N, size of a row)."""
        rows = [block.reshape(block.shape[0] * block.shape[1], -1) for block in blocks]
        stacked = rows[0] if len(rows) == 1 else torch.cat(rows)
        if self._row_maps is None:
            return stacked
        row_of_place, places, empty = self._row_maps
        packed_rows: Tensor = _MoveRows.apply(stacked, places, row_of_place, empty)  # type: ignore[no-untyped-call]
        return packed_rows


class _MoveRows(torch.autograd.Function):
    """Move rows from one layout to another; the gradient is moved back, much faster than by accumulation."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Shaped[Tensor, " before *row"],
        rows: Int[Tensor, " after"],
        inverse_rows: Int[Tensor, " before"],
        empty_rows: Int[Tensor, " _"] | None,
    ) -> Shaped[Tensor, " after *row"]:
        """Return the chosen rows of x; the backward pass adds each gradient to its row.

        ``inverse_rows`` are the rows of the result that x consists of, except rows ``empty_rows`` of x.
        """
        ctx.save_for_backward(inverse_rows, empty_rows)
        return x.index_select(0, rows)

    @staticmethod
    def backward(  # type: ignore[override]
        ctx: Any, grad: Shaped[Tensor, " after *row"]
    ) -> tuple[Shaped[Tensor, " before *row"], None, None, None]:
        inverse_rows, empty_rows = ctx.saved_tensors
        moved_grad = grad.index_select(0, inverse_rows)
        return (
            moved_grad if empty_rows is None else moved_grad.index_fill_(0, empty_rows, 0),
            None,
            None,
            None,
        )


def sequence_lengths(runs: Sequence[tuple[int, int]]) -> list[int]:
    """Return the length of each sequence, from (sequences, length) in order."""
    return [length for count, length in runs for _ in range(count)]
