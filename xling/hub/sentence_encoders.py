"""Models of transformers and of sentence-transformers as encoders (`xling.text.encoders`), as they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xling.array_types import Float32
from xling.core.errors import UserError
from xling.hub.cached import HF_PREFIX, cached_checkpoint
from xling.text.encoders import Encoder, encoder_of


def open_hf(path: Path) -> Encoder:
    """Import a model of transformers into the cache, and return it."""
    return encoder_of(cached_checkpoint(f"{HF_PREFIX}{path}"))


class SentenceTransformersEncoder:
    """A model of sentence-transformers with its own pooling; nothing is downloaded, and no code of a folder is run.

    Args:
        folder: as `SentenceTransformer.save` writes it.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise UserError(
                f"{folder} needs the package sentence-transformers", fix="pip install sentence-transformers"
            ) from None
        try:
            self._model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
        except Exception as error:  # the library raises whatever its modules do
            raise UserError(
                f"{folder} cannot be read by sentence-transformers: {type(error).__name__} {error}",
                "a folder that SentenceTransformer(...).save wrote, without code of its own",
            ) from None

    def embed(
        self, texts: Sequence[str], lang: str, layer: int, pooling: str
    ) -> Float32[np.ndarray, "texts dim"]:
        """Return sentence vectors by the model's own pooling, float32 (num_texts, dim)."""
        vectors: Any = self._model.encode(list(texts), show_progress_bar=False)
        return np.asarray(vectors, np.float32)

    def word_vectors(self, sentences: Sequence[Sequence[str]], lang: str, layer: int) -> list[Any]:
        """Raise UserError: a model of sentences has no vectors of words."""
        raise UserError("a model of sentence-transformers has no vectors of words", "a checkpoint of ours")
