"""The code page of a text whose language is known, told by the letters of its alphabet."""

from __future__ import annotations

from collections import Counter
from functools import cache

from xling.core.package_tables import load_table

_TABLE = load_table(__package__, "alphabets.yaml")
_PRINT = frozenset("‘’“”„‚…–—•«»‹›°§€£©®™·¡¿\u00a0")
_MIN_SHARE = 0.9  # of the characters beyond ASCII
_MARGIN = 0.002  # by which a less usual page has to be better
_COST_OF_CAPITAL = 0.5


@cache
def _alphabets() -> dict[str, tuple[frozenset[str], tuple[str, ...]]]:
    """Return code of a language -> its letters in both cases, and its code pages."""
    return {
        lang: (frozenset(letters) | frozenset(letters.upper()), tuple(_TABLE["pages"][group].split()))
        for group, langs in _TABLE["languages"].items()
        for lang, letters in langs.items()
    }


def page_of(sample: bytes, lang: str) -> str:
    """Return the Python codec in which a sample is written with the letters of its language, "" where none is.

    Args:
        sample: bytes that are not UTF-8.
        lang: code of the language.
    """
    if lang not in _alphabets():
        return ""
    letters, pages = _alphabets()[lang]
    scores = [_share(sample.decode(page, "replace"), letters) - _MARGIN * i for i, page in enumerate(pages)]
    best = max(range(len(pages)), key=scores.__getitem__)
    return pages[best] if scores[best] >= _MIN_SHARE else ""


def _share(text: str, letters: frozenset[str]) -> float:
    """Return the share of the characters beyond ASCII that are letters of an alphabet, or marks of print around words.

    A capital behind a small letter counts half.
    """
    found = Counter[str]()
    for before, char, after in zip(f" {text}", text, f"{text[1:]} ", strict=False):
        if char < "\x80":
            continue
        is_inside = before.isalpha() and after.isalpha()
        is_capital = char.isupper() and before.islower()
        good = char in letters or (char in _PRINT and (not is_inside or char == "’"))
        found["all"] += 1
        found["good"] += good
        found["capital"] += good and is_capital
    return (found["good"] - _COST_OF_CAPITAL * found["capital"]) / max(1, found["all"])
