"""Chinese characters in one form: traditional and Japanese characters become simplified ones.

Each character is replaced alone, so texts keep their lengths. The tables are those of OpenCC
(https://github.com/BYVoid/OpenCC).
"""

from functools import cache

from opencc import OpenCC

from xling.core import languages

_BLOCKS = (range(0x2E80, 0x3040), range(0x3400, 0xA000), range(0xF900, 0xFB00), range(0x20000, 0x32000))
"""Unicode's blocks of Chinese characters: radicals, unified and compatibility characters, both planes."""


@cache
def simplified_table() -> dict[int, str]:
    """Return code point -> simplified character, for the characters that have another form."""
    characters = [chr(code) for block in _BLOCKS for code in block]
    converted = "\n".join(characters)  # a line each, so that no table of phrases applies
    converters = [OpenCC("jp2t"), OpenCC("t2s")]
    for converter in converters * 2:  # a few simplify characters are Japanese forms of others
        converted = converter.convert(converted)
    pairs = zip(characters, converted.split("\n"), strict=True)
    return {ord(old): new for old, new in pairs if new != old and len(new) == 1}


@cache
def _characters_of_one_form() -> tuple[frozenset[str], frozenset[str]]:
    """Return the characters that only simplified text has, and those that only traditional text has."""
    characters = [chr(code) for code in range(0x4E00, 0xA000)]
    joined = "\n".join(characters)
    simple, complex_ = (OpenCC(name).convert(joined).split("\n") for name in ("t2s", "s2t"))
    rows = list(zip(characters, simple, complex_, strict=True))
    return (
        frozenset(char for char, to_simple, to_complex in rows if to_simple == char != to_complex),
        frozenset(char for char, to_simple, to_complex in rows if to_complex == char != to_simple),
    )


def chinese_form(text: str) -> str:
    """Return ``Hans`` for text in simplified characters, ``Hant`` in traditional ones, "" where both or neither are."""
    simplified, traditional = _characters_of_one_form()
    num_simplified = sum(char in simplified for char in text)
    num_traditional = sum(char in traditional for char in text)
    if num_simplified == num_traditional:
        return ""
    return "Hans" if num_simplified > num_traditional else "Hant"


def is_in_script(text: str, lang: languages.Language, min_share: float = 0.5) -> bool:
    """Return whether a text is in the script of a language; simplified Chinese is none of traditional, and back."""
    if not languages.matches_script(text, lang, min_share):
        return False
    return lang.script not in ("Hans", "Hant") or chinese_form(text) in ("", lang.script)


def simplify(text: str) -> str:
    """Return ``text`` with every Chinese character in its simplified form: ``图书`` for ``圖書`` and ``図書``."""
    return text if text.isascii() else text.translate(simplified_table())
