"""Attention of all layers to a frozen encoder.

Source: Zhu et al. 2020, see `xling.models.network.frozen`.
"""

from xling.models.model_setting import DECODER, setting
from xling.models.parts import PARTS
from xling.models.parts.features import Features


@PARTS.register("fused")
class Fused(Features):
    """folder of a frozen encoder that every layer attends to beside its own attention (BERT-fused); empty for none."""

    setting = setting("", only=DECODER, own=True)
    name = "fused"
    read = "xling.models.network.frozen:fuse"
