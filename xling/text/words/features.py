"""Hashed features of words: the word, its character n-grams, its Latin spelling and its consonants.

Nothing is learned here, so any language in any script has features. An unseen word shares most of its
features with related words. Scripts without spaces between words are read in windows: each character with the
ones after it. Chinese characters are compared in their simplified form.

Source: character n-grams of words and hashing: Bojanowski et al. 2017, Enriching word vectors with subword
information.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from functools import cache

import numpy as np

from xling.array_types import UInt32
from xling.text.words.han import simplify
from xling.text.words.romanise import consonants_of, romanise

FEATURES_VERSION = 4
"""Version of the features. Hashes and vectors of one version cannot be used with those of another.

Version 4 spells Sinhala, Tifinagh, Ol Chiki, Thaana, kana and Ethiopic by sound. It keeps the vowel signs of all
scripts in their words: version 3 cut Sinhala, Thaana, Tibetan and N'Ko at them. Words of other scripts are the same.
"""
READABLE_VERSIONS = (3, FEATURES_VERSION)
"""Versions of which an encoder can be used."""
MIN_GRAM, MAX_GRAM = 3, 5
ROMAN_GRAM_SIZES = (3, 4)
MIN_CONSONANTS = 3
WINDOW_PREFIX = "\x01"
"""Prefix of a token that is a window of characters instead of a word."""

_HAN_WINDOW_SIZE, _OTHER_WINDOW_SIZE = 2, 3
_UNSPACED = "぀-ゟ㐀-䶿一-鿿豈-﫿\u0e00-\u0eff\u1000-\u109fក-\u17ff"
_MARKS = "".join(
    f"{chr(first)}-{chr(last)}"
    for first, last in (
        (0x300, 0x36F), (0x591, 0x5C7), (0x610, 0x61A), (0x64B, 0x65F), (0x670, 0x670), (0x900, 0x903),
        (0x93A, 0x94F), (0x962, 0x963), (0x981, 0x983), (0x9BC, 0x9CD), (0xA01, 0xA03), (0xA3C, 0xA4D),
        (0xA70, 0xA71), (0xA81, 0xA83), (0xABC, 0xACD), (0xB01, 0xB03), (0xB3C, 0xB57), (0xB82, 0xB82),
        (0xBBE, 0xBCD), (0xC00, 0xC03), (0xC3C, 0xC56), (0xC81, 0xC83), (0xCBC, 0xCD6), (0xD00, 0xD03),
        (0xD3E, 0xD4D), (0x200C, 0x200D),
    )
)  # fmt: skip


@cache
def _word_pattern(version: int) -> re.Pattern[str]:
    """Return the pattern of a word, a character of a script without spaces, a number or a punctuation mark."""
    marks = _MARKS
    if version >= 4:
        points = map(chr, range(0x300, 0x1E95B))
        marks += "".join(c for c in points if unicodedata.category(c)[0] == "M" and not is_unspaced(c))
    return re.compile(
        rf"[{_UNSPACED}]|[^\W\d_{_UNSPACED}](?:[^\W_{_UNSPACED}]|[{marks}'’ʼʻ-ʽ]|-(?=[^\W\d_]))*|\d+|[^\w\s]"
    )


_SCRIPT_RUN = re.compile(rf"[{_UNSPACED}]+|[^{_UNSPACED}]+")


def split_tokens(text: str, version: int = FEATURES_VERSION) -> list[str]:
    """Return the words and punctuation marks of ``text`` in order, case kept.

    Windows (see `WINDOW_PREFIX`) without spaces.
    """
    pattern = _word_pattern(version)
    pieces: list[str] = []
    text = text.replace(WINDOW_PREFIX, " ")
    if text.isascii():  # the same, faster
        return pattern.findall(text)
    for run in _SCRIPT_RUN.findall(unicodedata.normalize("NFC", text)):
        if not is_unspaced(run):
            pieces += pattern.findall(run)
            continue
        width = _OTHER_WINDOW_SIZE if "\u0e00" <= run[0] <= "\u17ff" else _HAN_WINDOW_SIZE
        pieces += [WINDOW_PREFIX + run[i : i + width] for i in range(len(run))]
    return pieces


def is_unspaced(text: str) -> bool:
    """Return whether ``text`` begins with a character of a script without spaces between words."""
    return bool(re.match(f"[{_UNSPACED}]", text))


def word_features(token: str, version: int = FEATURES_VERSION) -> list[str]:
    """Return the sorted, lower-case features of a token; equal tokens have equal features.

    A window has its prefixes of every length, in simplified characters. A word has itself and its n-grams of
    `MIN_GRAM` to `MAX_GRAM` characters including word boundaries, and the same for its Latin spelling if that
    differs; Hangul has n-grams of 1 to 3 syllables. A number has those of its western digits. Katakana, which
    writes names and loan words, is read as words.
    """
    token = token.lower()
    if token.startswith(WINDOW_PREFIX):
        token = simplify(token)
        return sorted(token[:end] for end in range(2, len(token) + 1))
    hangul = "가" <= token[0] <= "힣"
    sizes = range(1, 4) if hangul else range(MIN_GRAM, MAX_GRAM + 1)
    word_parts = {f"W{token}", *_character_ngrams(token, sizes)}
    if token.isdecimal():
        number = "".join(str(unicodedata.decimal(digit)) for digit in token)  # in the digits 0 to 9
        return sorted({f"W{number}", *_character_ngrams(number, sizes)})
    if token[0].isalpha():
        roman = romanise(token, version)
        if roman and roman != token:
            word_parts |= {f"W{roman}", *_character_ngrams(roman, ROMAN_GRAM_SIZES)}
        if len(consonants := consonants_of(roman)) >= MIN_CONSONANTS:
            word_parts.add(f"S{consonants}")
    return sorted(word_parts)


def hash_features(token: str, version: int = FEATURES_VERSION) -> UInt32[np.ndarray, " features"]:
    """Return the 32-bit hashes of `word_features`, uint32 (num_features,); a table of n rows takes them modulo n."""
    return np.array(
        [zlib.crc32(feature.encode()) for feature in word_features(token, version)], dtype=np.uint32
    )


def _character_ngrams(word: str, sizes: range | tuple[int, ...]) -> set[str]:
    bordered = f"<{word}>"
    return {bordered[i : i + n] for n in sizes for i in range(len(bordered) - n + 1)}
