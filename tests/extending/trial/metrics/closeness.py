"""How near a grade is to the right one: a metric in one file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xling.eval.kinds.base import Example
from xling.eval.metrics.base import METRICS, Array, Metric, mean, with_count


def closeness(examples: Sequence[Example], predictions: Sequence[Any], lang: str) -> Array:
    """Statistics (1 less the share of the scale that an answer is off by, 1)."""
    pairs = zip(examples, predictions, strict=True)
    return with_count([1 - abs(prediction - row.label) / 4 for row, prediction in pairs])


METRICS.add("closeness", Metric("closeness", closeness, mean, lambda lang: "closeness:1"))
