"""Time and memory of the projection onto 250,002 pieces with its cross-entropy, by the size of its chunks."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from benchmarks.gpu.common import Table, device, free, seconds
from xling.models.network import loss


def run(settings: dict[str, str]) -> None:
    """Print and write."""
    tiny = settings.get("scale") == "tiny"
    vocab, dim = (2_502, 64) if tiny else (250_002, 768)
    table = Table("head", "cross-entropy of 15 % of a batch, forward and backward", vocab=vocab, dim=dim)
    for tokens in (1024,) if tiny else (16_384, 65_536):
        rows = tokens * 15 // 100
        for chunk in (64, 128, 256, 512, 1024, 2048):
            for fused in (True, False):
                if fused and not loss._has_fused_kernel(device().type):
                    continue
                loss.CHUNK_BYTES = {device().type: chunk << 20}
                _measure(table, rows, vocab, dim, "fused" if fused else "torch", tokens, chunk)
        _measure(table, rows, vocab, dim, "F.cross_entropy", tokens, 0)


def _measure(table: Table, rows: int, vocab: int, dim: int, how: str, tokens: int, chunk: int) -> None:
    given = {"device": device(), "dtype": torch.bfloat16}
    torch.manual_seed(1)
    hidden = torch.randn(rows, dim, **given).requires_grad_()
    weight = (torch.randn(vocab, dim, **given) * 0.02).requires_grad_()
    bias = torch.zeros(vocab, **given).requires_grad_()
    target = torch.randint(vocab, (rows,), device=device())
    was, loss._has_fused_kernel = loss._has_fused_kernel, lambda _: how == "fused"

    def forward_and_backward() -> None:
        hidden.grad = weight.grad = bias.grad = None
        if how == "F.cross_entropy":
            total = F.cross_entropy(F.linear(hidden, weight, bias), target, reduction="sum")
        else:
            total, _ = loss.linear_cross_entropy(hidden, weight, bias, target)
        total.backward()

    try:
        forward_and_backward()
        forward_and_backward()
        hidden.grad = weight.grad = bias.grad = None
        free()
        more = {}
        if device().type == "cuda":
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            forward_and_backward()
            gradients = weight.nbytes + hidden.nbytes + bias.nbytes
            extra = torch.cuda.max_memory_allocated() - before
            more = {"peak_mib": extra / 2**20, "without_gradients_mib": (extra - gradients) / 2**20}
        elapsed = seconds(forward_and_backward, 10)
        rate = 6 * rows * dim * vocab / elapsed / 1e12
        table.add(tokens=tokens, how=how, chunk_mib=chunk, ms=1000 * elapsed, tflops=rate, **more)
    except torch.OutOfMemoryError:
        table.add(tokens=tokens, how=how, chunk_mib=chunk, ms="out of memory")
    finally:
        loss._has_fused_kernel = was
        free()
