"""States of a frozen encoder as word vectors of a decoder's source, or words of an encoder mixed by their features.

Sources: frozen states: Edunov et al. 2019, see `xling.models.network.frozen`; words mixed by features:
`xling.models.network.word_features`.
"""

from pathlib import Path
from typing import Any, ClassVar

from xling.core.registry import load
from xling.models.model_setting import setting
from xling.models.parts import PARTS, Part


@PARTS.register("features")
class Features(Part):
    """folder of a frozen encoder of the source, or, without a decoder, of a static one that mixes words; else empty."""

    setting = setting("", own=True)
    is_frozen = True
    name: ClassVar[str] = "features"
    read: ClassVar[str] = "xling.models.network.frozen:read_features"

    def attach(self, side: Any, value: str) -> None:
        """Add the features to the embeddings of an encoder without a decoder."""
        if not hasattr(side.cfg, "decoder_layers"):
            side.tokens = load("xling.models.network.word_features:WordFeatures")(side.tokens, Path(value))

    def connect(self, model: Any, value: str) -> None:
        """Load the frozen encoder and connect it with the layers."""
        load(self.read)(model, value)
