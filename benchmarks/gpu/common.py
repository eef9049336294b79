"""What the stages share: the device, its ceilings, timing, tables."""

from __future__ import annotations

import gc
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

# Dense bfloat16 products, FLOP/s: NVIDIA's data sheets. float32 (TF32) is half of it on these.
PEAKS = {"H100": 989e12, "H200": 989e12, "A100": 312e12}


def device() -> torch.device:
    """Return ``DEVICE``, or the GPU if there is one."""
    return torch.device(os.environ.get("DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu"))


def device_name() -> str:
    """Return the name of the device."""
    return torch.cuda.get_device_name() if device().type == "cuda" else "cpu"


def wait() -> None:
    """Until the device has done what it was given."""
    if device().type == "cuda":
        torch.cuda.synchronize()


def seconds(function: Callable[[], Any], times: int = 5, warm: int = 2) -> float:
    """Return the median of ``times`` calls, after ``warm`` others."""
    times_s = []
    for number in range(warm + times):
        wait()
        begin = time.perf_counter()
        function()
        wait()
        if number >= warm:
            times_s.append(time.perf_counter() - begin)
    return statistics.median(times_s)


def product_rate(dtype: torch.dtype, size: int) -> float:
    """Return the FLOP/s of a product of two random square matrices."""
    left, right = (torch.randn(size, size, device=device(), dtype=dtype) for _ in range(2))
    return 2 * size**3 / seconds(lambda: left @ right, 10)


def peak() -> float:
    """Return the bfloat16 FLOP/s of the data sheet; 0 if the device is not in `PEAKS`."""
    return next((rate for name, rate in PEAKS.items() if name in device_name()), 0.0)


def free() -> None:
    """Give back what nobody holds any more."""
    gc.collect()
    if device().type == "cuda":
        torch.cuda.empty_cache()


class Table:
    """Rows of one measurement; written again after each, so that a stage that is stopped leaves what it has.

    Args:
        stage: name of the files.
        about: one sentence: what was measured.
        facts: settings, written beside it.
    """

    def __init__(self, stage: str, about: str, **facts: Any) -> None:
        self._path, self._about = Path(os.environ.get("OUT", "runs/gpu")) / stage, about
        self._facts = {"device": device_name(), "torch": torch.__version__, **facts}
        self._rows: list[dict[str, Any]] = []
        print(f"\n{about}: {self._facts}", flush=True)

    def add(self, **row: Any) -> None:
        """One row; floats are shown with three digits that count."""
        self._rows.append(row)
        print("  " + ", ".join(f"{key} {_shown(value)}" for key, value in row.items()), flush=True)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        content = {"about": self._about, "facts": self._facts, "rows": self._rows}
        self._path.with_suffix(".json").write_text(json.dumps(content, indent=1, default=str) + "\n")
        self._path.with_suffix(".md").write_text(self._markdown())

    def _markdown(self) -> str:
        columns = list(dict.fromkeys(key for row in self._rows for key in row))
        lines = [
            f"{self._about}; {self._facts}\n",
            f"| {' | '.join(columns)} |",
            "| --- " * len(columns) + "|",
        ]
        lines += [f"| {' | '.join(_shown(row.get(key, '')) for key in columns)} |" for row in self._rows]
        return "\n".join(lines) + "\n"


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
