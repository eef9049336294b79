"""Attention within each sequence of a packed batch, or of each to its own sequence of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from xling.models import local
from xling.models.blocks import Layout, cut, lengths_of
from xling.models.dropout import dropout
from xling.models.rope import Rotation

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, Int32

Runs = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Attention:
    """Which tokens see which, within each sequence of a packed batch.

    Attributes:
        runs: (number of sequences, length) in order; they cover the N tokens.
        causal: a token sees itself and those before it.
        sees: (N,) int64 or None for all; token i sees token j of its sequence when ``sees[i] == shows[j]``, and
            always itself.
        shows: (N,) int64 or None.
        drop: probability of dropping an attention weight; above 0 there is no fused kernel on a CPU.
        keys: the runs of the keys, in the same order, where those are other sequences than the queries; None where
            they are the same.
        window: tokens seen to either side, 0 for all; see `xling.models.local`.
        turn: angles that turn queries and keys, see `xling.models.rope`; the layer applies them, not `attend`.
        bias: (H, longest, longest), what is added to the scores of a row and a column by their places; shorter
            sequences read its first rows and columns.
    """

    runs: Runs
    causal: bool = False
    sees: Int[Tensor, " tokens"] | None = None
    shows: Int[Tensor, " tokens"] | None = None
    drop: float = 0.0
    keys: Runs | None = None
    bias: Float[Tensor, "heads longest longest"] | None = None
    window: int = 0
    turn: Rotation | None = None
    _starts: Tensor | None = field(default=None, init=False, repr=False, compare=False)
    _plan: _Plan | None = field(default=None, init=False, repr=False, compare=False)

    @cached_property
    def longest(self) -> int:
        """Tokens of the longest sequence."""
        return max((length for _, length in self.runs), default=0)

    def starts(self, device: torch.device) -> Int32[Tensor, " borders"]:
        """Where sequences begin and the last one ends, int32 (sequences + 1,)."""
        if self._starts is None:
            lengths = np.repeat([length for _, length in self.runs], [count for count, _ in self.runs])
            ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
            object.__setattr__(self, "_starts", torch.from_numpy(ends).to(device))
        assert self._starts is not None
        return self._starts

    def plan(self, device: torch.device) -> _Plan:
        """The dense blocks that are attended in, on a CPU or with a mask."""
        if self._plan is None:
            blocks = cut(list(zip(lengths_of(self.runs), lengths_of(self.keys or self.runs), strict=True)))
            sides = ([[pair[side] for pair in block] for block in blocks] for side in (0, 1))
            rows, columns = (Layout(lengths, device) for lengths in sides)
            object.__setattr__(self, "_plan", _Plan(rows, columns, self._masks(rows, columns)))
        assert self._plan is not None
        return self._plan

    def _masks(self, rows: Layout, columns: Layout) -> list[Tensor | None]:
        # Of what is behind a row nothing is seen anyway, padding included.
        filled = columns.filled if not self.causal else [None] * len(columns.filled)
        masks = [None if real is None else real[:, None, None] for real in filled]
        if self.window:
            return self._windows(rows)
        if self.sees is None or self.shows is None:
            return masks
        made: list[Tensor | None] = []
        for sees, shows, real in zip(rows.spread(self.sees), columns.spread(self.shows), masks, strict=True):
            same = sees[:, None, :, None] == shows[:, None, None]
            itself = torch.eye(same.shape[-1], dtype=torch.bool, device=same.device)
            made.append((same if real is None else same & real) | itself)
        return made

    def _windows(self, rows: Layout) -> list[Tensor | None]:
        """Masks of blocks as `xling.models.local` cuts them; where all is near, of the block as it stands."""
        assert self.bias is None and self.keys is None, "windows have neither biases nor keys of others"
        marks = [None if x is None else rows.spread(x) for x in (self.sees, self.shows)]
        made: list[Tensor | None] = []
        for number, (count, length) in enumerate(rows.shapes):
            real = rows.filled[number]
            real = torch.ones(count, length, dtype=torch.bool, device=rows.device) if real is None else real
            sees, shows = (None if side is None else side[number] for side in marks)
            made.append(local.mask(real, self.window, self.causal, sees, shows))
        return made

    def biased(
        self, seen: Bool[Tensor, " ..."] | None, length: int
    ) -> Float[Tensor, " _ heads {length} {length}"]:
        """The bias where a block's rows see columns and -inf elsewhere, (1 or sequences, H, length, length)."""
        assert self.bias is not None
        bias = self.bias[None, :, :length, :length]
        if self.causal:
            past = torch.ones(length, length, dtype=torch.bool, device=bias.device).tril()
            seen = past if seen is None else seen & past
        return bias if seen is None else bias.masked_fill(~seen, -torch.inf)


