"""Packed weights: the same products, and a model that is left as it was."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from xling.models.network.packed_products import packed_linear, packed_linear_layers


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [(7,), (300, 7), (3, 1, 7), (0, 7)])
def test_products_are_those_of_the_plain_matrix(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    weight, bias, x = torch.randn(9, 7).to(dtype), torch.randn(9).to(dtype), torch.randn(shape).to(dtype)
    for added in (bias, None):
        torch.testing.assert_close(packed_linear(weight, added)(x), F.linear(x, weight, added))


def test_a_model_multiplies_with_the_weights_of_the_moment_and_is_left_as_it_was() -> None:
    model = nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.Linear(5, 3, bias=False))
    x = torch.randn(2, 4)
    for _ in range(2):
        wanted = model(x).detach()
        with packed_linear_layers(model), packed_linear_layers(model):
            found = model(x)
            with torch.no_grad():
                model[0].weight.zero_()
            assert torch.equal(model(x), found), "not the packed copy"
        torch.testing.assert_close(found, wanted)
        assert not found.requires_grad
        assert all("forward" not in layer.__dict__ for layer in model)
        with torch.no_grad():
            model[0].weight.normal_()
    model(x).sum().backward()
    assert model[0].weight.grad is not None


def test_a_torch_without_the_kernels_multiplies_as_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, x = torch.randn(9, 7), torch.randn(3, 7)
    monkeypatch.setattr("xling.models.network.packed_products.KERNEL_NAMES", ("_no_such_kernel",))
    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", None)
    assert torch.equal(packed_linear(weight, None)(x), F.linear(x, weight))
