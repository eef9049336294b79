"""In which precision a machine trains by default; `model.precision=auto` and ``xling doctor`` say the same."""

from typing import Any


def has_fast_bfloat16(torch: Any) -> tuple[bool, str]:
    """Return whether the GPU, or without one the processor, multiplies bfloat16 fast, and the reason.

    Emulation does not count: it is slower than float32.

    Args:
        torch: the module; it is passed in, so that this file loads without it.
    """
    if torch.cuda.is_available():
        is_fast, reason = torch.cuda.is_bf16_supported(including_emulation=False), "the GPU has {}bfloat16"
    else:
        is_fast = torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()
        reason = "the processor has {}AMX or AVX512-BF16"
    return bool(is_fast), reason.format("" if is_fast else "no ")
