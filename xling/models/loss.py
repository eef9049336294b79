"""Linear projection and cross-entropy in one, in chunks, so that tokens x vocabulary is never held at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

CHUNK_BYTES = 64 << 20


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        target: Tensor,
        smoothing: float,
        training: bool,
    ) -> tuple[Tensor, Tensor]:
        rows = max(1, CHUNK_BYTES // (4 * weight.shape[0]))
        losses = torch.empty(len(target), dtype=torch.float32, device=hidden.device)
        others = smoothing / max(len(weight) - 1, 1)
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        needs_grad = training and any(ctx.needs_input_grad)
        grad_hidden = torch.empty_like(hidden) if needs_grad else None
        grad_weight = torch.zeros_like(weight) if needs_grad else None
        grad_bias = torch.zeros(len(bias), dtype=torch.float32, device=bias.device) if needs_grad else None
        for start in range(0, len(target), rows):
            part, wanted = hidden[start : start + rows], target[start : start + rows, None]
            logits = torch.addmm(bias, part, weight.t())
            log_probs = torch.log_softmax(logits, -1, dtype=torch.float32)
            losses[start : start + rows] = -log_probs.gather(1, wanted).squeeze(1)
            if smoothing:
                total -= others * log_probs.sum()
            if grad_hidden is None or grad_weight is None or grad_bias is None:
                continue
            grad = log_probs.exp_()
            if smoothing:
                grad -= others
            grad.scatter_add_(1, wanted, torch.full_like(wanted, -1 + smoothing + others, dtype=grad.dtype))
            grad_bias += grad.sum(0)
            grad = grad.to(hidden.dtype)
            torch.mm(grad, weight, out=grad_hidden[start : start + rows])
            grad_weight.addmm_(grad.t(), part)
        if needs_grad:
            ctx.save_for_backward(grad_hidden, grad_weight, grad_bias.to(bias.dtype))  # type: ignore[union-attr]
        ctx.mark_non_differentiable(losses)
        return total + (1 - smoothing - others) * losses.sum(), losses

    @staticmethod
    def backward(
        ctx: Any, grad_sum: Tensor, grad_losses: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, None, None, None]:  # type: ignore[override]
        grad_hidden, grad_weight, grad_bias = ctx.saved_tensors
        return grad_hidden * grad_sum, grad_weight * grad_sum, grad_bias * grad_sum, None, None, None


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor, target: Tensor, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Sum of the cross-entropies of ``softmax(hidden @ weight.T + bias)`` and each one of them.

    The gradients are computed chunk by chunk in the forward pass, so logits of at most `CHUNK_BYTES` exist.

    Args:
        hidden: (M, D), float32 or bfloat16.
        weight: (V, D) of the same type.
        bias: (V,) of the same type.
        target: (M,) int64, in [0, V).
        smoothing: probability that is spread evenly over the other V - 1 ids (label smoothing).

    Returns:
        The differentiable sum over rows in nats, float32 scalar; the losses by row without smoothing, float32 (M,),
        detached.

    Source: Szegedy et al. 2016, section 7, as in fairseq's label_smoothed_cross_entropy.
    """
    assert hidden.shape[0] == target.shape[0], f"{hidden.shape[0]} rows but {target.shape[0]} targets"
    # Inside an autograd function gradients always look switched off; in validation they really are.
    arguments = (hidden, weight, bias, target, smoothing, torch.is_grad_enabled())
    total, losses = _LinearCrossEntropy.apply(*arguments)  # type: ignore[no-untyped-call]
    return total, losses
