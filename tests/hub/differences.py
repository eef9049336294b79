"""The largest difference of our outputs from those of another library, as tests bound it and the docs list it."""

from __future__ import annotations

from typing import Any

import numpy as np


def largest(found: Any, wanted: Any) -> float:
    """Return the largest absolute difference of two arrays or tensors of one shape."""
    found, wanted = (np.asarray(x.detach() if hasattr(x, "detach") else x) for x in (found, wanted))
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    return float(np.abs(found - wanted).max())
