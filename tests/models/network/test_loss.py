"""Projection and cross-entropy in one against torch's own."""

from __future__ import annotations

from inspect import unwrap

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from xling.models.network import loss
from xling.models.network.loss import linear_cross_entropy

M, D, V = 37, 16, 101


@pytest.fixture
def batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    hidden = torch.randn(M, D, generator=generator)
    weight = torch.randn(V, D, generator=generator)
    bias = torch.randn(V, generator=generator)
    return hidden, weight, bias, torch.randint(V, (M,), generator=generator)


def reference(batch: tuple[Tensor, ...], factor: float) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Value, rows and gradients by F.cross_entropy in float64."""
    *leaves, target = batch
    hidden, weight, bias = (x.double().requires_grad_() for x in leaves)
    rows = F.cross_entropy(F.linear(hidden, weight, bias), target, reduction="none")
    (rows.sum() * factor).backward()
    return rows.sum().detach(), rows.detach(), [x.grad for x in (hidden, weight, bias) if x.grad is not None]


# One row a chunk; a chunk size that does not divide the rows; all at once.
@pytest.mark.parametrize("chunk_bytes", [1, 4 * V * 10, 64 << 20])
@pytest.mark.parametrize(("factor", "aligned"), [(1.0, 1), (-0.25, 1), (-0.25, 8), (1.0, 64)])
def test_value_and_gradients_equal_cross_entropy(
    batch: tuple[Tensor, ...], monkeypatch: pytest.MonkeyPatch, chunk_bytes: int, factor: float, aligned: int
) -> None:
    monkeypatch.setattr(loss, "ALIGNMENT", {"cpu": aligned})  # above 1 as on a GPU: the last pieces apart
    monkeypatch.setattr(loss, "CHUNK_BYTES", {"cpu": chunk_bytes})
    monkeypatch.setattr(loss, "BLOCK_BYTES", {"cpu": chunk_bytes // 3})
    *leaves, target = batch
    hidden, weight, bias = (x.clone().requires_grad_() for x in leaves)
    total, rows = linear_cross_entropy(hidden, weight, bias, target)
    (total * factor).backward()
    value, wanted_rows, grads = reference(batch, factor)
    assert total.dtype == rows.dtype == torch.float32 and not rows.requires_grad
    torch.testing.assert_close(total.detach().double(), value, rtol=1e-6, atol=0)
    torch.testing.assert_close(rows.double(), wanted_rows, rtol=1e-5, atol=1e-5)
    for mine, theirs in zip((hidden.grad, weight.grad, bias.grad), grads, strict=True):
        assert mine is not None
        torch.testing.assert_close(mine.double(), theirs, rtol=1e-4, atol=1e-5)


def test_gradients_agree_with_finite_differences(batch: tuple[Tensor, ...]) -> None:
    hidden, weight, bias, target = batch
    hidden = hidden.clone().requires_grad_()
    linear_cross_entropy(hidden, weight, bias, target)[0].backward()
    assert hidden.grad is not None
    direction = torch.randn(M, D, generator=torch.Generator().manual_seed(2))
    step = 1e-2
    ends = [
        float(linear_cross_entropy(hidden.detach() + s * direction, weight, bias, target)[0])
        for s in (step, -step)
    ]
    slope = float((hidden.grad * direction).sum())
    assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(slope, rel=1e-2)


def test_bfloat16_is_as_near_as_bfloat16_can_be(batch: tuple[Tensor, ...]) -> None:
    *leaves, target = batch
    hidden, weight, bias = (x.bfloat16().requires_grad_() for x in leaves)
    total, _ = linear_cross_entropy(hidden, weight, bias, target)
    total.backward()
    value, _, grads = reference((*(x.detach() for x in (hidden, weight, bias)), target), 1.0)
    assert total.dtype == torch.float32
    assert float(total.detach()) == pytest.approx(float(value), rel=0.01)
    for mine, theirs in zip((hidden.grad, weight.grad, bias.grad), grads, strict=True):
        assert mine is not None and mine.dtype == torch.bfloat16
        assert float((mine.double() - theirs).norm() / theirs.norm()) < 0.02


def test_no_targets_cost_nothing(batch: tuple[Tensor, ...]) -> None:
    hidden, weight, bias, target = batch
    weight = weight.clone().requires_grad_()
    total, rows = linear_cross_entropy(hidden[:0], weight, bias, target[:0])
    total.backward()
    assert float(total.detach()) == 0 and len(rows) == 0 and weight.grad is not None and not weight.grad.any()


def test_validation_makes_no_gradients(batch: tuple[Tensor, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, weight, bias, target = batch
    weight = torch.nn.Parameter(weight)
    with torch.no_grad():
        value = float(linear_cross_entropy(hidden, weight, bias, target)[0])
    assert value == pytest.approx(float(linear_cross_entropy(hidden, weight, bias, target)[0].detach()))

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a gradient was allocated")

    monkeypatch.setattr(torch, "empty_like", refuse)
    with torch.no_grad():
        linear_cross_entropy(hidden, weight, bias, target)
    with pytest.raises(AssertionError, match="a gradient was allocated"):
        linear_cross_entropy(hidden, weight, bias, target)


def test_rows_and_targets_must_match(batch: tuple[Tensor, ...]) -> None:
    hidden, weight, bias, target = batch
    with pytest.raises(AssertionError, match="37 rows but 36 targets"):
        unwrap(linear_cross_entropy)(
            hidden, weight, bias, target[1:]
        )  # in production nothing checks shapes before


def test_smoothed_value_and_gradients_equal_cross_entropy(batch: tuple[Tensor, ...]) -> None:
    *leaves, target = batch
    hidden, weight, bias = (x.clone().requires_grad_() for x in leaves)
    total, _ = linear_cross_entropy(hidden, weight, bias, target, smoothing=0.1)
    total.backward()
    exact = [x.double().requires_grad_() for x in leaves]
    scores = F.linear(exact[0], exact[1], exact[2])
    # Fairseq's smoothing: the share goes to the other pieces alone.
    others = 0.1 / (V - 1)
    logs = torch.log_softmax(scores, -1)
    wanted = logs.gather(1, target[:, None]).sum()
    value = -((1 - 0.1 - others) * wanted + others * logs.sum())
    value.backward()
    torch.testing.assert_close(total.detach().double(), value.detach(), rtol=1e-6, atol=0)
    for mine, theirs in zip((hidden.grad, weight.grad, bias.grad), exact, strict=True):
        assert mine is not None and theirs.grad is not None
        torch.testing.assert_close(mine.double(), theirs.grad, rtol=1e-4, atol=1e-5)
