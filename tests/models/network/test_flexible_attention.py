"""FlexAttention equals dense blocks. It trains on a GPU only, so here its operators run as torch traces them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.attention import flex_attention

from tests.models.network import test_encoder, test_seq2seq
from tests.models.network.test_encoder import batch_of, pair_of, same_gradients
from xling.models.network import attention, encoder, flexible_attention
from xling.models.network.attention import Attention, attend, attend_compiled

pytestmark = [
    # Torch's own: from its tracer, and of what is slow when it is not compiled.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),
    pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile"),
]
tracer = test_encoder.tracer
DEVICE = os.environ.get("XLING_DEVICE", "cpu")


@pytest.fixture(autouse=True)
def on_a_processor(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Choose it on a CPU too; torch refuses gradients there, though its untranslated operators have them."""
    calls: list[int] = []
    real = flexible_attention.describe_documents

    def counted(*given: Any) -> Any:
        calls.append(1)
        return real(*given)

    monkeypatch.setattr(attention, "is_supported", lambda *_: True)
    monkeypatch.setattr(attention, "describe_documents", counted)
    monkeypatch.setattr(flex_attention, "_validate_device", lambda *_: None)
    yield calls
    assert calls, "no attention took this way"


def attended(how: Attention, num_tokens: int) -> tuple[list[Tensor], list[Tensor]]:
    """Outputs and gradients of dense blocks, and of FlexAttention, which is compiled on a GPU."""
    torch.manual_seed(3)
    qkv = torch.randn(3, num_tokens, 2, 16, device=DEVICE, requires_grad=True)
    bias = torch.randn(2, how.longest, how.longest, device=DEVICE, requires_grad=True)
    how = how.with_bias(bias)
    weights = torch.randn(num_tokens, 32, device=DEVICE)
    told = how.for_compiled(qkv.new_empty(num_tokens, 32), 16)
    flexible_one = attend_compiled if DEVICE == "cpu" else encoder.compile_function(attend_compiled)
    made = []
    for out in (attend(*qkv, how), flexible_one(*qkv, told, (0.0, how.causal, 0))):
        made.append([out, *torch.autograd.grad((out * weights).sum(), (qkv, bias))])
    return made[0], made[1]


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", [[5], [300, 200, 7, 7, 1], [128, 256, 128], [130] * 3 + [2] * 40])
def test_flexible_attention_equals_dense_blocks(lengths: list[int], causal: bool, marked: bool) -> None:
    num_tokens = sum(lengths)
    how = Attention([(1, n) for n in lengths], causal=causal)
    if marked:
        marks = torch.arange(num_tokens, device=DEVICE) % 3
        how = dataclasses.replace(how, sees=marks, shows=marks.roll(1))
    for wanted, made in zip(*attended(how, num_tokens), strict=True):
        torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-4)


@given(
    lengths=st.lists(st.integers(1, 300), min_size=1, max_size=12), causal=st.booleans(), marked=st.booleans()
)
def test_blocks_leave_out_no_pair_of_tokens(
    on_a_processor: list[int], lengths: list[int], causal: bool, marked: bool
) -> None:
    """A block that is not listed has no visible pair, one that is listed as full only visible ones."""
    starts = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32)
    numbers, places, tiles = attention.describe_documents(starts, int(starts[-1]), causal, marked)
    wanted = [(n, p) for n, length in enumerate(lengths) for p in range(length)]
    assert list(zip(numbers.tolist(), places.tolist(), strict=True)) == wanted
    seen = numbers[:, None] == numbers
    seen = seen.tril() if causal else seen
    partial, full = (
        [set(row[:count].tolist()) for row, count in zip(indices[0, 0], counts[0, 0], strict=True)]
        for counts, indices in ((tiles.counts, tiles.indices), (tiles.full_counts, tiles.full_indices))
    )
    ends = [*range(0, len(numbers), flexible_attention.BLOCK_SIZE), len(numbers)]
    for row, (top, bottom) in enumerate(pairwise(ends)):
        for column, (left, right) in enumerate(pairwise(ends)):
            part = seen[top:bottom, left:right]
            assert (column in partial[row] or column in full[row]) >= bool(part.any())
            if column in full[row]:
                assert part.all() and part.shape == (flexible_attention.BLOCK_SIZE,) * 2 and not marked
                assert column not in partial[row]


def test_a_compiled_layer_with_biases_has_one_graph_for_all_batches(
    tracer: Any, on_a_processor: list[int]
) -> None:
    model, compiled = pair_of(pre_norm=True, positions="relative", layer_biases=True)
    batches = [batch_of(lengths) for lengths in ([90, 80, 99, 60], [70, 60, 60, 5, 2, 300], [20] * 40)]
    for batch in batches:
        same_gradients(model, compiled, batch)
    assert len(on_a_processor) == len(batches), "the blocks of a batch serve all layers"
    assert not tracer["graph_break"]
    assert tracer["stats"]["unique_graphs"] == 1, "a layer was compiled anew"
    same_gradients(model, compiled, batch_of([10, 10, 4]))
    assert tracer["stats"]["unique_graphs"] == 2, "torch has a graph of its own where there is one block"


def test_a_compiled_decoder_with_biases_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    test_seq2seq.test_a_whole_decoder_layer_compiles_without_a_break_once_for_all_batches(monkeypatch, "t5")
