"""Word-by-word translation with a bilingual dictionary: the baseline, and a way to start unsupervised translation.

A word is a run of letters, digits and marks; what stands between words stays as it is, and so does a word that the
dictionary does not have. Made for languages that write spaces.

Source: Lample et al. 2018, section 3.4 (word-by-word translation as the first model).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from corpora.binarize import split_pair
from corpora.codeswitch.dictionary import read_dictionary
from xling.core.errors import UserError

WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """The words of a text in lower case."""
    return [found.lower() for found in WORD.findall(text)]


def translate(text: str, dictionary: Mapping[str, str]) -> str:
    """Every word by its translation, with its capital; the order stays."""

    def other(match: re.Match[str]) -> str:
        word = match.group()
        found = dictionary.get(word.lower(), word)
        return found[:1].upper() + found[1:] if word[:1].isupper() else found

    return WORD.sub(other, text)


def read(spec: str) -> dict[tuple[str, str], dict[str, str]]:
    """Dictionaries by direction, the first translation of each word.

    Args:
        spec: ``en-fr=PATH,fr-en=PATH``, files in MUSE's format; a direction that is not given is the other turned
            round.

    Raises:
        UserError: it cannot be read so, or a file is missing, empty or no dictionary.
    """
    found: dict[tuple[str, str], dict[str, str]] = {}
    turned: dict[tuple[str, str], dict[str, str]] = {}
    for part in filter(None, spec.split(",")):
        pair, sign, name = part.partition("=")
        if not sign:
            raise UserError(f"dictionary {part!r}", "SRC-TGT=PATH,...")
        src, tgt = split_pair(pair.strip())
        if not Path(name).is_file():
            raise UserError(f"dictionary {pair}: no file at {name}", fix="check the path, or run `xling bli`")
        entries = read_dictionary(Path(name))
        if not entries:
            raise UserError(f"dictionary {name} is empty", "source<TAB>target, one pair a line")
        found[src, tgt] = {word: translations[0].lower() for word, translations in entries.items()}
        back = turned.setdefault((tgt, src), {})
        for word, translations in entries.items():
            back.setdefault(translations[0].lower(), word)
    return turned | found
