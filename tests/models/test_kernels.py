"""The GPU kernels equal torch's own operations. Without a GPU, Triton's interpreter runs them on the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="triton is a part of torch for CUDA alone")

from xling.models.network import gpu_kernels, loss

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def rows(num: int, vocab: int, pitch: int, dtype: torch.dtype) -> Tensor:
    torch.manual_seed(1)
    return (3 * torch.randn(num, pitch, device=DEVICE)).to(dtype)[:, :vocab]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("vocab", "pitch"), [(100, 128), (20_002, 20_002)])
def test_losses_and_gradients_are_those_of_torch(
    dtype: torch.dtype, smoothing: float, vocab: int, pitch: int, record_property: Any
) -> None:
    logits = rows(7, vocab, pitch, dtype)
    behind = logits.as_strided((7, pitch - vocab), (pitch, 1), vocab).clone()
    bias, target = torch.randn(vocab, device=DEVICE), torch.randint(vocab, (7,), device=DEVICE)
    wanted, grad_bias = logits.double().clone(), torch.zeros(vocab, dtype=torch.float64, device=DEVICE)
    wanted_rows = torch.empty(7, dtype=torch.float64, device=DEVICE)
    added = loss._losses(wanted, bias.double(), target, wanted_rows, grad_bias, smoothing)
    found = torch.full((7,), torch.nan, device=DEVICE)
    only = gpu_kernels.cross_entropy(logits, bias, target, found, smoothing, gradients=False)
    torch.testing.assert_close(found.double(), wanted_rows, rtol=1e-4, atol=1e-4)
    again = gpu_kernels.cross_entropy(logits, bias, target, found, smoothing, gradients=True)
    torch.testing.assert_close(found.double(), wanted_rows, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(only.double(), added.double(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(again, only)
    difference = float((logits.double() - wanted).norm() / wanted.norm())
    record_property("gradient", f"{difference:.1e}")
    assert difference < (1e-5 if dtype == torch.float32 else 4e-3)
    assert torch.equal(logits.as_strided((7, pitch - vocab), (pitch, 1), vocab), behind), "wrote past a row"


def test_the_loss_of_a_model_is_the_same_through_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(2)
    leaves = [torch.randn(*shape, device=DEVICE) for shape in ((37, 16), (101, 16), (101,))]
    target = torch.randint(101, (37,), device=DEVICE)
    monkeypatch.setattr(loss, "CHUNK_BYTES", {DEVICE: 4 * 101 * 10})
    monkeypatch.setattr(loss, "ALIGNMENT", {DEVICE: 64})

    def made(fused: bool) -> list[Tensor]:
        monkeypatch.setattr(loss, "_has_fused_kernel", lambda _: fused)
        given = [leaf.clone().requires_grad_() for leaf in leaves]
        total, each = loss.linear_cross_entropy(*given, target, 0.1)
        total.backward()
        return [total.detach(), each, *(x.grad for x in given if x.grad is not None)]

    for one, other in zip(made(True), made(False), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
