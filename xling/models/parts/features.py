"""States of a frozen encoder as word vectors of the source.

Source: Edunov et al. 2019, see `xling.models.network.frozen`.
"""

from typing import Any, ClassVar

from xling.core.registry import load
from xling.models.model_setting import DECODER, setting
from xling.models.parts import PARTS, Part


@PARTS.register("features")
class Features(Part):
    """folder of a frozen encoder whose states are the word vectors of a source; empty for none."""

    setting = setting("", only=DECODER, own=True)
    is_frozen = True
    name: ClassVar[str] = "features"
    read: ClassVar[str] = "xling.models.network.frozen:read_features"

    def connect(self, model: Any, value: str) -> None:
        """Load the frozen encoder and connect it with the layers."""
        load(self.read)(model, value)
