"""Fused linear projection and cross-entropy, in chunks, so that tokens x vocabulary logits never exist at once."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from xling.array_types import Float, Float32, Int

CHUNK_BYTES = {"cpu": 512 << 20, "cuda": 1 << 30}
BLOCK_BYTES = {"cpu": 1 << 20, "cuda": 512 << 20}
ALIGNMENT = {"cpu": 1, "cuda": 64}
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
        rows = _num_rows(CHUNK_BYTES, hidden.device, len(weight) * hidden.element_size())
        rows = (
            -(-len(target) // -(-len(target) // rows)) if len(target) else rows
        )  # chunks of about equal size
        losses = torch.empty(len(target), dtype=torch.float32, device=hidden.device)
        other_share = smoothing / max(len(weight) - 1, 1)
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        grads = None
        if training and any(ctx.needs_input_grad):
            grad_bias = torch.zeros(len(bias), dtype=torch.float32, device=bias.device)
            weight_grad = torch.empty_like(weight) if len(target) else torch.zeros_like(weight)
            grads = (torch.empty_like(hidden), weight_grad, grad_bias)
        vocab_slices, is_fused = _vocab_slices(weight), _has_fused_kernel(hidden.device.type)
        alignment = ALIGNMENT[weight.device.type]
        width = -(-len(weight) // alignment) * alignment
        logits_buffer = weight.new_empty(min(rows, len(target)), width)[:, : len(weight)]
        for start in range(0, len(target), rows):
            hidden_chunk = hidden[start : start + rows]
            logits = logits_buffer[: len(hidden_chunk)]
            for vocab_slice in vocab_slices:
                torch.mm(hidden_chunk, weight[vocab_slice].t(), out=logits[:, vocab_slice])
            chunk_losses = losses[start : start + rows]
            total -= (_fused_losses if is_fused else _losses)(
                logits,
                bias.float(),
                target[start : start + rows],
                chunk_losses,
                grads[2] if grads else None,
                smoothing,
            )
            if grads:
                _add_gradients(
                    logits,
                    hidden_chunk,
                    weight,
                    vocab_slices,
                    grads[0][start : start + rows],
                    grads[1],
                    start == 0,
                )
        if grads:
            ctx.save_for_backward(*grads[:2], grads[2].to(bias.dtype))
        ctx.mark_non_differentiable(losses)
        return total + (1 - smoothing - other_share) * losses.sum(), losses

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


def _vocab_slices(weight: Tensor) -> list[slice]:
    """Return the slices of pieces that are multiplied at once: a multiple of `ALIGNMENT`, and the rest if any."""
    num_aligned = len(weight) // ALIGNMENT[weight.device.type] * ALIGNMENT[weight.device.type]
    return [
        vocab_slice
        for vocab_slice in (slice(0, num_aligned), slice(num_aligned, len(weight)))
        if vocab_slice.start < vocab_slice.stop
    ]


def _add_gradients(
    logits: Tensor, hidden: Tensor, weight: Tensor, vocab_slices: list[slice], hidden_grad: Tensor, weight_grad: Tensor,
    is_first: bool,
) -> None:  # fmt: skip
    """From gradients of ``logits`` (rows, V) compute those of ``hidden`` (rows, D).

    Add those of ``weight`` (V, D).
    """
    for vocab_slice in vocab_slices:
        if vocab_slice.start:
            hidden_grad.addmm_(logits[:, vocab_slice], weight[vocab_slice])
        else:
            torch.mm(logits[:, vocab_slice], weight[vocab_slice], out=hidden_grad)
        if is_first:  # avoids writing and reading zeros, a fifth of the time with many pieces and few rows
            torch.mm(logits[:, vocab_slice].t(), hidden, out=weight_grad[vocab_slice])
        else:
            weight_grad[vocab_slice].addmm_(logits[:, vocab_slice].t(), hidden)


@cache
def _has_fused_kernel(device: str) -> bool:
    return device == "cuda" and find_spec("triton") is not None


def _fused_losses(
    logits: Tensor, bias: Tensor, target: Tensor, losses: Tensor, grad_bias: Tensor | None, smoothing: float
) -> Tensor:
    from xling.models.network import gpu_kernels

    gradients = grad_bias is not None
    smoothing_loss = gpu_kernels.cross_entropy(logits, bias, target, losses, smoothing, gradients)
    if grad_bias is not None:
        grad_bias += logits.sum(0, dtype=torch.float32)
    return smoothing_loss


def _num_rows(limits: dict[str, int], device: torch.device, bytes_per_row: int) -> int:
    return max(1, limits[device.type] // bytes_per_row)


def _losses(
    logits: Tensor, bias: Tensor, target: Tensor, losses: Tensor, grad_bias: Tensor | None, smoothing: float
) -> Tensor:
    """Write the cross-entropies of ``target`` (M,) with ``logits + bias`` into ``losses`` (M,).

    With ``grad_bias`` the logits (M, V) become the gradients of the smoothed loss in place, and their sums
    are added there. Works block by block, so that on a CPU the passes over a block find it in the cache.

    Returns:
        The contribution of smoothing: the summed log-probabilities of all pieces times the share of each.
    """
    rows = min(_num_rows(BLOCK_BYTES, logits.device, 4 * logits.shape[1]), len(target))
    other_share = smoothing / max(logits.shape[1] - 1, 1)
    total = torch.zeros((), dtype=torch.float32, device=logits.device)
    block = torch.empty(rows, logits.shape[1], dtype=torch.float32, device=logits.device)
    for start in range(0, len(target), rows):
        raw, targets = logits[start : start + rows], target[start : start + rows, None]
        # Steps in place, each of one dtype: torch's softmax and its sums of two dtypes take twice as long on a CPU.
        scores = block[: len(raw)].copy_(raw).add_(bias)
        largest = scores.amax(1, keepdim=True)
        target_scores = scores.gather(1, targets)
        summed = scores.sum() if smoothing else None
        probs = scores.sub_(largest).exp_()
        normaliser = probs.sum(1, keepdim=True)
        losses[start : start + rows] = (largest + normaliser.log() - target_scores).squeeze(1)
        if summed is not None:
            total += other_share * (summed - scores.shape[1] * (largest + normaliser.log()).sum())
        if grad_bias is not None:
            probs /= normaliser
            if smoothing:
                probs -= other_share
            probs.scatter_add_(
                1, targets, torch.full_like(targets, -1 + smoothing + other_share, dtype=probs.dtype)
            )
            grad_bias += probs.sum(0)
            raw.copy_(probs)
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
