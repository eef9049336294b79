"""Cache of translations by our own model, for the protocols that translate."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xling.core.commands.runner import load
from xling.core.output import manifest, sealed
from xling.core.settings.config import to_dict
from xling.eval.systems import SearchConfig


class Translations:
    """A `xling.eval.rows.protocols.Translator` that only translates texts that are not in its cache.

    Args:
        model: directory of `xling finetune mt`.
        folder: folder of the cache, one file per list of texts.
        search: search settings.
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
        if sealed.is_good(path):
            cached: list[str] = sealed.read_json(path)
            return cached
        if self._translator is None:
            self._translator = load("xling.transfer.generation.decoder_system:load_translator")(
                self.model, self.search
            )
        translated: list[str] = self._translator(texts, src, tgt)
        sealed.write_json(path, translated)
        return translated
