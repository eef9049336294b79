"""Settings of a model in files of their own: ``NAME.py`` holds the setting ``model.NAME`` and what it does.

Such a file is read without torch, for the settings alone, so it imports torch inside of its functions::

    @PARTS.register("embedding_noise")
    class EmbeddingNoise(Part):
        setting = setting(0.0, NOT_NEGATIVE, own=True)

        def attach(self, side: Any, value: Any) -> None: ...
"""

from __future__ import annotations

from typing import Any

from xling.core.registry import Registry


class Part:
    """A setting and what it adds.

    Attributes:
        setting: made by `xling.models.setting.setting`; its default adds nothing.
    """

    setting: Any

    def attach(self, side: Any, value: Any) -> None:
        """Change a new `xling.models.encoder.Encoder` or `xling.models.seq2seq.Decoder`, in place.

        Args:
            side: either; both have ``cfg``, ``norm`` (of the embeddings), ``layers`` and ``final_norm``.
            value: of the setting, not its default.
        """
        raise NotImplementedError


PARTS: Registry[type[Part]] = Registry("model setting", __name__, "part")


def attach(side: Any) -> None:
    """Let every part whose setting is not at its default change a side of a model."""
    for name, part in PARTS.items():
        if (value := getattr(side.cfg, name)) != part.setting.default:
            part().attach(side, value)
