"""The shape of a static encoder; no torch here, so that a stage's settings load without it."""

from __future__ import annotations

from dataclasses import dataclass

from xling.core import ranges
from xling.core.ranges import Range, ranged

_MORE = Range(above=0, words="more than 0")


def _whole(least: int, most: int) -> Range:
    return Range(least, most, words=f"a whole number from {least} to {most}")


@dataclass(frozen=True)
class StaticConfig:
    """Shape of the encoder.

    Attributes:
        dim: of the vectors.
        bits: the table has ``2 ** bits`` rows.
        smooth: a in the weight a / (a + share) of a word.
        sketch: numbers of a sentence's sketch, a random projection of its features that learns nothing: names and
            numbers that no training text holds are found by it. 0 for none.
        sketch_weight: its length beside that of the learned vector.
    """

    dim: int = ranged(192, _whole(1, 4096))
    bits: int = ranged(19, _whole(1, 26))
    smooth: float = ranged(1e-3, _MORE)
    sketch: int = ranged(384, _whole(0, 4096))
    sketch_weight: float = ranged(0.8, _MORE)

    def __post_init__(self) -> None:
        """Refuse what has no table.

        Raises:
            UserError: a setting out of range.
        """
        ranges.check(self)
