"""How a setting of a model is written, in `xling.models.shape` or in a file of its own."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal

from xling.core.ranges import RANGE, Range

Side = Literal["encoder", "decoder"]
ENCODER: Side = "encoder"
DECODER: Side = "decoder"


def setting(
    default: Any,
    valid: Range | None = None,
    only: Side | None = None,
    same: bool = False,
    own: bool = False,
) -> Any:
    """The field of a setting.

    Args:
        default: a plain value.
        valid: its range.
        only: counts only in a model that is an encoder alone, or only in one with a decoder.
        same: must be equal in a model and the one that it starts from: weights of the same shapes would mean
            something else.
        own: says how a run computes, not what the model is: a run that takes its shape from a checkpoint keeps its
            own value.
    """
    more = {"only": only, "same": same, "own": own}
    return field(default=default, metadata=more if valid is None else {**more, RANGE: valid})
