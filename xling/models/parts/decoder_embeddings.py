"""Embeddings of the decoder's own: what the decoder reads and writes with, apart from the encoder's table.

Ids stay those of one vocabulary. Two models that were trained apart keep their tables so, as each side of XLM's
encoder-decoder does.

Source: Conneau & Lample 2019, section 5.2 and its code, where encoder and decoder are each loaded whole.
"""

from typing import Any

from xling.models.model_setting import DECODER, setting
from xling.models.parts import PARTS, Part


@PARTS.register("decoder_embeddings")
class DecoderEmbeddings(Part):
    """the decoder has embeddings of its own, which are also its output matrix unless ``untied_head``."""

    setting = setting(False, only=DECODER, same=True)

    def attach(self, side: Any, value: bool) -> None:
        """Give a decoder its table; an encoder stays as it is."""
        from torch import nn

        if not hasattr(side, "head"):
            return
        size, dim = side.head.weight.shape
        side.words = nn.Embedding(size, dim, padding_idx=1)
        nn.init.normal_(side.words.weight, std=0.02)
        nn.init.zeros_(side.words.weight[1])
        if not side.cfg.untied_head:
            side.head.weight = side.words.weight
