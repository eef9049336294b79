"""Kernels in Triton, only for GPUs: triton is only installed with torch for CUDA."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from xling.array_types import Float, Float32, Int

BLOCK_SIZE, NUM_WARPS = 8192, 16


@triton.jit
def _cross_entropy(
    logits, stride, bias, target, losses, sums, smoothing,
    vocab: tl.constexpr, gradients: tl.constexpr, smooth: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Process one row: one pass for its normaliser and, with ``gradients``, another that overwrites it."""
    row = tl.program_id(0)
    base = logits + row.to(tl.int64) * stride
    columns = tl.arange(0, block)
    largest = tl.full((), float("-inf"), tl.float32)
    total = tl.full((), 0.0, tl.float32)
    added = tl.full((), 0.0, tl.float32)
    for start in range(0, vocab, block):
        at = start + columns
        inside = at < vocab
        score = tl.load(base + at, inside, other=0.0).to(tl.float32)
        score += tl.load(bias + at, inside, other=0.0).to(tl.float32)
        if smooth:
            added += tl.sum(tl.where(inside, score, 0.0))
        score = tl.where(inside, score, float("-inf"))
        higher = tl.maximum(largest, tl.max(score))
        total = total * tl.exp(largest - higher) + tl.sum(tl.exp(score - higher))
        largest = higher
    normaliser = largest + tl.log(total)
    target_id = tl.load(target + row)
    own = tl.load(base + target_id).to(tl.float32) + tl.load(bias + target_id).to(tl.float32)
    tl.store(losses + row, normaliser - own)
    if smooth:
        tl.store(sums + row, added - vocab * normaliser)
    if gradients:
        other_share = smoothing / (vocab - 1)
        for start in range(0, vocab, block):
            at = start + columns
            inside = at < vocab
            score = tl.load(base + at, inside, other=0.0).to(tl.float32)
            score += tl.load(bias + at, inside, other=0.0).to(tl.float32)
            gradient = tl.exp(score - normaliser) - other_share
            gradient = tl.where(at == target_id, gradient - 1 + smoothing + other_share, gradient)
            tl.store(base + at, gradient, inside)


def cross_entropy(
    logits: Float[Tensor, "rows vocab"],
    bias: Float[Tensor, " vocab"],
    target: Int[Tensor, " rows"],
    losses: Float32[Tensor, " rows"],
    smoothing: float,
    gradients: bool,
) -> Float32[Tensor, ""]:
    """Write the cross-entropies of ``target`` (M,) with ``logits + bias`` into ``losses`` (M,).

    With ``gradients`` the logits (M, V), with any row stride, are replaced by the gradients of the smoothed
    loss. They are read twice and written once, while torch's own operations read and write them a dozen
    times.

    Returns:
        The contribution of smoothing to the sum of losses: the summed log-probabilities of all pieces times
            the share of
        each.

    Source: Milakov & Gimelshein 2018 (the normaliser in one pass).
    """
    rows, vocab = logits.shape
    assert logits.stride(1) == 1, "the pieces of a row are contiguous"
    sums = torch.zeros(rows if smoothing else 1, dtype=torch.float32, device=logits.device)
    block = min(BLOCK_SIZE, triton.next_power_of_2(vocab))
    _cross_entropy[(rows,)](
        logits, logits.stride(0), bias, target, losses, sums, smoothing,
        vocab=vocab, gradients=gradients, smooth=smoothing > 0, block=block, num_warps=NUM_WARPS,
    )  # fmt: skip
    return sums.sum() * (smoothing / max(vocab - 1, 1))
