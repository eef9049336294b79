"""Attention within each sequence of a packed batch, or from each sequence to its partner in another batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from xling.array_types import Bool, Float, Int, Int32
from xling.models.network import local_attention
from xling.models.network.blocks import BlockLayout, group_into_blocks, sequence_lengths
from xling.models.network.dropout import dropout
from xling.models.network.rope import Rotation

SequenceRuns = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Attention:
    """Which tokens attend to which, within each sequence of a packed batch.

    Attributes:
        runs: (number of sequences, length) in order; they cover the N tokens.
        causal: a token attends only to itself and earlier tokens.
        sees: (N,) int64 or None for all; token i attends to token j of its sequence when ``sees[i] ==
            shows[j]``, and always to itself.
        shows: (N,) int64 or None.
        drop: probability of dropping an attention weight; above 0 there is no fused kernel on a CPU.
        keys: the runs of the keys, in the same order, if they are other sequences than the queries; else
            None.
        window: number of tokens visible to either side, 0 for all; see `xling.models.network.local_attention`.
        turn: rotation angles of queries and keys, see `xling.models.network.rope`; the layer applies them, not
            `attend`.
        bias: (H, longest, longest), added to the scores by row and column position; shorter
            sequences use its first rows and columns.
    """

    runs: SequenceRuns
    causal: bool = False
    sees: Int[Tensor, " tokens"] | None = None
    shows: Int[Tensor, " tokens"] | None = None
    drop: float = 0.0
    keys: SequenceRuns | None = None
    bias: Float[Tensor, "heads longest longest"] | None = None
    window: int = 0
    turn: Rotation | None = None
    _made: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def longest(self) -> int:
        """Return the length of the longest sequence in tokens."""
        return max((length for _, length in self.runs), default=0)

    @cached_property
    def longest_key(self) -> int:
        """Return the number of keys of the longest sequence."""
        return max((length for _, length in self.keys or self.runs), default=0)

    def starts(self, device: torch.device) -> tuple[Int32[Tensor, " borders"], Int32[Tensor, " borders"]]:
        """Return the offsets of the sequences of queries and of keys, each int32 (sequences + 1,)."""
        if "starts" not in self._made:
            queries = sequence_offsets(self.runs, device)
            keys = queries if self.keys is None else sequence_offsets(self.keys, device)
            self._made["starts"] = queries, keys
        starts: tuple[Tensor, Tensor] = self._made["starts"]
        return starts

    def plan(self, device: torch.device) -> _BlockPlan:
        """Return the dense blocks for attention, on a CPU or with a mask."""
        if "plan" not in self._made:
            blocks = group_into_blocks(
                list(zip(sequence_lengths(self.runs), sequence_lengths(self.keys or self.runs), strict=True))
            )
            sides = ([[pair[side] for pair in block] for block in blocks] for side in (0, 1))
            rows, columns = (BlockLayout(lengths, device) for lengths in sides)
            self._made["plan"] = _BlockPlan(rows, columns, self._block_masks(rows, columns))
        plan: _BlockPlan = self._made["plan"]
        return plan

    def _block_masks(self, rows: BlockLayout, columns: BlockLayout) -> list[Tensor | None]:
        # Positions after a row are masked anyway, including padding.
        real_places = columns.is_real if not self.causal else [None] * len(columns.is_real)
        masks = [None if real is None else real[:, None, None] for real in real_places]
        if self.window:
            return self._window_masks(rows)
        if self.sees is None or self.shows is None:
            return masks
        block_masks: list[Tensor | None] = []
        for sees, shows, real in zip(
            rows.to_blocks(self.sees), columns.to_blocks(self.shows), masks, strict=True
        ):
            is_visible = sees[:, None, :, None] == shows[:, None, None]
            is_self = torch.eye(is_visible.shape[-1], dtype=torch.bool, device=is_visible.device)
            block_masks.append((is_visible if real is None else is_visible & real) | is_self)
        return block_masks

    def _window_masks(self, rows: BlockLayout) -> list[Tensor | None]:
        """Return the masks of blocks as `local_attention` divides them; short blocks are masked undivided."""
        assert self.bias is None and self.keys is None, (
            "windows support neither biases nor keys of other sequences"
        )
        mark_blocks = [None if x is None else rows.to_blocks(x) for x in (self.sees, self.shows)]
        masks: list[Tensor | None] = []
        for number, (count, length) in enumerate(rows.shapes):
            is_real = rows.is_real[number]
            is_real = (
                torch.ones(count, length, dtype=torch.bool, device=rows.device)
                if is_real is None
                else is_real
            )
            sees, shows = (None if side is None else side[number] for side in mark_blocks)
            masks.append(local_attention.window_mask(is_real, self.window, self.causal, sees, shows))
        return masks

    def with_bias(self, bias: Float[Tensor, "heads longest longest"]) -> Attention:
        """Return the same attention with another bias; both share what is made for a device."""
        copy = replace(self, bias=bias)
        object.__setattr__(copy, "_made", self._made)
        return copy

    def masked_bias(
        self, is_visible: Bool[Tensor, " ..."] | None, length: int
    ) -> Float[Tensor, " _ heads {length} {length}"]:
        """Return the bias where a block's rows see columns, else -inf, (1 or sequences, H, length, length)."""
        assert self.bias is not None
        bias = self.bias[None, :, :length, :length]
        if self.causal:
            is_past = torch.ones(length, length, dtype=torch.bool, device=bias.device).tril()
            is_visible = is_past if is_visible is None else is_visible & is_past
        return bias if is_visible is None else bias.masked_fill(~is_visible, -torch.inf)


