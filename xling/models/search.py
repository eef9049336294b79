"""Settings of generation; apart from it, since they load without torch."""

from __future__ import annotations

from dataclasses import dataclass

from xling.core import ranges
from xling.core.errors import UserError
from xling.core.ranges import NOT_NEGATIVE, POSITIVE, Range, ranged


@dataclass(frozen=True)
class Search:
    """How to look for the best output.

    Attributes:
        beam: hypotheses kept; 1 is greedy.
        length_penalty: exponent of the length that a score is divided by; above 1 favours long outputs.
        max_len_a, max_len_b: an output has at most ``a * source length + b`` tokens, ``</s>`` not counted.
        min_len: tokens before ``</s>`` at least.
        sample: draw from the distribution instead of searching; with ``beam`` 1.
        top_k: draw from the best k only, 0 for all.
        temperature: of the drawing; below 1 sharpens.
        seed: of the drawing.
    """

    beam: int = ranged(5, Range(least=1))
    length_penalty: float = 1.0
    max_len_a: float = ranged(1.5, NOT_NEGATIVE)
    max_len_b: int = ranged(10, Range(least=1))
    min_len: int = ranged(1, NOT_NEGATIVE)
    sample: bool = False
    top_k: int = ranged(0, NOT_NEGATIVE)
    temperature: float = ranged(1.0, POSITIVE)
    seed: int = 1

    def __post_init__(self) -> None:
        ranges.check(self)
        if self.sample and self.beam > 1:
            raise UserError(f"sample with beam={self.beam}", "beam=1")
