"""Ranges of settings: declared beside the default of each setting and checked in one place."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from xling.core.errors import UserError, unknown

RANGE = "range"


@dataclass(frozen=True)
class Range:
    """The interval of valid numbers for a setting; infinite numbers are never valid.

    Attributes:
        least, most: inclusive bounds.
        above, below: exclusive bounds.
        words: description of the valid values for messages; if empty, it is made from the bounds.
    """

    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf
    below: float = math.inf
    words: str = ""

    def holds(self, value: float) -> bool:
        """Return whether ``value`` is in the range."""
        return self.least <= value <= self.most and self.above < value < self.below

    def __str__(self) -> str:
        if self.words:
            return self.words
        bounds = (("from", self.least), ("above", self.above), ("to", self.most), ("below", self.below))
        return " ".join(
            ["a number", *(f"{word} {bound:g}" for word, bound in bounds if math.isfinite(bound))]
        )


class OneOf(tuple[str, ...]):
    """The closed list of valid texts for a setting whose type is plain text."""

    def holds(self, value: str) -> bool:
        """Return whether ``value`` is in the list."""
        return value in self

    def __str__(self) -> str:
        return "one of " + ", ".join(filter(None, self))


COUNT = Range(least=1, words="a whole number from 1")
POSITIVE = Range(above=0)
NOT_NEGATIVE = Range(least=0)
SHARE = Range(least=0, below=1, words="a share from 0, below 1")
SEQUENCE = Range(least=8, words="a whole number from 8")
"""Tokens of a sequence, with room for specials and a piece on either side."""
PART = Range(least=0, most=1, words="a share from 0 to 1")


def ranged(default: Any, valid: Range | OneOf, metadata: Mapping[str, Any] | None = None) -> Any:
    """Declare a dataclass field with a default and a range."""
    return field(default=default, metadata={**(metadata or {}), RANGE: valid})


def check(cfg: Any, prefix: str = "", declared: Any = None) -> None:
    """Reject settings of a dataclass that are outside of the range that their field declares.

    Args:
        cfg: a dataclass with fields of `ranged`.
        prefix: prefix of the setting's name in messages, for example ``model.``.
        declared: the dataclass, if ``cfg`` holds its values and is none.

    Raises:
        UserError: a setting is out of its range; the first one is named.
    """
    for item in fields(declared or cfg):
        valid, value = item.metadata.get(RANGE), getattr(cfg, item.name)
        if valid is not None and not valid.holds(value):
            if isinstance(valid, OneOf):
                raise unknown(f"value for {prefix}{item.name}", value, valid)
            raise UserError(f"{prefix}{item.name}={value}", str(valid))