class _BlockPlan(NamedTuple):
    """Queries and keys in dense blocks.

    ``masks`` are bool (sequences, 1, 1 or rows, columns), True where visible.
    """

    queries: BlockLayout
    keys: BlockLayout
    masks: list[Tensor | None]


def sequence_offsets(runs: SequenceRuns, device: torch.device) -> Int32[Tensor, " borders"]:
    """Return the offsets of packed sequences, int32 (sequences + 1,)."""
    lengths = np.repeat([length for _, length in runs], [count for count, _ in runs])
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return torch.from_numpy(ends).to(
        device, non_blocking=True
    )  # otherwise it would synchronise with the device


def _flash_attention(*arguments: Any, window: int = 0) -> Tensor:
    """Call torch's fused GPU kernel on packed sequences, (N, H, C); ``window`` tokens per side are visible, 0: all.

    It calls the operator directly, since `torch.nn.attention.varlen`, which wraps it, has no dropout.
    """
    window_arguments = {"window_size_left": window, "window_size_right": window} if window else {}
    attended: Tensor = torch.ops.aten._flash_attention_forward(*arguments, False, **window_arguments)[0]
    return attended


def attend(
    query: Float[Tensor, "tokens heads head_dim"],
    key: Float[Tensor, "keys heads head_dim"],
    value: Float[Tensor, "keys heads head_dim"],
    attention: Attention,
) -> Float[Tensor, " tokens heads*head_dim"]:
    """Compute attention of each sequence of a packed batch to itself, or to its partner in another batch.

    Args:
        query: (N, H, C), packed as ``how.runs`` says.
        key, value: the same, or (M, H, C), packed as ``how.keys`` says.
        attention: which tokens attend to which.

    Returns:
        (N, H * C).
    """
    if is_unpadded(query, attention):
        offsets = (*attention.starts(query.device), attention.longest, attention.longest_key)
        attended = _flash_attention(
            query, key, value, *offsets, attention.drop, attention.causal, window=attention.window
        )
        return attended.flatten(1)
    plan = attention.plan(query.device)
    if attention.window:
        return _attend_in_window(query, key, value, attention, plan)
    layouts = ((query, plan.queries), (key, plan.keys), (value, plan.keys))
    dense = [[block.transpose(1, 2) for block in layout.to_blocks(rows)] for rows, layout in layouts]
    masks, past_only = plan.masks, attention.causal
    if attention.bias is not None:  # not in the plan, since each recomputed layer needs its own
        shapes = zip(plan.masks, plan.queries.shapes, strict=True)
        masks, past_only = [attention.masked_bias(mask, length) for mask, (_, length) in shapes], False
    outputs = [
        attend_dense(q, k, v, mask, attention.drop, past_only)
        for q, k, v, mask in zip(*dense, masks, strict=True)
    ]
    return plan.queries.to_packed([block.transpose(1, 2) for block in outputs])


def _attend_in_window(
    query: Tensor, key: Tensor, value: Tensor, attention: Attention, plan: _BlockPlan
) -> Tensor:
    """Compute `attend` within a window; blocks longer than three windows are divided into pieces."""
    blocks = []
    spread = (plan.queries.to_blocks(rows) for rows in (query, key, value))
    for q, k, v, mask in zip(*spread, plan.masks, strict=True):
        count, length = q.shape[:2]
        if local_attention.saves_scores(length, attention.window):
            pieces = local_attention.divide_into_blocks(q, k, v, attention.window)
            attended = attend_dense(*pieces, mask=mask, drop=attention.drop).transpose(1, 2)
            blocks.append(attended.reshape(count, -1, *q.shape[2:])[:, :length])
        else:
            attended = attend_dense(
                q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), mask, attention.drop
            )
            blocks.append(attended.transpose(1, 2))
    return plan.queries.to_packed(blocks)


def attend_dense(
    q: Float[Tensor, "batch heads time head_dim"],
    k: Float[Tensor, "batch heads keys head_dim"],
    v: Float[Tensor, "batch heads keys head_dim"],
    mask: Bool[Tensor, " #batch #heads #time keys"]
    | Float[Tensor, " #batch #heads #time keys"]
    | None = None,
    drop: float = 0.0,
    causal: bool = False,
) -> Float[Tensor, "batch heads time head_dim"]:
    """Compute attention (B, H, T, C) of queries over keys and values (B, H, S, C) with the fastest kernel available.

    ``mask`` is bool (True where visible) or added to the scores.
    """
    by_products = q.device.type == "cpu" and (q.dtype == torch.bfloat16 or drop > 0)
    kernel = _attend_by_products if by_products else F.scaled_dot_product_attention
    return kernel(q, k, v, mask, drop, causal)


def is_unpadded(query: Any, attention: Attention) -> bool:
    """Return whether flash attention accepts the packed batch (N, H, C) directly, with all lengths at once.

    Its kernels run on a GPU in 16 bits, with heads of at most 256 in multiples of 8, without biases and
    without a mask other than the causal one. Everything else is computed block by block.
    """
    has_kernel = (
        query.dtype in (torch.bfloat16, torch.float16) and query.shape[-1] % 8 == 0 and query.shape[-1] <= 256
    )
    return bool(query.is_cuda and has_kernel and attention.sees is None and attention.bias is None)


def _attend_by_products(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, drop: float, causal: bool
) -> Tensor:
    """Compute attention as two matrix products, for a CPU in bfloat16 or with dropout.

    In bfloat16 torch's fused kernel took two to three times as long (forward and backward, lengths 64 to 256),
    since its inner loops do not reach the bfloat16 instructions. With dropout torch has no fused kernel there, and
    what it does instead took 1.4 times as long in float32.
    """
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    return dropout(torch.softmax(scores, -1), drop, drop > 0) @ v