class _Plan(NamedTuple):
    """Queries and keys in dense blocks; ``masks`` of each, bool (sequences, 1, 1 or rows, columns), True where seen."""

    queries: Layout
    keys: Layout
    masks: list[Tensor | None]


def varlen_attn(*args: Any, **settings: Any) -> Any:
    """Torch's fused kernel for a GPU; imported when it is called, since it imports the compiler: 2 s."""
    from torch.nn.attention import varlen

    return varlen.varlen_attn(*args, **settings)


def attend(
    query: Float[Tensor, "tokens heads head_dim"],
    key: Float[Tensor, "keys heads head_dim"],
    value: Float[Tensor, "keys heads head_dim"],
    how: Attention,
) -> Float[Tensor, " tokens heads*head_dim"]:
    """Attention of each sequence of a packed batch to itself, or to its own of another batch.

    Args:
        query: (N, H, C), packed as ``how.runs`` says.
        key, value: the same, or (M, H, C), packed as ``how.keys`` says.
        how: who sees whom.

    Returns:
        (N, H * C).
    """
    if is_unpadded(query, how):
        far = how.window or -1
        causal = (far, 0) if how.causal else (far, far)
        starts, longest = how.starts(query.device), how.longest
        attended = varlen_attn(query, key, value, starts, starts, longest, longest, window_size=causal)
        assert isinstance(attended, Tensor)
        return attended.flatten(1)
    plan = how.plan(query.device)
    if how.window:
        return _attend_near(query, key, value, how, plan)
    layouts = ((query, plan.queries), (key, plan.keys), (value, plan.keys))
    dense = [[block.transpose(1, 2) for block in layout.spread(rows)] for rows, layout in layouts]
    masks, past_only = plan.masks, how.causal
    if how.bias is not None:  # not in the plan, since each layer that is computed again needs its own
        shapes = zip(plan.masks, plan.queries.shapes, strict=True)
        masks, past_only = [how.biased(mask, length) for mask, (_, length) in shapes], False
    found = [
        attend_dense(q, k, v, mask, how.drop, past_only) for q, k, v, mask in zip(*dense, masks, strict=True)
    ]
    return plan.queries.packed([block.transpose(1, 2) for block in found])


def _attend_near(query: Tensor, key: Tensor, value: Tensor, how: Attention, plan: _Plan) -> Tensor:
    """`attend` within a window: every block that is longer than three windows in pieces."""
    found = []
    spread = (plan.queries.spread(rows) for rows in (query, key, value))
    for q, k, v, mask in zip(*spread, plan.masks, strict=True):
        count, length = q.shape[:2]
        if local.pays(length, how.window):
            pieces = local.in_blocks(q, k, v, how.window)
            made = attend_dense(*pieces, mask=mask, drop=how.drop).transpose(1, 2)
            found.append(made.reshape(count, -1, *q.shape[2:])[:, :length])
        else:
            made = attend_dense(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), mask, how.drop)
            found.append(made.transpose(1, 2))
    return plan.queries.packed(found)


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
    """Attention (B, H, T, C) of queries over keys and values (B, H, S, C) by the kernel that is fast here.

    ``mask`` says what is seen (bool) or is added to the scores.
    """
    on_cpu_in_bf16 = q.dtype == torch.bfloat16 and q.device.type == "cpu"
    kernel = _products if on_cpu_in_bf16 else F.scaled_dot_product_attention
    return kernel(q, k, v, mask, drop, causal)


def is_unpadded(query: Any, how: Attention) -> bool:
    """Whether flash attention takes the packed batch (N, H, C) as it is, all lengths at once.

    Its kernels run on a GPU in 16 bits, with heads of at most 256 in multiples of 8, without a mask other than the
    causal one, without biases and without dropout. Everything else goes block by block.
    """
    fits = (
        query.dtype in (torch.bfloat16, torch.float16) and query.shape[-1] % 8 == 0 and query.shape[-1] <= 256
    )
    alone = how.sees is None and how.bias is None and how.keys is None
    return bool(query.is_cuda and fits and alone and how.drop == 0)


def _products(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, drop: float, causal: bool) -> Tensor:
    """Attention as two matrix products, as a CPU does it in bfloat16.

    Torch's fused kernel took two to three times as long there (forward and backward, lengths 64 to 256), since its
    inner loops do not reach the bfloat16 instructions.
    """
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    return dropout(torch.softmax(scores, -1), drop, drop > 0) @ v
