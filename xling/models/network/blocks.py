"""Conversion of packed sequences to a few dense blocks, since attention is slow on many small ones.

Sequences of equal lengths form a block without padding. Others are padded to the longest of their block: a
separate block costs about as much as `SPARE` wasted scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Int, Shaped

SPARE = 64 * 64


def cut(lengths: Sequence[tuple[int, int]], spare: int = SPARE) -> list[list[tuple[int, int]]]:
    """Group neighbouring sequences, given as (queries, keys) lengths, into blocks.

    Example:
        >>> cut([(5, 4), (5, 4), (3, 3), (1, 1)], spare=20)
        [[(5, 4), (5, 4), (3, 3)], [(1, 1)]]
    """
    blocks: list[list[tuple[int, int]]] = []
    real, longest = 0, (0, 0)
    for query, key in lengths:
        with_it = max(longest[0], query), max(longest[1], key)
        if blocks and (len(blocks[-1]) + 1) * with_it[0] * with_it[1] - real - query * key <= spare:
            blocks[-1].append((query, key))
            real, longest = real + query * key, with_it
        else:
            blocks.append([(query, key)])
            real, longest = query * key, (query, key)
    return blocks


class Layout:
    """Mapping between packed rows (N, ...) of sequences and dense blocks.

    Args:
        blocks: lengths of the sequences of each block, in order.
        device: device of the rows.

    Attributes:
        device: device of the rows.
        shapes: (sequences, longest) of each block.
        filled: for each block the places without padding, bool (sequences, longest), or None if there is no
            padding.
    """

    def __init__(self, blocks: Sequence[Sequence[int]], device: torch.device) -> None:
        self.device = device
        self.shapes = [(len(block), max(block)) for block in blocks]
        self.filled: list[Tensor | None] = [None] * len(blocks)
        self._num = sum(map(sum, blocks))
        self._rows: tuple[Tensor, Tensor, Tensor] | None = None
        if all(min(block) == longest for block, (_, longest) in zip(blocks, self.shapes, strict=True)):
            return
        each = []
        for number, (block, (_, longest)) in enumerate(zip(blocks, self.shapes, strict=True)):
            each.append(torch.arange(longest) < torch.tensor(block)[:, None])
            if not each[-1].all():
                self.filled[number] = each[-1].to(device, non_blocking=True)  # else a GPU would be waited for
        flat = torch.cat([filled.flatten() for filled in each])
        places, empty = flat.nonzero().flatten(), (~flat).nonzero().flatten()
        rows = flat.cumsum(0) - 1  # padding repeats the preceding row
        rows, places, empty = (side.to(device, non_blocking=True) for side in (rows, places, empty))
        self._rows = rows, places, empty

    def spread(self, packed: Shaped[Tensor, " tokens *row"]) -> tuple[Shaped[Tensor, " _ _ *row"], ...]:
        """Convert (N, ...) to one (sequences, longest, ...) per block; padding repeats the sequence's last row."""
        assert len(packed) == self._num, f"runs cover {self._num} of {len(packed)} tokens"
        if self._rows is not None:
            rows, places, _ = self._rows
            packed = _Moved.apply(packed, rows, places, None)  # type: ignore[no-untyped-call]
        parts = packed.split([count * longest for count, longest in self.shapes])
        return tuple(part.unflatten(0, shape) for part, shape in zip(parts, self.shapes, strict=True))

    def packed(self, blocks: Sequence[Shaped[Tensor, " _ _ *row"]]) -> Shaped[Tensor, "tokens size"]:
        """Concatenate the blocks of `spread` back to flat packed rows, (N, size of a row)."""
        rows = [block.reshape(block.shape[0] * block.shape[1], -1) for block in blocks]
        stacked = rows[0] if len(rows) == 1 else torch.cat(rows)
        if self._rows is None:
            return stacked
        rows_of, places, empty = self._rows
        packed_rows: Tensor = _Moved.apply(stacked, places, rows_of, empty)  # type: ignore[no-untyped-call]
        return packed_rows

    def one(self) -> One:
        """Return how a layout of a single block converts rows, for compiled code."""
        ((_, longest),) = self.shapes
        stay = torch.arange(self._num, device=self.device)
        rows, places = (stay, stay) if self._rows is None else self._rows[:2]
        return One(
            longest, rows.clone(), places.clone()
        )  # views, or one tensor twice, would be compiled again


class One(NamedTuple):
    """A `Layout` of one block, in tensors and numbers alone, as compiled code takes them.

    Attributes:
        longest: places of each sequence.
        rows, places: row of each place, and place of each row, int64.
    """

    longest: int
    rows: Int[Tensor, " places"]
    places: Int[Tensor, " tokens"]

    def spread(self, packed: Shaped[Tensor, " tokens *row"]) -> Shaped[Tensor, " _ _ *row"]:
        """Convert (N, ...) to (sequences, longest, ...)."""
        return packed.index_select(0, self.rows).unflatten(0, (-1, self.longest))

    def packed(self, block: Shaped[Tensor, " _ _ *row"]) -> Shaped[Tensor, "tokens size"]:
        """Convert (sequences, longest, ...) back to flat packed rows, (N, size of a row)."""
        return block.flatten(2).flatten(0, 1).index_select(0, self.places)


class _Moved(torch.autograd.Function):
    """Move rows from one layout to another; the gradient is moved back, much faster than by accumulation."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Shaped[Tensor, " before *row"],
        rows: Int[Tensor, " after"],
        back: Int[Tensor, " before"],
        empty: Int[Tensor, " _"] | None,
    ) -> Shaped[Tensor, " after *row"]:
        """Return the chosen rows of x; the backward pass adds each gradient to its row.

        ``back`` are the rows of the result that x consists of, except rows ``empty`` of x.
        """
        ctx.save_for_backward(back, empty)
        return x.index_select(0, rows)

    @staticmethod
    def backward(  # type: ignore[override]
        ctx: Any, grad: Shaped[Tensor, " after *row"]
    ) -> tuple[Shaped[Tensor, " before *row"], None, None, None]:
        back, empty = ctx.saved_tensors
        moved = grad.index_select(0, back)
        return moved if empty is None else moved.index_fill_(0, empty, 0), None, None, None


def lengths_of(runs: Sequence[tuple[int, int]]) -> list[int]:
    """Return the length of each sequence, from (sequences, length) in order."""
    return [length for count, length in runs for _ in range(count)]
