"""The fast dropout: shares, scale, and torch's seed deciding everything."""

from __future__ import annotations

import math

import pytest
import torch

from xling.models.network.attention import attend_dense
from xling.models.network.dropout import dropout


@pytest.mark.parametrize("prob", [0.1, 0.5, 0.9])
def test_share_scale_and_mean(prob: float) -> None:
    torch.manual_seed(1)
    x = torch.ones(400, 500)
    made = dropout(x, prob, training=True)
    share = float((made == 0).float().mean())
    bound = 5 * math.sqrt(prob * (1 - prob) / x.numel()) + 1 / 65536
    assert abs(share - prob) < bound
    kept = made[made != 0]
    assert torch.allclose(kept, torch.full_like(kept, 1 / (1 - prob)), rtol=2e-4)
    assert abs(float(made.mean()) - 1) < bound / (1 - prob)
    # No row or column is favoured.
    for axis in (0, 1):
        shares = (made == 0).float().mean(axis)
        assert float((shares - prob).abs().max()) < 6 * math.sqrt(prob * (1 - prob) / x.shape[axis])


def test_nothing_happens_in_evaluation_or_at_zero() -> None:
    x = torch.randn(5, 5)
    assert dropout(x, 0.5, training=False) is x and dropout(x, 0.0, training=True) is x


def test_torch_state_decides_and_moves_on() -> None:
    x = torch.ones(64, 64)
    torch.manual_seed(7)
    state = torch.get_rng_state()
    first, second = dropout(x, 0.3, True), dropout(x, 0.3, True)
    assert not torch.equal(first, second)
    torch.set_rng_state(state)
    assert torch.equal(first, dropout(x, 0.3, True)) and torch.equal(second, dropout(x, 0.3, True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradient_flows_where_values_were_kept(dtype: torch.dtype) -> None:
    x = torch.ones(1000, dtype=dtype, requires_grad=True)
    made = dropout(x, 0.25, True)
    made.sum().backward()
    assert made.dtype == dtype and x.grad is not None
    assert torch.equal(x.grad, made.detach())


@pytest.mark.parametrize("prob", [-0.1, 1.0])
def test_impossible_probabilities_are_asserts(prob: float) -> None:
    with pytest.raises(AssertionError, match="is not in"):
        dropout(torch.ones(1), prob, True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_drops_its_weights_as_everything_else_drops(dtype: torch.dtype) -> None:
    q, k, v = (torch.randn(2, 2, 5, 8).to(dtype) for _ in range(3))
    torch.manual_seed(7)
    weights = dropout(torch.softmax((q * 8**-0.5) @ k.transpose(-1, -2), -1), 0.5, True)
    torch.manual_seed(7)
    assert torch.equal(attend_dense(q, k, v, drop=0.5), weights @ v)
