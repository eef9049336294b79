"""Rough Latin spelling of words in any alphabet, and their consonants.

What names and loan words share across scripts.

The spelling of a letter comes from its Unicode name ("CYRILLIC SMALL LETTER SHA" is ``sh``), so no table of
code points is needed; `_SPELLING_OF_LETTER_NAME` lists names whose first letters would mislead. Chinese
characters have no spelling here.

Source: names of the Unicode Character Database as Python's `unicodedata` has them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache

VOWELS = "aeiou"

_LATIN_SPELLINGS = {
    "ß": "ss", "ø": "o", "đ": "d", "ł": "l", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ŋ": "ng", "ə": "e",
    "ɛ": "e", "ɔ": "o", "ƙ": "k", "ɗ": "d", "ɓ": "b", "ƴ": "y", "ɲ": "ny", "ħ": "h", "ʼ": "", "’": "",
}  # fmt: skip

_SPELLING_OF_LETTER_NAME: Mapping[str, Mapping[str, str]] = {
    script: dict(pair.split(":") for pair in text.split())
    for script, text in {
        "CYRILLIC": (
            "be:b ve:v ghe:g de:d zhe:zh ze:z ka:k el:l em:m en:n pe:p er:r es:s te:t ef:f ha:h tse:ts che:ch sha:sh "
            "shcha:shch sign: ie:e io:yo yeru:y dje:dj gje:gj dze:dz je:j lje:lj nje:nj tshe:c kje:kj dzhe:dz yi:yi"
        ),
        "GREEK": "beta:v eta:i theta:th phi:f chi:ch psi:ps upsilon:y omega:o xi:x epsilon:e",
        "ARABIC": (
            "alef:a ain:a hamza: sheen:sh thal:dh theh:th khah:kh ghain:gh dad:d tcheh:ch waw:w yeh:y keheh:k kaf:k "
            "qaf:q teh:t tah:t peh:p gaf:g jeh:zh noon:n heh:h hah:h"
        ),
        "HEBREW": "alef:a ayin:a shin:sh tsadi:ts het:h vav:w yod:y kaf:k qof:q tav:t tet:t pe:p samekh:s he:h maqaf:",
        "SYRIAC": "alaph:a e:a shin:sh sadhe:s heth:h waw:w yudh:y kaph:k qaph:q taw:t teth:t pe:p he:h",
        "ARMENIAN": (
            "ech:e et:y to:t zhe:zh ini:i xeh:kh ca:ts ho:h ja:dz ghad:gh cheh:ch yi:y sha:sh vo:o cha:ch jheh:j "
            "tiwn:t co:ts yiwn:v oh:o"
        ),
        "GEORGIAN": "zhar:zh phar:p khar:k ghan:gh shin:sh chin:ch can:ts jil:dz cil:ts char:ch xan:kh jhan:j hae:h",
        "THAI": "kho:kh ngo:ng cho:ch so:s do:d to:t tho:th no:n bo:b po:p pho:ph fo:f mo:m ro:r lo:l wo:w ho:h yo:y",
    }.items()
}
_SYLLABIC_SCRIPTS = frozenset(("ETHIOPIC", "HIRAGANA", "KATAKANA", "CHEROKEE", "VAI"))
_FIRST_LETTER_SCRIPTS = frozenset(("GREEK", "ARABIC", "HEBREW", "SYRIAC", "ARMENIAN", "GEORGIAN", "COPTIC"))
_SPELLED_KINDS = frozenset(("LETTER", "SIGN", "SYLLABLE", "CHARACTER"))
_SILENT_NAMES = ("VIRAMA", "NUKTA", "VISARGA", "COMBINING")
_INDIC_CONSONANT = {
    "c": "ch", "nn": "n", "tt": "t", "dd": "d", "tth": "t", "ddh": "d", "ll": "l", "ss": "s", "nnn": "n", "rr": "r",
    "lll": "l", "th": "t", "dh": "d", "bh": "b", "gh": "g", "kh": "k", "jh": "j", "nny": "n",
}  # fmt: skip
_GREEK_STARTS = {"μπ": "b", "ντ": "d", "γκ": "g"}
"""Two letters that spell a voiced sound at the start of a Greek word."""
_MERGED_SOUNDS = (("ph", "f"), ("tsh", "s"), ("tch", "s"), ("ch", "s"), ("sh", "s"), ("zh", "s"), ("x", "ks"))
_SOFT_C_PATTERN = re.compile("c(?=[eiy])")
_GLIDES = "hjwy"
"""Sounds that many scripts do not write, or write as vowels."""
_SOUND_CLASSES = str.maketrans(
    {**dict.fromkeys("cqg", "k"), "d": "t", "b": "p", "v": "f", "z": "s"}
    | dict.fromkeys(VOWELS + _GLIDES, "")
)


def romanise(word: str) -> str:
    """Spell ``word`` in lower-case Latin letters, for example ``merkel`` for ``меркель``; may be empty.

    Indic consonants lose their inherent vowel; Arabic and Hebrew letters have none.
    """
    if word.isascii():
        return word
    if word[:2] in _GREEK_STARTS:
        word = _GREEK_STARTS[word[:2]] + word[2:]
    return "".join(map(_spell_letter, word))


def consonants_of(roman: str) -> str:
    """Reduce a romanised word to its consonants, similar sounds merged: ``mrkl`` for ``merkel``.

    Voiced and voiceless sounds are one, since Tamil and Arabic lack some of them. What follows an apostrophe is
    left out. A vowel or glide at the start is ``a``; others are left out, and so is ``w``, which Arabic and
    Hebrew write for vowels too.
    """
    roman = roman.partition("'")[0]
    for letters, sound in _MERGED_SOUNDS:
        roman = roman.replace(letters, sound)
    roman = _SOFT_C_PATTERN.sub("s", roman)
    roman = roman[:1] + roman[1:].replace("ww", "v")
    consonants = "a" if roman[:1] and roman[0] in VOWELS + _GLIDES else ""
    for sound in roman.translate(_SOUND_CLASSES):
        if not consonants.endswith(sound):
            consonants += sound
    return consonants


@lru_cache(maxsize=1 << 16)
def _spell_letter(char: str) -> str:
    if char.isascii():
        return char
    if char in _LATIN_SPELLINGS:
        return _LATIN_SPELLINGS[char]
    decomposed = unicodedata.normalize("NFKD", char)
    name = unicodedata.name(char, "")
    if name.startswith("HANGUL SYLLABLE"):
        return name.split()[-1].lower()
    if decomposed != char:
        return "".join(map(_spell_letter, decomposed))
    return _spell_by_name(name.split(" WITH ")[0].split()) if name else ""


def _spell_by_name(words: list[str]) -> str:
    """Return the spelling of a letter from the words of its Unicode name, ignoring the part from WITH on."""
    script, last_word = words[0], words[-1].lower()
    if any(word in _SILENT_NAMES for word in words) or _SPELLED_KINDS.isdisjoint(words):
        return ""
    if script in _SYLLABIC_SCRIPTS:
        return last_word.rstrip("0123456789")
    letter_name = _letter_name(script, words)
    if letter_name in _SPELLING_OF_LETTER_NAME.get(script, {}):
        return _SPELLING_OF_LETTER_NAME[script][letter_name]
    if script == "THAI":
        return words[3].lower()[:2] if "SARA" in words[:-1] else "k" if letter_name == "ko" else ""
    if script in _FIRST_LETTER_SCRIPTS:
        return letter_name[:1]
    if script in ("LATIN", "CYRILLIC"):
        return last_word[:2]
    if "ANUSVARA" in words or "CANDRABINDU" in words:
        return "n"
    for long, short in (("aa", "a"), ("ii", "i"), ("uu", "u")):
        last_word = last_word.replace(long, short)
    if "VOWEL" in words or len(last_word) == 1:
        return last_word[:2]
    return _INDIC_CONSONANT.get(last_word[:-1], last_word[:-1]) if last_word.endswith("a") else last_word[:2]


def _letter_name(script: str, words: list[str]) -> str:
    """Return the word of a Unicode name that names the letter: ``kaf`` of HEBREW LETTER FINAL KAF."""
    if script == "THAI":
        return words[2].lower() if len(words) > 2 else ""
    if script in ("ARABIC", "HEBREW", "SYRIAC"):
        names = [word.lower() for word in words[2:] if word not in ("FINAL", "FARSI", "SMALL")]
        return names[0] if names else ""
    return words[-1].lower()
