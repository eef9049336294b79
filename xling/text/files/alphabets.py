"""Find the code page of a text whose language is known: its letters are those of the alphabet of the language."""

from functools import cache

from xling.core.package_tables import load_table

_TABLE = load_table(__package__, "alphabets.yaml")
_PRINT = frozenset("‘’“”„‚…–—•«»‹›°§€£©®™·¡¿\u00a0")
_MIN_SHARE = 0.9  # of the characters beyond ASCII
_MARGIN = 0.0005  # by which a less usual page has to be better
_WORTH_OF_CAPITAL, _WORTH_OF_MARK = (
    0.5,
    0.95,
)  # beside a letter: of one behind a small letter, of a mark of print


@cache
def _alphabets() -> dict[str, tuple[frozenset[str], tuple[str, ...]]]:
    """Return code of a language -> its letters in both cases, and its code pages."""
    return {
        lang: (frozenset(letters) | frozenset(letters.upper()), tuple(_TABLE["pages"][group].split()))
        for group, langs in _TABLE["languages"].items()
        for lang, letters in langs.items()
    }


def alphabet_of(lang: str) -> frozenset[str]:
    """Return the letters beyond ASCII of a language in both cases; none of a language that the table lacks."""
    letters, _ = _alphabets().get(lang, (frozenset[str](), ()))
    return frozenset(filter(str.isalpha, letters))


def page_of(sample: bytes, lang: str) -> str:
    """Return the Python codec in which a sample is written with the letters of its language, "" where none is."""
    if lang not in _alphabets():
        return ""
    letters, pages = _alphabets()[lang]
    scores = [_share(sample.decode(page, "replace"), letters) - _MARGIN * i for i, page in enumerate(pages)]
    best = max(range(len(pages)), key=scores.__getitem__)
    return pages[best] if scores[best] >= _MIN_SHARE else ""


def _share(text: str, letters: frozenset[str]) -> float:
    """Return the share of the characters beyond ASCII that are letters of an alphabet, or marks of print around words.

    A capital behind a small letter counts half, a mark a little less than a letter.
    """
    num, good = 0, 0.0
    for before, char, after in zip(f" {text}", text, f"{text[1:]} ", strict=False):
        if char < "\x80":
            continue
        num += 1
        if char in letters:
            good += _WORTH_OF_CAPITAL if char.isupper() and before.islower() else 1
        elif char in _PRINT and (char == "’" or not (before.isalpha() and after.isalpha())):
            good += _WORTH_OF_MARK
    return good / max(1, num)
