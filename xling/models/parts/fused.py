"""Attention of all layers to a frozen encoder.

Source: Zhu et al. 2020, see `xling.models.network.frozen`.
"""

from typing import Any

from xling.core.errors import UserError
from xling.models import parts
from xling.models.model_setting import DECODER, setting
from xling.models.parts import PARTS
from xling.models.parts.features import Features


@PARTS.register("fused")
class Fused(Features):
    """folder of a frozen encoder that every layer attends to beside its own attention (BERT-fused); empty for none."""

    setting = setting("", only=DECODER, own=True)
    name = "fused"
    read = "xling.models.network.frozen:fuse"

    def check(self, cfg: Any, value: str) -> None:
        """Raise UserError where the layers have no attention of their own to mix with."""
        if (arch := parts.value(cfg, "arch")) != "transformer":
            raise UserError(
                f"model.fused={value} with model.arch={arch}",
                "model.arch=transformer",
                "model.features= takes both",
            )
