"""Model settings in separate files: ``NAME.py`` holds the setting ``model.NAME`` and its implementation.

The settings are read without torch, so such a file imports torch only inside of its functions::

    @PARTS.register("embedding_noise")
    class EmbeddingNoise(Part):
        setting = setting(0.0, NOT_NEGATIVE, own=True)

        def attach(self, side: Any, value: Any) -> None: ...
"""

from __future__ import annotations

from typing import Any

from xling.core.registry import Registry


class Part:
    """A model setting and its implementation.

    Attributes:
        setting: made by `xling.models.setting.setting`; its default adds nothing.
    """

    setting: Any

    def attach(self, side: Any, value: Any) -> None:
        """Add the part to a new encoder or decoder, in place.

        Args:
            side: the encoder or decoder; both have ``cfg``, ``norm`` (of the embeddings), ``layers`` and
                ``final_norm``.
            value: value of the setting, not its default.
        """
        raise NotImplementedError


PARTS: Registry[type[Part]] = Registry("model setting", __name__, "part")


def attach(side: Any) -> None:
    """Apply every part whose setting is not at its default to a side of a model."""
    for name, part in PARTS.items():
        if (value := getattr(side.cfg, name)) != part.setting.default:
            part().attach(side, value)
