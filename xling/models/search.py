"""Settings of generation; apart from it, since they load without torch."""

from __future__ import annotations

from dataclasses import dataclass

from xling.core.errors import UserError


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

    beam: int = 5
    length_penalty: float = 1.0
    max_len_a: float = 1.5
    max_len_b: int = 10
    min_len: int = 1
    sample: bool = False
    top_k: int = 0
    temperature: float = 1.0
    seed: int = 1

    def __post_init__(self) -> None:
        for name, least in (("beam", 1), ("min_len", 0), ("top_k", 0), ("max_len_b", 1), ("max_len_a", 0)):
            if getattr(self, name) < least:
                raise UserError(f"{name}={getattr(self, name)}", f"a number from {least}")
        if self.sample and self.beam > 1:
            raise UserError(f"sample with beam={self.beam}", "beam=1")
        if self.temperature <= 0:
            raise UserError(f"temperature={self.temperature}", "a number above 0")
