"""Model settings in separate files: ``NAME.py`` holds the setting ``model.NAME`` and its implementation.

The settings are read without torch, so such a file imports torch only inside of its functions::

    @PARTS.register("embedding_noise")
    class EmbeddingNoise(Part):
        setting = setting(0.0, NOT_NEGATIVE, own=True)

        def attach(self, side: Any, value: Any) -> None: ...
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from xling.core.registry import Registry


class Part:
    """A model setting and its implementation.

    Attributes:
        setting: made by `xling.models.model_setting.setting`; its default adds nothing.
        has_pieces: whether every piece keeps a vector of its own at the input. If not, `xling trim` has nothing to
            take off. A module in place of the embeddings may have ``spell(symbols)``, which is given the dictionary,
            and ``know(rows)``, which is given the rows that ``freeze_pieces`` keeps.
        is_frozen: whether the value is the folder of a frozen encoder that the model reads.
    """

    setting: Any
    has_pieces: ClassVar[bool] = True
    is_frozen: ClassVar[bool] = False

    def check(self, cfg: Any, value: Any) -> None:
        """Check that the part fits the settings ``cfg`` of a model.

        Raises:
            UserError: it does not.
        """

    def attach(self, side: Any, value: Any) -> None:
        """Add the part to a new encoder or decoder, in place.

        Args:
            side: the encoder or decoder; both have ``cfg``, ``norm`` (of the embeddings), ``layers`` and
                ``final_norm``.
            value: value of the setting, not its default.
        """

    def connect(self, model: Any, value: Any) -> None:
        """Add what concerns both sides of a new model with a decoder, in place; the arguments as for `attach`."""


FAIRSEQ_MODELS = ("xling_encoder", "xling_seq2seq")
PARTS: Registry[type[Part]] = Registry("model setting", __name__, "part")


def without_pieces(shape: Mapping[str, Any]) -> str:
    """Return the first setting in use that leaves the pieces without vectors at the input, or "".

    Args:
        shape: settings of a model by name, as its file records them.
    """
    lacking = ((name, part.setting.default) for name, part in PARTS.items() if not part.has_pieces)
    return next((name for name, default in lacking if shape.get(name, default) != default), "")


def value(cfg: Any, name: str) -> Any:
    """Return the value of a part's setting, its default where the settings ``cfg`` do not have it.

    Stock fairseq puts the name of a model, its own ``--arch``, among the settings of the model.
    """
    default = PARTS[name].setting.default
    given = getattr(cfg, name, default)
    return default if name == "arch" and given in FAIRSEQ_MODELS else given


def frozen_encoders(cfg: Any) -> dict[str, str]:
    """Return the folders of the frozen encoders that a model reads, by setting."""
    folders = {name: value(cfg, name) for name, part in PARTS.items() if part.is_frozen}
    return {name: folder for name, folder in folders.items() if folder}


def check(cfg: Any) -> None:
    """Check every part whose setting is not at its default against the other settings; raises UserError."""
    for part, value in _used(cfg):
        part.check(cfg, value)


def attach(side: Any) -> None:
    """Apply every part whose setting is not at its default to a side of a model."""
    check(side.cfg)
    for part, value in _used(side.cfg):
        part.attach(side, value)


def connect(model: Any) -> None:
    """Apply what the parts in use do to a model with both sides."""
    for part, value in _used(model.cfg):
        part.connect(model, value)


def _used(cfg: Any) -> list[tuple[Part, Any]]:
    # An encoder's configuration has no settings of a decoder.
    values = [(part, value(cfg, name)) for name, part in PARTS.items()]
    return [(part(), given) for part, given in values if given != part.setting.default]
