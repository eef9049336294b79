"""Bidirectional LSTMs in place of the layers of an encoder.

LASER has an encoder of five bidirectional LSTMs of 512 cells a direction. Over the maximum of their states, one LSTM
decodes and reads the sentence's vector beside every word. Here each direction has half of ``dim``, and `translation`
with ``pooling=max`` trains it. The decoder stays a Transformer: with ``pooling`` its attention to the source sees one
vector, so every layer adds a projection of it at every step.

LSTMs read in order, so there are no positions. Only objectives whose tokens see all of their text can train them.

Source: Artetxe & Schwenk 2019, section 3.1.
"""

from typing import Any

from xling.core.errors import UserError
from xling.core.registry import load
from xling.models.model_setting import setting
from xling.models.parts import PARTS, Part

KINDS = ("transformer", "bilstm")


@PARTS.register("arch")
class Arch(Part):
    """layers of the encoder: ``transformer``, or ``bilstm`` for bidirectional LSTMs of half of ``dim`` a direction."""

    setting = setting(KINDS[0], same=True)

    def check(self, cfg: Any, value: str) -> None:
        """Raise UserError for an unknown kind, an odd width, or parts of a Transformer."""
        if value not in KINDS:
            raise UserError(f"model.arch={value}", " or ".join(KINDS))
        if cfg.dim % 2:
            raise UserError(f"model.arch={value} with model.dim={cfg.dim}", "an even width")
        for name, wanted in (
            ("positions", "learnt"), ("attention", "global"), ("pre_norm", False), ("lang_adapter", 0),
        ):  # fmt: skip
            if (given := getattr(cfg, name)) != wanted:
                raise UserError(f"model.arch={value} with model.{name}={given}", f"model.{name}={wanted}")

    def attach(self, side: Any, value: str) -> None:
        """Put LSTMs in place of an encoder's layers; a decoder stays as it is."""
        if hasattr(side, "tokens"):
            load("xling.models.network.lstm:replace_layers")(side)
