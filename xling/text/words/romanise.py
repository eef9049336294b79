"""Rough Latin spelling of words in any alphabet, and their consonants.

What names and loan words share across scripts.

The spelling of a letter comes from its Unicode name ("CYRILLIC SMALL LETTER SHA" is ``sh``), so few tables of
code points are needed; `_SPELLING_OF_LETTER_NAME` lists names whose first letters would mislead. `_RUNS` has the
scripts whose letters have words for names: ``k`` is "SINHALA LETTER ALPAPRAANA KAYANNA". Chinese characters have no
spelling here.

Sources: names of the Unicode Character Database as Python's `unicodedata` has them. `_RUNS` was compared with AnyAscii.
"""

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
# First code point of a run: the spellings of its characters in order. "-" is none, "." is that of the name.
_RUNS = {
    0x0780: (  # Thaana
        "h sh n r b l k - v m f d t l g ny s d z t y p j ch t h k d z sh s d t z a gh q w a a i i u u e e o o - n"
    ),
    0x0D81: (  # Sinhala
        "n n - . a a ae ae i i u u r r l l e e ai o o au . . . k k g g ng ng ch ch j j ny ny nj t t d d n nd t t d d "
        "n . nd p ph b b m mb y r . l . . v sh s s h l f . . . - . . . . a ae ae i i u . u . r e e ai o o au l"
    ),
    0x0DF2: "r l",
    0x0E81: (  # Lao
        "k k . k . g ng ch ch s . j ny n t t d d n d t t t d n b p ph f ph f b m y r . l . w s s s h l - h - a a a "
        "am i i u u u u - o l y . . e e o ai ai . - . - - - - - n . . . . . . . . . . . . . . n m"
    ),
    0x1780: (  # Khmer
        "k k k k ng ch ch ch ch ny d t d t n t t t t n b ph p ph m y r l v s s s h l - a a i i u u u au r r l l e ai "
        "o o au . . a i i y y u u ua oe ya ie e ae ai o au m h - - - - r - - - - - - -"
    ),
    0x0951: "- -", 0x0A01: "n n", 0x0A51: "-", 0x0A70: "n", 0x0CF1: "h f", 0x0F7E: "n -",  # signs
    0x1C5A: "a t g ng l a k j m w i s h ny r u ch d n y e p d n r o t b v h - - - - - -",  # Ol Chiki
    0x2D30: (  # Tifinagh
        "a b b g g j j d d d d e f k k k h h h h a kh kh q q i zh zh zh l m n ny ng p u r r gh gh gh s s sh t t ch t "
        "v w y z z z e o"
    ),
}  # fmt: skip
_LATER_RUNS = {  # from version 5 on
    0x05F0: "w oy ey", 0x141E: "- t k sh s n w - h w ch y t",  # finals of Cree
    0x0EC6: "- . . . . . . o", 0x0FB0: "a", 0x0F82: "n n",  # Yiddish, Lao, Tibetan
    0x1900: "-", 0x10D1D: "a i u e o", 0x1E922: "a",  # Limbu, Hanifi Rohingya, Adlam
    0x1B00: (  # Balinese
        "n n ng r h a a i i u u r r l l e ai o au k k g g ng ch ch j j ny t t d d n t t d d n p p b b m y r l w s s s "
        "h - a i i u u r r l l e ai o au e e - k kh ts f v z sh ny"
    ),
    0x1B80: (  # Sundanese
        "ng r h a i u e o e eu k k g ng ch j z ny t d n p f v b m y r l w s ks h y r l i u e o e eu - - m w kh sh"
    ),
    0xA980: (  # Javanese
        "n ng r h a i i i u r l l e ai o k k k g g ng ch ch j ny j ny t t d d n t t d d n p p b b m y r r l w s s s h "
        "- a o i i u u e ai e r y r -"
    ),
    0xABC0: (  # Meetei Mayek
        "k s l m p n ch t k ng t w y h u i ph a g j r b j d g d b k l m p n t ng i o i a e ou u ei n . - -"
    ),
}  # fmt: skip


def _spellings(runs: Mapping[int, str]) -> dict[str, str]:
    return {
        chr(first + place): spelling.strip("-")
        for first, spellings in runs.items()
        for place, spelling in enumerate(spellings.split())
        if spelling != "."
    }


def _syllabics() -> dict[str, str]:
    """Return the spellings of Inuktitut's, Cree's and Ojibwe's letters: the last word of the name (WEST-CREE PWII)."""
    chars = map(chr, (*range(0x1401, 0x1680), *range(0x18B0, 0x18F6)))
    sounds = {char: unicodedata.name(char).split()[-1].lower().replace("-", "") for char in chars}
    return {char: _LONG_OR_C.sub(lambda sound: sound[1] or "ch", sounds[char]) for char in sounds}


