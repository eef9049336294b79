"""Amounts of bytes and of time as people write them: ``20GB``, ``90m``."""

import re

from xling.core.errors import UserError

_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([A-Za-z]+)")
_BYTES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_BYTES |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def num_bytes(text: str) -> int | None:
    """Return the bytes of ``20GB`` or ``500 MiB``; None for what has no unit of bytes."""
    match = _AMOUNT.fullmatch(text.strip())
    unit = _BYTES.get(match[2].lower()) if match else None
    return int(float(match[1]) * unit) if match and unit else None


def num_seconds(name: str, text: str) -> float:
    """Return the seconds of ``90m``, ``2h`` or ``45s``; 0 for "".

    Raises:
        UserError: not a time above 0.
    """
    if not text:
        return 0.0
    match = _AMOUNT.fullmatch(text.strip())
    unit = _SECONDS.get(match[2].lower()) if match else None
    if not match or not unit or not float(match[1]):
        raise UserError(f"{name}={text}", "a time above 0 with its unit: 45s, 90m, 2h or 1d")
    return float(match[1]) * unit
