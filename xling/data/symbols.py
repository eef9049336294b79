"""The symbols behind the pieces: ``<mask>``, a token of each language, and sentinels for corrupted spans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from xling.core.errors import UserError

if TYPE_CHECKING:
    from jaxtyping import Int

NUM_SENTINELS = 100


@dataclass(frozen=True)
class Symbols:
    """Where the symbols of a model with a decoder stand.

    Attributes:
        mask: id of ``<mask>``, the first behind the pieces.
        langs: the languages, whose tokens follow in this order; then come the sentinels.
        sentinels: how many; models that others have trained have none.
        source_lang: whether a source ends in the token of its language, as mBART's does; T5's does not.
    """

    mask: int
    langs: tuple[str, ...]
    sentinels: int = NUM_SENTINELS
    source_lang: bool = True

    @classmethod
    def of_size(cls, size: int, langs: Sequence[str], source_lang: bool = True) -> Symbols:
        """The symbols of a model of ours with ``size`` token ids."""
        return cls(size - NUM_SENTINELS - len(langs) - 1, tuple(langs), source_lang=source_lang)

    @classmethod
    def behind(cls, mask: int, size: int, langs: Sequence[str], source_lang: bool = True) -> Symbols:
        """The symbols of a model with ``size`` token ids, of which those below ``mask`` are pieces."""
        return cls(mask, tuple(langs), size - mask - 1 - len(langs), source_lang)

    @property
    def size(self) -> int:
        """Number of token ids in all."""
        return self.sentinel(self.sentinels)

    @property
    def default(self) -> int:
        """Index of the language where none is named: English, else the first."""
        return self.langs.index("en") if "en" in self.langs else 0

    def lang(self, index: int) -> int:
        """Id of the token of the language with this index."""
        return self.mask + 1 + index

    def with_lang(self, source: Int[np.ndarray, " length"], index: int) -> Int[np.ndarray, " _"]:
        """A source (length,) as the encoder reads it, with the token of its language where it has one."""
        return np.append(source, self.lang(index)) if self.source_lang else source

    def sentinel(self, index: int) -> int:
        """Id of a sentinel."""
        return self.mask + 1 + len(self.langs) + index

    def index_of(self, lang: str, what: str) -> int:
        """Index of a language.

        Raises:
            UserError: the model ``what`` has never seen it.
        """
        if lang not in self.langs:
            raise UserError(
                f"{what} has never seen {lang!r}",
                ", ".join(self.langs),
                "train it on text of that language first",
            )
        return self.langs.index(lang)

    def names(self) -> list[str]:
        """What follows ``<mask>`` in the dictionary."""
        return [f"[{lang}]" for lang in self.langs] + [f"<extra_id_{i}>" for i in range(self.sentinels)]
