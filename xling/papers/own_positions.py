"""Positions of each language's own: a model setting that takes away what languages share besides their pieces.

Position i of one language has another learnt vector than position i of the next. Dufter & Schütze also give each
language a segment vector of its own; added to every position it says no more than positions of its own can, so there is
none here. They have two languages; with more, the value says how many have tables, in the order of the model's
languages, and all behind the last share that one's.

Source: Dufter & Schütze 2020, section 2.2 (lang-pos).
"""

from typing import Any

from xling.core.errors import UserError
from xling.core.settings.values import NOT_NEGATIVE
from xling.models.model_setting import ENCODER, setting
from xling.models.parts import PARTS, Part


@PARTS.register("own_positions")
class OwnPositions(Part):
    """number of languages with positions of their own, 0 for positions that all share."""

    setting = setting(0, NOT_NEGATIVE, only=ENCODER)

    def check(self, cfg: Any, value: int) -> None:
        """Raise UserError where a model has no learnt positions."""
        if cfg.positions != "learnt":
            raise UserError(
                f"model.own_positions={value} with model.positions={cfg.positions}", "model.positions=learnt"
            )

    def attach(self, side: Any, value: int) -> None:
        """Put tables for ``value`` languages in place of the shared one."""
        from torch import nn

        room, side.positions = side.cfg.max_positions, None

        class Tables(nn.Embedding):
            def forward(self, x: Any, positions: Any, langs: Any) -> Any:  # type: ignore[override]
                return x + super().forward(positions + room * langs.clamp(max=value - 1))

        side.inputs.append(Tables(value * room, side.cfg.dim))
        nn.init.normal_(side.inputs[-1].weight, std=0.02)
