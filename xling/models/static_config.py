"""The shape of a static encoder; no torch here, so that a stage's settings load without it."""

from __future__ import annotations

from dataclasses import dataclass

from xling.core.errors import UserError


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

    dim: int = 192
    bits: int = 19
    smooth: float = 1e-3
    sketch: int = 384
    sketch_weight: float = 0.8

    def __post_init__(self) -> None:
        """Refuse what has no table.

        Raises:
            UserError: a setting out of range.
        """
        for name, least, most in (("dim", 1, 4096), ("bits", 1, 26), ("sketch", 0, 4096)):
            if not least <= getattr(self, name) <= most:
                raise UserError(f"{name}={getattr(self, name)}", f"a whole number from {least} to {most}")
        for name in ("smooth", "sketch_weight"):
            if not getattr(self, name) > 0:
                raise UserError(f"{name}={getattr(self, name)}", "more than 0")
