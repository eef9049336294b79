"""Declaration of a model setting, used in `xling.models.shape` and in files of separate settings."""

from dataclasses import field
from typing import Any, Literal

from xling.core.settings.values import RANGE, Range

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
    """Declare the dataclass field of a setting.

    Args:
        default: a plain value.
        valid: its range.
        only: the setting only applies to encoder-only models, or only to models with a decoder.
        same: must be equal in a model and the one that it starts from: weights of the same shapes would have
            another meaning.
        own: describes how a run computes, not the model: a run that takes its shape from a checkpoint keeps
            its own value.
    """
    more = {"only": only, "same": same, "own": own}
    return field(default=default, metadata=more if valid is None else {**more, RANGE: valid})
