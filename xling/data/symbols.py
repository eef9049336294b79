"""Symbols after the pieces: ``<mask>``, a token for each language, and sentinels for corrupted spans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xling.array_types import Int
from xling.core import languages
from xling.core.errors import UserError

NUM_SENTINELS = 100
EOS = 2


@dataclass(frozen=True)
class Symbols:
    """Ids of the symbols of a model with a decoder.

    Attributes:
        mask: id of ``<mask>``, the first after the pieces.
        langs: the languages, whose tokens follow in this order; the sentinels come after them.
        sentinels: number of sentinels; imported models have none.
        source_lang: whether a source has the token of its language, as mBART's does; T5's does not.
        lang_first: whether a source begins with it, and the decoder reads ``</s>`` before it.
        documents: whether a target is several sentences, each with ``</s>``, and ends with the token of its language.
    """

    mask: int
    langs: tuple[str, ...]
    sentinels: int = NUM_SENTINELS
    source_lang: bool = True
    lang_first: bool = False
    documents: bool = False

    @classmethod
    def of_size(
        cls, size: int, langs: Sequence[str], source_lang: bool = True, lang_first: bool = False
    ) -> Symbols:
        """Return the symbols of a model trained here with ``size`` token ids."""
        mask = size - NUM_SENTINELS - len(langs) - 1
        return cls(mask, tuple(langs), source_lang=source_lang, lang_first=lang_first)

    @classmethod
    def behind(
        cls, mask: int, size: int, langs: Sequence[str], source_lang: bool = True, lang_first: bool = False
    ) -> Symbols:
        """Return the symbols of a model with ``size`` token ids, of which those below ``mask`` are pieces."""
        return cls(mask, tuple(langs), size - mask - 1 - len(langs), source_lang, lang_first)

    @property
    def size(self) -> int:
        """Return the number of token ids in all."""
        return self.sentinel(self.sentinels)

    @property
    def default(self) -> int:
        """Return the index of the default language: English if present, else the first."""
        return self.langs.index("en") if "en" in self.langs else 0

    def lang(self, index: int) -> int:
        """Return the id of the token of the language with this index."""
        return self.mask + 1 + index

    def with_lang(self, source: Int[np.ndarray, " length"], index: int) -> Int[np.ndarray, " _"]:
        """Return a source (length,) as the encoder reads it, with its language token if the model uses one."""
        if not self.source_lang:
            return source
        return np.insert(source, 0 if self.lang_first else len(source), self.lang(index))

    def prompt(self, index: int) -> list[int]:
        """Return what the decoder reads before the first token that it writes in this language."""
        return [EOS, self.lang(index)] if self.lang_first else [self.lang(index)]

    def end(self, index: int) -> int:
        """Return the id that ends an output in the language with this index."""
        return self.lang(index) if self.documents else EOS

    def sentinel(self, index: int) -> int:
        """Return the id of a sentinel."""
        return self.mask + 1 + len(self.langs) + index

    def index_of(self, lang: str, what: str) -> int:
        """Return the index of a language.

        Raises:
            UserError: the model ``what`` was not trained on it.
        """
        if (name := languages.find(lang, self.langs)) is None:
            raise UserError(
                f"{what} was not trained on {lang!r}",
                ", ".join(self.langs),
                "train it on text of that language first",
            )
        return self.langs.index(name)

    def names(self) -> list[str]:
        """Return the names of the symbols after ``<mask>`` in the dictionary."""
        return [f"[{lang}]" for lang in self.langs] + [f"<extra_id_{i}>" for i in range(self.sentinels)]
