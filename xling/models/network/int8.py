"""Inference in 8-bit integers on a CPU: dynamic quantisation without calibration data.

The matrices of a model become int8 with a scale for each output. The input of a layer is rounded to int8 at
run time with a scale for each token, so a row's result does not depend on the others in its batch. Products
are summed in int32; norms, softmax and attention stay in float32. Embeddings have a scale for each row.

torch's own eager quantisation (``torch.ao.quantization``) and its quantised tensors are deprecated as of
torch 2.13; this module uses the integer matrix product that its successor is built on.

Source: Bhandare et al. 2019 (transformers in int8); scales by token and by output: Dettmers et al. 2022,
section 2.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xling.array_types import Float, Float32, Int, Int8

MAX_INT8 = 127
MIN_SCALE = 1e-12


def round_to_int8(
    weight: Float[Tensor, "rows columns"],
) -> tuple[Int8[Tensor, "rows columns"], Float32[Tensor, "rows 1"]]:
    """Quantise a matrix to int8 values (R, C) and float32 scales (R, 1).

    So that ``values * scales`` approximates it.

    The largest error of a row is half of its scale, which is 1/127 of its largest value.
    """
    scales = (weight.float().abs().amax(1, keepdim=True) / MAX_INT8).clamp_min(MIN_SCALE)
    return (weight.float() / scales).round_().to(torch.int8), scales


class Int8Linear(nn.Module):
    """A linear layer with int8 weights: (N, I) float32 -> (N, O) float32."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        values, scales = round_to_int8(linear.weight.detach())
        self.values: Tensor
        self.scales: Tensor
        self.bias: Tensor
        self.register_buffer("values", values)
        self.register_buffer("scales", scales.flatten())
        bias = linear.weight.new_zeros(len(linear.weight)) if linear.bias is None else linear.bias
        self.register_buffer("bias", bias.detach().float())

    def forward(self, x: Float[Tensor, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        """Quantise each row, multiply, and scale back."""
        values, scales = round_to_int8(x)
        product = torch._int_mm(values, self.values.t())
        out: Tensor = torch.addcmul(self.bias, product * self.scales, scales)
        return out


class Int8Embedding(nn.Module):
    """An embedding with int8 weights."""

    def __init__(self, embedding: nn.Embedding) -> None:
        super().__init__()
        values, scales = round_to_int8(embedding.weight.detach())
        self.values: Tensor
        self.scales: Tensor
        self.register_buffer("values", values)
        self.register_buffer("scales", scales)

    def forward(self, ids: Int[Tensor, " *places"]) -> Float32[Tensor, " *places dim"]:
        """Look up (N,) -> (N, D) float32."""
        return F.embedding(ids, self.values).float() * F.embedding(ids, self.scales)


def quantise(model: nn.Module) -> nn.Module:
    """Convert ``model`` in place to float32 with int8 linear layers and embeddings; for inference only."""
    model.float().eval().requires_grad_(False)
    for name, module in model.named_children():
        if (
            isinstance(module, nn.Linear) and module.in_features > 1
        ):  # torch 2.13 gives wrong products for a single one
            setattr(model, name, Int8Linear(module))
        elif isinstance(module, nn.Embedding):
            setattr(model, name, Int8Embedding(module))
        else:
            quantise(module)
    return model
