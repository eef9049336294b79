"""Attention windows of layers, without torch, since settings are checked with it."""

import re

from xling.core.errors import UserError

GLOBAL = "global"
_PATTERN = re.compile(r"local:(\d+)/global:(\d+)")


def of(attention: str, layers: int) -> list[int]:
    """Return how many tokens each layer sees to either side, 0 for all.

    Args:
        attention: ``global``, or ``local:W/global:K``: every K-th layer from the first sees all, the others W
            / 2 tokens to either side.
        layers: number of layers of the model.

    Raises:
        UserError: it is neither.

    Example:
        >>> of("local:128/global:3", 4)
        [0, 64, 64, 0]
    """
    if attention == GLOBAL:
        return [0] * layers
    match = _PATTERN.fullmatch(attention)
    width, every = (int(n) for n in match.groups()) if match else (0, 0)
    if width < 2 or width % 2 or every < 1:
        raise UserError(
            f"model.attention={attention}",
            "global, or local:W/global:K with an even W, for example local:128/global:3",
        )
    return [width // 2 if layer % every else 0 for layer in range(layers)]
