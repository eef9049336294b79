"""Chinese characters in one form: traditional and Japanese characters become simplified ones.

Each character is replaced alone, so texts keep their lengths. The tables are those of OpenCC
(https://github.com/BYVoid/OpenCC).
"""

from __future__ import annotations

from functools import cache

from opencc import OpenCC

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


def simplify(text: str) -> str:
    """Return ``text`` with every Chinese character in its simplified form: ``图书`` for ``圖書`` and ``図書``."""
    return text if text.isascii() else text.translate(simplified_table())