_LONG_OR_C = re.compile(r"([aeio])\1|c(?!h)")
_SPELLING_OF_CHARACTER = _spellings(_RUNS)
_LETTERS = {"ઍ": "e", "ઑ": "o", "ั": "a", "ฦ": "lu", "ҵ": "ts", "ᡃ": "", "ᐞ": "", "᙭": ""}
_LATER_SPELLINGS = str.maketrans({**_syllabics(), **_spellings(_LATER_RUNS), **_LETTERS})
_OTHER_LETTERS = (
    "ә:a һ:h ӏ: ӕ:ae ҥ:ng ڪ:k ڭ:ng ګ:g څ:ts ځ:dz ږ:zh ڻ:n ؠ:y ำ:am ฤ:ru འ:a ߑ: ߠ:n ߧ:ny ៜ: ᠩ:ng っ: ッ: ʊ:u ɑ:a "
    "ʌ:a ɩ:i ɣ:g ɯ:u ʉ:u ʃ:sh ʒ:zh ȝ:gh ʔ: ʕ: ꞌ: ǀ: ǁ: ǂ: ǃ:"
)
_SPELLING_OF_CHARACTER |= dict(pair.split(":") for pair in _OTHER_LETTERS.split())
_KANA = {"si": "shi", "ti": "chi", "tu": "tsu", "hu": "fu", "zi": "ji", "di": "ji", "du": "zu"}
_ETHIOPIC_STARTS = {"kx": "h", "x": "h", "hh": "h", "sz": "s", "tz": "ts", "th": "t", "ph": "p", "qh": "q", "dd": "d",
                    "gg": "ng", "cch": "ch", "cc": "ch", "ch": "ch", "c": "ch"}  # fmt: skip
LATEST_VERSION = 5
"""Version of the spellings; the features of words have an earlier one, `xling.text.words.features.FEATURES_VERSION`."""

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


def romanise(word: str, version: int = LATEST_VERSION) -> str:
    """Spell ``word`` in lower-case Latin letters, for example ``merkel`` for ``меркель``; may be empty.

    Indic consonants lose their inherent vowel; Arabic and Hebrew letters have none. Version 3 has no tables of
    characters: Sinhala and Tifinagh were the names of their letters. So were Balinese and Javanese in version 4.
    """
    if word.isascii():
        return word
    if version >= 5:
        word = word.lower().replace("ꦺꦴ", "ꦵ").translate(_LATER_SPELLINGS)  # e and a are o
    if word[:2] in _GREEK_STARTS:
        word = _GREEK_STARTS[word[:2]] + word[2:]
    spell = _spell_letter if version >= 4 else _spell_letter_by_name
    return "".join(map(spell, word))


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
    if char in _SPELLING_OF_CHARACTER:
        return _SPELLING_OF_CHARACTER[char]
    words = unicodedata.name(char, "").split(" WITH ")[0].split() or [""]
    script, last_word = words[0], words[-1].lower()
    if script in ("HIRAGANA", "KATAKANA") and "LETTER" in words:
        return _KANA.get(last_word, last_word)
    if script == "ETHIOPIC" and "SYLLABLE" in words:
        start = next((start for start in _ETHIOPIC_STARTS if last_word.startswith(start)), "")
        spelling = _ETHIOPIC_STARTS.get(start, "") + last_word.removeprefix(start)
        return spelling.replace("aa", "a").replace("ee", "e")
    decomposed = unicodedata.normalize("NFKD", char)
    if not char.isascii() and decomposed != char and script != "HANGUL" and char not in _LATIN_SPELLINGS:
        return "".join(map(_spell_letter, decomposed))
    is_mark = "SIGN" in words and {"VOWEL", "CONSONANT", "ANUSVARA"}.isdisjoint(words)
    if (script == "MYANMAR" and is_mark) or script == "MODIFIER" or last_word == "avagraha":
        return ""
    return "e" if script == "MYANMAR" and last_word == "above" else _spell_letter_by_name(char)


@lru_cache(maxsize=1 << 16)
def _spell_letter_by_name(char: str) -> str:
    if char.isascii():
        return char
    if char in _LATIN_SPELLINGS:
        return _LATIN_SPELLINGS[char]
    decomposed = unicodedata.normalize("NFKD", char)
    name = unicodedata.name(char, "")
    if name.startswith("HANGUL SYLLABLE"):
        return name.split()[-1].lower()
    if decomposed != char:
        return "".join(map(_spell_letter_by_name, decomposed))
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
