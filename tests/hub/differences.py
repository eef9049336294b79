"""The largest difference of our outputs from those of another library, as tests bound it and the docs list it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np


def largest(found: Any, wanted: Any) -> float:
    """Return the largest absolute difference of two arrays or tensors of one shape.

    It is also appended to the file that XLING_DIFFERENCES names, with the name of the test
    (`benchmarks/differences.py`).
    """
    found, wanted = (np.asarray(x.detach() if hasattr(x, "detach") else x) for x in (found, wanted))
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    difference = float(np.abs(found - wanted).max())
    if path := os.environ.get("XLING_DIFFERENCES"):
        test = os.environ["PYTEST_CURRENT_TEST"].split(" ")[0]
        row = {"test": test, "difference": difference, "largest": float(np.abs(wanted).max())}
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    return difference
