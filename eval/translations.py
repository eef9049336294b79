"""Translations by our own model for the protocols that translate, made once and kept on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xling.core import manifest
from xling.core.config import to_dict
from xling.core.manifest import write_atomic
from xling.core.stage import load
from xling.eval.backend import SearchConfig


class Translations:
    """A `xling.eval.protocols.Translator` that asks the model only for what it has not translated before.

    Args:
        model: directory of `xling finetune mt`.
        folder: where translations are kept, a file for every list of texts.
        search: how texts are looked for.
    """

    def __init__(self, model: Path, folder: Path, search: SearchConfig) -> None:
        self.model, self.folder, self.search = model, folder, search
        self.digest = manifest.digest(model)
        self._translator: Any = None

    def __call__(self, texts: Sequence[str], src: str, tgt: str) -> list[str]:
        """Return one translation per text.

        Raises:
            UserError: the model has no decoder, or has never seen one of the languages.
        """
        made_of = [self.digest, to_dict(self.search), src, tgt, list(texts)]
        key = hashlib.sha256(json.dumps(made_of, ensure_ascii=False, sort_keys=True).encode()).hexdigest()
        path = self.folder / f"{src}-{tgt}.{key[:16]}.json"
        if path.is_file():
            kept: list[str] = json.loads(path.read_text(encoding="utf-8"))
            return kept
        if self._translator is None:
            self._translator = load("xling.transfer.write:translator")(self.model, self.search)
        made: list[str] = self._translator(texts, src, tgt)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(made, ensure_ascii=False))
        return made
