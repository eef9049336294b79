"""Checks of models and settings that need no torch, made before the stages of this package are imported."""

from __future__ import annotations

from pathlib import Path

from xling.core import languages, manifest
from xling.core.errors import UserError
from xling.hub.settings import TrimConfig
from xling.models import published
from xling.text import reader, vocab


def trim(cfg: TrimConfig) -> list[Path]:
    """Return all that ``xling trim`` reads, after checking it.

    Raises:
        UserError: there is no text or no checkpoint, a language is unknown, or the model has no pieces to leave out.
    """
    if cfg.least < 1:
        raise UserError(f"least={cfg.least}", "a whole number from 1")
    for lang in cfg.corpora:
        languages.get(lang)
    paths = [path for names in cfg.corpora.values() for path in reader.resolve(names)]
    if not paths:
        raise UserError("no text to keep pieces for", "corpora.LANG=PATH", "name some text")
    if (cfg.checkpoint / vocab.WORDPIECE).is_file():
        raise UserError(
            f"{cfg.checkpoint} has a WordPiece vocabulary", "a SentencePiece one", "use the model as it is"
        )
    inputs = [cfg.checkpoint, *paths]
    if not manifest.is_finished(cfg.out, "trim", cfg, inputs):
        kinds = [published.TASK] if (cfg.checkpoint / published.TASK_FILE).is_file() else published.OURS
        if published.check_model(cfg.checkpoint, *kinds).get("shape", {}).get("char_cnn"):
            raise UserError(
                f"{cfg.checkpoint} has model.char_cnn",
                "a model with a vector for each piece",
                "it reads characters: there is little to trim",
            )
    return inputs
