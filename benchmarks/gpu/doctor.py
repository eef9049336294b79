"""What the machine is: `xling doctor`, its ceilings, and products at the shapes of a head of 250,002 pieces."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.gpu.common import Table, device, product_rate, seconds
from xling import doctor


def run(settings: dict[str, str]) -> None:
    """Print and write."""
    print(doctor.run(doctor.DoctorConfig()))
    tiny = settings.get("scale") == "tiny"
    table = Table("doctor", "ceilings of the device")
    size = 256 if tiny else 8192
    for name, dtype in (("bf16", torch.bfloat16), ("fp32", torch.float32)):
        table.add(what=f"product {size}^3 {name}", tflops=product_rate(dtype, size) / 1e12)
    torch.set_float32_matmul_precision("high")
    table.add(what=f"product {size}^3 tf32", tflops=product_rate(torch.float32, size) / 1e12)
    torch.set_float32_matmul_precision("highest")
    source = torch.empty((1 << 20) if tiny else (1 << 30), dtype=torch.float32, device=device()).normal_()
    target = torch.empty_like(source)
    table.add(
        what="copy, read and written", gb_s=2 * source.nbytes / seconds(lambda: target.copy_(source)) / 1e9
    )
    _head_products(table, tiny)


def _head_products(table: Table, tiny: bool) -> None:
    """The three products of the head, with rows of logits at any distance or at a multiple of 64."""
    for rows in (64,) if tiny else (512, 1024, 2048):
        for vocab, pitch in ((250_002, 250_002), (250_002, 250_048), (250_048, 250_048)):
            small = 100 if tiny else 1
            table.add(
                what=f"head, {rows} rows",
                vocab=vocab,
                pitch=pitch,
                **_rates(rows, vocab // small, pitch // small),
            )


def _rates(rows: int, vocab: int, pitch: int, dim: int = 768) -> dict[str, float]:
    given: dict[str, Any] = {"device": device(), "dtype": torch.bfloat16}
    hidden, weight = torch.randn(rows, dim, **given), torch.randn(vocab, dim, **given)
    logits = torch.randn(rows, pitch, **given)[:, :vocab]
    flops = 2 * rows * dim * vocab / 1e12
    to_hidden, to_weight = torch.empty_like(hidden), torch.empty_like(weight)
    return {
        "logits_tflops": flops / seconds(lambda: torch.mm(hidden, weight.t(), out=logits)),
        "hidden_tflops": flops / seconds(lambda: torch.mm(logits, weight, out=to_hidden)),
        "weight_tflops": flops / seconds(lambda: to_weight.addmm_(logits.t(), hidden)),
    }
