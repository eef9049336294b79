"""Settings of ``xling analyse bits`` and their check, without torch."""

from dataclasses import dataclass
from pathlib import Path

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings.values import Lang
from xling.text.files import corpus_reader


@dataclass(frozen=True)
class BitsConfig:
    """Settings of ``xling analyse bits``.

    Attributes:
        checkpoint: model of the objective ``bilm``.
        text: language -> text files that the model has not seen.
        out: directory to publish: ``bits.json``.
        lines: lines of each language, the first ones; 0 for all.
    """

    checkpoint: Path
    text: dict[Lang, tuple[str, ...]]
    out: Path
    lines: int = 1000


def check(cfg: BitsConfig) -> None:
    """Check the text and the model.

    Raises:
        UserError: no text is named, a file is missing, or the model is not of the objective ``bilm``.
    """
    if not cfg.text:
        raise UserError("no text is named", "a file of each language", "text.LANG=FILE")
    for paths in cfg.text.values():
        corpus_reader.resolve_files(paths)
    if "bilm" not in manifest.read(cfg.checkpoint).config.get("objectives", {}):
        raise UserError(
            f"{cfg.checkpoint} was not trained with the objective bilm",
            "a checkpoint of xling pretrain objectives.bilm",
            "train one",
        )
