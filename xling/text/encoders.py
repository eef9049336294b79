"""Interface to encoders of sentences and words for mining, alignment and filters, independent of any model.

Encoders are looked up by name: ``checkpoint`` is a model of `xling pretrain`, and other packages may add
theirs (`xling.core.registry`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

from xling.array_types import Float, Float32
from xling.core.commands.inputs import SENTENCE_TRANSFORMERS_FILE
from xling.core.errors import UserError
from xling.core.registry import Registry


class Encoder(Protocol):
    """Interface of an encoder that computes vectors of texts."""

    def embed(
        self, texts: Sequence[str], lang: str, layer: int, pooling: str
    ) -> Float[np.ndarray, "texts dim"]:
        """Return sentence vectors, float (num_texts, dim).

        ``layer`` -1 is the last, ``pooling`` mean, max or cls.
        """
        ...

    def word_vectors(
        self, sentences: Sequence[Sequence[str]], lang: str, layer: int
    ) -> list[Float32[np.ndarray, "_ dim"]]:
        """Return for each sentence the contextual vectors of its words, float32 (num_words, dim)."""
        ...


ENCODERS: Registry[Callable[[Path], Encoder]] = Registry("encoder", plugin="encoder")
ENCODERS.register_target("checkpoint", "xling.transfer.words:CheckpointEncoder")
ENCODERS.register_target("hf", "xling.hub.sentence_encoders:open_hf")
ENCODERS.register_target("sentence-transformers", "xling.hub.sentence_encoders:SentenceTransformersEncoder")


def encoder_of(checkpoint: str | Path) -> Encoder:
    """Return the encoder in an output directory of `xling pretrain`."""
    return ENCODERS["checkpoint"](Path(checkpoint))


def open_encoder(name: str) -> Encoder:
    """Return the encoder ``NAME:PATH`` or ``NAME`` of a plug-in, or the one in a folder.

    A folder holds a model of ours, deep or static, or one of sentence-transformers.

    Raises:
        UserError: there is no such encoder.
    """
    check_encoder(name)
    kind, _, path = name.partition(":")
    if kind in ENCODERS:
        return ENCODERS[kind](Path(path))
    folder = Path(name)
    is_foreign = (folder / SENTENCE_TRANSFORMERS_FILE).is_file()
    return ENCODERS["sentence-transformers" if is_foreign else "checkpoint"](folder)


def check_encoder(name: str) -> None:
    """Raise UserError where `open_encoder` knows neither a folder nor a name; nothing is loaded."""
    if name.partition(":")[0] not in ENCODERS and not Path(name).is_dir():
        raise UserError(
            f"the encoder {name} is neither a folder nor a name",
            f"a folder with a model, or NAME or NAME:PATH with one of {', '.join(ENCODERS)}",
        )


@dataclass(frozen=True)
class SentenceVectors:
    """Sentence vectors of one encoder, which is loaded when it is first asked.

    Attributes:
        checkpoint: output directory of `xling pretrain`.
        layer: layer of the vectors, -1 the last.
        pooling: ``mean``, ``max`` or ``cls``.
    """

    checkpoint: Path
    layer: int = -1
    pooling: str = "mean"

    @cached_property
    def _encoder(self) -> Encoder:
        return encoder_of(self.checkpoint)

    def embed(self, texts: Sequence[str], lang: str) -> Float32[np.ndarray, "texts dim"]:
        """Return the vectors of texts in one language, float32 (num_texts, dim)."""
        return np.asarray(self._encoder.embed(texts, lang, self.layer, self.pooling), np.float32)
