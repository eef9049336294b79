"""Fused linear projection and cross-entropy, in chunks, so that tokens x vocabulary logits never exist at once."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float, Float32, Int

CHUNK_BYTES = {"cpu": 512 << 20, "cuda": 1 << 30}
BLOCK_BYTES = {"cpu": 4 << 20, "cuda": 512 << 20}
ALIGNED = {"cpu": 1, "cuda": 64}
"""Alignment of rows of logits and of the pieces in a product; the remaining pieces are multiplied apart.
On an H100 all three products with 250,002 pieces took three times as long as with 250,048."""


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any,
        hidden: Float[Tensor, "tokens dim"],
        weight: Float[Tensor, "vocab dim"],
        bias: Float[Tensor, " vocab"],
        target: Int[Tensor, " tokens"],
        smoothing: float,
        training: bool,
    ) -> tuple[Float32[Tensor, ""], Float32[Tensor, " tokens"]]:
        rows = _rows(CHUNK_BYTES, hidden.device, len(weight) * hidden.element_size())
        rows = (
            -(-len(target) // -(-len(target) // rows)) if len(target) else rows
        )  # chunks of about equal size
        losses = torch.empty(len(target), dtype=torch.float32, device=hidden.device)
        others = smoothing / max(len(weight) - 1, 1)
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        grads = None
        if training and any(ctx.needs_input_grad):
            grad_bias = torch.zeros(len(bias), dtype=torch.float32, device=bias.device)
            empty = torch.empty_like(weight) if len(target) else torch.zeros_like(weight)
            grads = (torch.empty_like(hidden), empty, grad_bias)
        parts, fused = _parts(weight), _fused(hidden.device.type)
        room = _room(min(rows, len(target)), weight)
        for start in range(0, len(target), rows):
            part = hidden[start : start + rows]
            logits = room[: len(part)]
            for some in parts:
                torch.mm(part, weight[some].t(), out=logits[:, some])
            chunk_losses = losses[start : start + rows]
            total -= (_losses_fused if fused else _losses)(
                logits,
                bias.float(),
                target[start : start + rows],
                chunk_losses,
                grads[2] if grads else None,
                smoothing,
            )
            if grads:
                _add_gradients(
                    logits, part, weight, parts, grads[0][start : start + rows], grads[1], start == 0
                )
        if grads:
            ctx.save_for_backward(*grads[:2], grads[2].to(bias.dtype))
        ctx.mark_non_differentiable(losses)
        return total + (1 - smoothing - others) * losses.sum(), losses

    @staticmethod
    def backward(  # type: ignore[override]
        ctx: Any, grad_sum: Float32[Tensor, ""], grad_losses: Float32[Tensor, " tokens"]
    ) -> tuple[
        Float[Tensor, "tokens dim"], Float[Tensor, "vocab dim"], Float[Tensor, " vocab"], None, None, None
    ]:
        grads = ctx.saved_tensors
        if grad_sum.device.type != "cpu" or float(grad_sum) != 1:  # on a GPU the comparison would synchronise
            grads = [grad * grad_sum for grad in grads]
        return grads[0], grads[1], grads[2], None, None, None


def _room(rows: int, weight: Tensor) -> Tensor:
    """Allocate space for the logits of some rows, (rows, V), aligned to multiples of `ALIGNED`."""
    step = ALIGNED[weight.device.type]
    return weight.new_empty(rows, -(-len(weight) // step) * step)[:, : len(weight)]


def _parts(weight: Tensor) -> list[slice]:
    """Return the slices of pieces that are multiplied at once: a multiple of `ALIGNED`, and the rest if any."""
    many = len(weight) // ALIGNED[weight.device.type] * ALIGNED[weight.device.type]
    return [part for part in (slice(0, many), slice(many, len(weight))) if part.start < part.stop]


def _add_gradients(
    logits: Tensor, hidden: Tensor, weight: Tensor, parts: list[slice], to_hidden: Tensor, to_weight: Tensor,
    first: bool,
) -> None:  # fmt: skip
    """From gradients of ``logits`` (rows, V) compute those of ``hidden`` (rows, D).

    Add those of ``weight`` (V, D).
    """
    for some in parts:
        if some.start:
            to_hidden.addmm_(logits[:, some], weight[some])
        else:
            torch.mm(logits[:, some], weight[some], out=to_hidden)
        if first:  # avoids writing and reading zeros, a fifth of the time with many pieces and few rows
            torch.mm(logits[:, some].t(), hidden, out=to_weight[some])
        else:
            to_weight[some].addmm_(logits[:, some].t(), hidden)


@cache
def _fused(device: str) -> bool:
    return device == "cuda" and find_spec("triton") is not None


def _losses_fused(
    logits: Tensor, bias: Tensor, target: Tensor, losses: Tensor, grad_bias: Tensor | None, smoothing: float
) -> Tensor:
    """Compute the losses and their gradient in one Triton kernel."""
    from xling.models.network import gpu_kernels

    gradients = grad_bias is not None
    added = gpu_kernels.cross_entropy(logits, bias, target, losses, smoothing, gradients)
    if grad_bias is not None:
        grad_bias += logits.sum(0, dtype=torch.float32)
    return added


def _rows(limits: dict[str, int], device: torch.device, bytes_a_row: int) -> int:
    return max(1, limits[device.type] // bytes_a_row)


def _losses(
    logits: Tensor, bias: Tensor, target: Tensor, losses: Tensor, grad_bias: Tensor | None, smoothing: float
) -> Tensor:
    """Write the cross-entropies of ``target`` (M,) with ``logits + bias`` into ``losses`` (M,).

    With ``grad_bias`` the logits (M, V) become the gradients of the smoothed loss in place, and their sums
    are added there. Works block by block, so that on a CPU the passes over a block find it in the cache.

    Returns:
        The contribution of smoothing: the summed log-probabilities of all pieces times the share of each.
    """
    rows = _rows(BLOCK_BYTES, logits.device, 4 * logits.shape[1])
    others = smoothing / max(logits.shape[1] - 1, 1)
    total = torch.zeros((), dtype=torch.float32, device=logits.device)
    for start in range(0, len(target), rows):
        scores, wanted = logits[start : start + rows] + bias, target[start : start + rows, None]
        probs = torch.softmax(scores, -1)
        # Log-sum-exp relative to the maximum: the largest probability is never rounded to 0.
        normaliser = scores.amax(1) - probs.amax(1).log()
        losses[start : start + rows] = normaliser - scores.gather(1, wanted).squeeze(1)
        if smoothing:
            total += others * (scores.sum() - scores.shape[1] * normaliser.sum())
        if grad_bias is not None:
            if smoothing:
                probs -= others
            probs.scatter_add_(1, wanted, torch.full_like(wanted, -1 + smoothing + others, dtype=probs.dtype))
            grad_bias += probs.sum(0)
            logits[start : start + rows] = probs
    return total


def linear_cross_entropy(
    hidden: Float[Tensor, "rows dim"],
    weight: Float[Tensor, "vocab dim"],
    bias: Float[Tensor, " vocab"],
    target: Int[Tensor, " rows"],
    smoothing: float = 0.0,
) -> tuple[Float32[Tensor, ""], Float32[Tensor, " rows"]]:
    """Return the sum of the cross-entropies of ``softmax(hidden @ weight.T + bias)`` and the single ones.

    The gradients are computed chunk by chunk in the forward pass, so logits of at most `CHUNK_BYTES` exist,
    in the dtype of ``hidden``.

    Args:
        hidden: (M, D), float32 or bfloat16.
        weight: (V, D) of the same dtype.
        bias: (V,) of the same dtype.
        target: (M,) int64, in [0, V).
        smoothing: probability that is spread evenly over the other V - 1 ids (label smoothing).

    Returns:
        The differentiable sum over rows in nats, float32 scalar; the losses by row without smoothing, float32
        (M,), detached.

    Source: Szegedy et al. 2016, section 7, as in fairseq's label_smoothed_cross_entropy.
    """
    assert hidden.shape[0] == target.shape[0], f"{hidden.shape[0]} rows but {target.shape[0]} targets"
    # Inside an autograd function gradients always appear disabled; in validation they really are.
    arguments = (hidden, weight, bias, target, smoothing, torch.is_grad_enabled())
    total, losses = _LinearCrossEntropy.apply(*arguments)  # type: ignore[no-untyped-call]
    return total, losses
