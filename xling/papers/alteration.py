"""Made-up languages: a text in letters of its own, or with its words in another order.

A copy says the same as its original, so which elements of a language a model needs can be taken away one by one. It is
made line by line and word by word: a line of a copy has as many words as the original, and `order` says which is which.

Sources: K et al. 2020, section 3.1 (every character moved to another place of Unicode); Dufter & Schütze 2020,
section 2 (numbers of pieces moved, words in reverse order); Deshpande et al. 2022, section 3 (words permuted). None
says whether punctuation moves with the words: here it stays at the word that it is written to. K et al. leave open what
becomes of digits; here they move too.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from xling.array_types import Int64
from xling.core.sampling import rng

CODE = "qaa"
"""Code of a made-up language, of ISO 639's private use."""
PRIVATE = 0xF0000
"""First code point of the plane that characters of the basic plane are moved to; they keep their places in it."""
_LAST = 0xFFFD


@dataclass(frozen=True)
class Alteration:
    """A change of text that makes an artificial language of it: its letters, or its order.

    Attributes:
        letters: ``own``: every character but blanks is moved to a private plane, so that no piece is shared.
        order: of the words of a line: ``reversed``, or ``permuted`` by a draw of the line's own.
        seed: of the draws.
    """

    letters: Literal["shared", "own"] = "shared"
    order: Literal["kept", "reversed", "permuted"] = "kept"
    seed: int = 1

    def places(self, num_words: int, name: str) -> Int64[np.ndarray, " words"]:
        """Which word of the original stands at each place of the copy, int64 (num_words,).

        Args:
            num_words: of the line.
            name: of the line: equal names and lengths give equal draws.
        """
        if self.order == "permuted":
            return rng(self.seed, "words", name).permutation(num_words)
        places = np.arange(num_words)
        return places[::-1] if self.order == "reversed" else places

    def words(self, words: Sequence[str], name: str) -> list[str]:
        """The copy of a line of words."""
        result = [words[place] for place in self.places(len(words), name)]
        return [relettered(word) for word in result] if self.letters == "own" else result

    def text(self, text: str, name: str) -> str:
        """The copy of a line of text; words are what stands between blanks."""
        return " ".join(self.words(text.split(), name))


def relettered(text: str) -> str:
    """A text with its characters in a private plane, composed first as vocabularies do (NFKC).

    Blanks stay, and so do characters beyond the basic plane. Two texts differ as their copies do.
    """
    points = map(ord, unicodedata.normalize("NFKC", text))
    return "".join(chr(p) if p > _LAST or chr(p).isspace() else chr(p + PRIVATE) for p in points)
