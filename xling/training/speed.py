"""Model FLOP utilisation: the operations that a training needs, divided by those that its device could perform.

It counts matrix products and attention, forward once and backward twice. Recomputed activations, frozen
weights and the objectives' own modules are not counted. Source: Chowdhery et al. 2022, appendix B.
"""

import time
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import torch

from xling.models.shape import windows_of

PEAKS = {
    "B200": 2250e12, "H200": 989e12, "H100 PCIe": 756e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12, "L4": 121e12,
    "A10": 125e12, "V100": 125e12, "T4": 65e12, "RTX 4090": 165e12, "RTX 3090": 71e12,
}  # fmt: skip
"""Dense 16-bit operations per second from the vendors' data sheets; the first matching name is used."""
_SIDE, _PRODUCTS = 1024, 10


@cache
def peak(device: str, dtype: torch.dtype) -> tuple[float, str]:
    """Return the peak floating point operations per second of a device, 0 if unknown, and the source of the figure.

    A processor is measured by products of 1,024 x 1,024 matrices, with as many threads as torch has.
    """
    if device == "cuda":
        name = torch.cuda.get_device_name()
        rate = next((value for key, value in PEAKS.items() if key in name), 0.0)
        return (rate if dtype != torch.float32 else 0.0), f"data sheet of {name}"
    x, seconds = torch.ones(_SIDE, _SIDE, dtype=dtype), []
    for _ in range(_PRODUCTS):
        begin = time.process_time()  # others may share the processor
        x @ x
        seconds.append((time.process_time() - begin) / torch.get_num_threads())
    return 2 * _SIDE**3 / min(seconds), "measured"


def operations(model: Any, samples: list[Any]) -> float:
    """Return the floating point operations of an update over the given batches."""
    cfg, vocab = model.cfg, len(model.encoder.tokens.weight)
    inner = cfg.heads * (cfg.head_dim or cfg.dim // cfg.heads)
    total = 0.0
    for side in (part for sample in samples for part in _dicts(sample)):
        if "runs" in side:
            is_decoder = "cross" in side
            layers = model.decoder.layers if is_decoder else model.encoder.layers
            seen = [0] * len(layers) if is_decoder else windows_of(cfg.attention, cfg.layers)
            tokens = sum(count * length for count, length in side["runs"])
            total += 2 * tokens * sum(weight.numel() for weight in layers.parameters() if weight.dim() == 2)
            for window in seen:
                near = (
                    n * length * min(length, 2 * window + 1 if window else length)
                    for n, length in side["runs"]
                )
                total += 4 * inner * sum(near)
            total += sum(4 * inner * n * tgt * src for n, tgt, src in side.get("cross", ()))
        if isinstance(side.get("target"), torch.Tensor) and "target_langs" in side:  # not numbers of words
            total += 2 * side["target"].numel() * cfg.dim * (vocab + cfg.dim)
    return 3 * total


def _dicts(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a batch and all mappings in it, but for what a teacher reads."""
    if isinstance(value, Mapping):
        yield value
        for name, inside in value.items():
            yield from () if name == "teacher" else _dicts(inside)
