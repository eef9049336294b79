"""One set of weights for all layers of a side.

The whole layer is shared, attention and feed-forward block, as in ALBERT's best-known form. Its second part, narrower
word vectors, is not here.

Source: Lan et al. 2020, section 3.1 (cross-layer parameter sharing).
"""

from typing import Any

from xling.core.errors import UserError
from xling.models.model_setting import setting
from xling.models.parts import PARTS, Part


@PARTS.register("share_layers")
class ShareLayers(Part):
    """all layers are one, so the weights are as many as those of a single layer (ALBERT)."""

    setting = setting(False, same=True)

    def check(self, cfg: Any, value: bool) -> None:
        """Raise UserError where the first layer differs from the others."""
        if not cfg.first_norm:
            raise UserError("model.share_layers=true with model.first_norm=false", "model.first_norm=true")

    def attach(self, side: Any, value: bool) -> None:
        """Put the first layer in place of all others."""
        for index in range(1, len(side.layers)):
            side.layers[index] = side.layers[0]
