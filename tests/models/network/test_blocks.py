"""Packed sequences as dense blocks: what is put in comes out, and attention does not tell the difference."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from xling.models.network import attention
from xling.models.network.attention import Attention, attend
from xling.models.network.blocks import MAX_WASTED_SCORES, BlockLayout, group_into_blocks

CPU = torch.device("cpu")
lengths = st.lists(st.integers(1, 9), min_size=1, max_size=12)


@given(st.lists(st.tuples(st.integers(1, 90), st.integers(1, 90)), min_size=1, max_size=20))
def test_blocks_are_the_sequences_in_order_with_little_padding(pairs: list[tuple[int, int]]) -> None:
    blocks = group_into_blocks(pairs)
    assert [pair for block in blocks for pair in block] == pairs
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):

        def padding(of: list[tuple[int, int]]) -> int:
            return len(of) * max(q for q, _ in of) * max(k for _, k in of) - sum(q * k for q, k in of)

        assert padding(block) <= MAX_WASTED_SCORES
        assert after is None or padding([*block, after[0]]) > MAX_WASTED_SCORES, (
            "the next one would have fitted"
        )


@given(st.lists(lengths, min_size=1, max_size=4))
def test_rows_come_back_with_their_gradients(blocks: list[list[int]]) -> None:
    layout = BlockLayout(blocks, CPU)
    num = sum(map(sum, blocks))
    rows = torch.randn(num, 2, 3, dtype=torch.float64, requires_grad=True)
    spread = layout.to_blocks(rows)
    assert [block.shape[:2] for block in spread] == [(len(block), max(block)) for block in blocks]
    sequences = iter(rows.split([length for block in blocks for length in block]))
    for made, block in zip(spread, blocks, strict=True):
        for row, length in zip(made, block, strict=True):
            assert torch.equal(row[:length], next(sequences))
    factors = [torch.randn_like(block, requires_grad=True) for block in spread]
    back = layout.to_packed([block * factor for block, factor in zip(spread, factors, strict=True)])
    wanted = torch.randn_like(back)
    found = torch.autograd.grad(back, [rows, *factors], wanted)
    packed = layout.to_packed([factor.detach() for factor in factors])
    assert torch.equal(found[0].flatten(1), wanted * packed)
    for grad, filled in zip(found[1:], layout.is_real, strict=True):
        assert filled is None or not grad[~filled].any(), "padding learns"


def test_rows_that_are_not_those_of_the_sequences_are_refused() -> None:
    with pytest.raises(AssertionError, match="runs cover 3 of 4 tokens"):
        BlockLayout([[2, 1]], CPU).to_blocks(torch.zeros(4, 2))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("kind", ["self", "causal", "masked", "cross"])
def test_attention_in_one_block_is_that_of_each_sequence(
    kind: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries, keys = [5, 2, 7, 1], [3, 6, 1, 4] if kind == "cross" else [5, 2, 7, 1]
    torch.manual_seed(1)
    query, key, value = (
        torch.randn(sum(of), 2, 8, dtype=dtype, requires_grad=True) for of in (queries, keys, keys)
    )
    given_ = {
        "self": {},
        "causal": {"causal": True},
        "cross": {"keys": [(1, length) for length in keys]},
        "masked": {"sees": torch.arange(15) % 2, "shows": torch.arange(15) % 3},
    }[kind]
    found = []
    for spare in (MAX_WASTED_SCORES, -1):  # all in one block; each in its own
        monkeypatch.setattr(
            attention, "group_into_blocks", lambda pairs, spare=spare: group_into_blocks(pairs, spare)
        )
        how = Attention([(1, length) for length in queries], **given_)
        assert len(how.plan(CPU).masks) == (1 if spare == MAX_WASTED_SCORES else len(queries))
        made = attend(query, key, value, how)
        grads = torch.autograd.grad(
            made, [query, key, value], torch.linspace(-1, 1, made.numel()).view_as(made).to(dtype)
        )
        found.append([made.detach(), *grads])
    for together, alone in zip(*found, strict=True):
        assert torch.isfinite(together).all()
        torch.testing.assert_close(together, alone)
