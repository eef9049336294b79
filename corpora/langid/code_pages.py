"""Repair of text that was decoded with the wrong code page; letters and n-grams of its language show the right one.

Polish in Windows-1250 that was read as Windows-1252 has ``³`` for ``ł``. The bytes are right, so the text can be had
back once both code pages are known. They are searched for among those that the language is written in and those that
programs take by mistake. A line is changed where all its letters become letters of the language, and its n-grams then
are likelier in the language than those of the line as it is in any language.

Sources: the code pages as Python's codecs have them; `xling.corpora.langid.ngrams` for letters and n-grams.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from xling.core import languages
from xling.core.languages import Language
from xling.core.package_tables import load_table
from xling.corpora.langid import ngrams
from xling.corpora.langid.identify import body_of, built_in_ngrams
from xling.corpora.langid.whole_text import Readings, misfits, right_pages, words_beyond_ascii
from xling.text.files.alphabets import alphabet_of

_TABLE = load_table(__package__, "code_pages.yaml")
_WESTERN = ("cp1252", "mac_roman", "cp850", "cp437")
_PAGES_OF_SCRIPT = {script: tuple(pages.split()) for script, pages in _TABLE["of_script"].items()}
_PAGES_OF_LANG = {
    lang: tuple(group["pages"].split()) for group in _TABLE["of_language"] for lang in group["langs"].split()
}
_MISTAKEN = tuple(_TABLE["mistaken"].split())
"""Code pages that programs take by mistake."""
_MULTI_BYTE = frozenset({"gb18030", "big5", "cp932", "euc_jp", "cp949"})
_NATIVE_GAIN = 6.5  # of the unigrams of letters of a language; those of loan words are under it
MIN_STRANGE = 3  # letters of a text
_MIN_GAIN = 0.2  # by which the mean gain of n-grams must rise
_MIN_GAIN_OF_ONE = 0.5  # where one character changed
_MIN_GAIN_OF_PAGE = 0.5  # of a file that says another code page
# Signs of other alphabets that any text may hold.
_ANYWHERE = frozenset("“”‘’‚„…–—«»‹›•·§°©®™€\u00a0¿¡×÷−²³½¼¾±µ£¥")
_EAST_ASIAN = frozenset({"Hans", "Hant", "Jpan", "Kore"})
_SIGNS = "¹³²¿º¼¾½£¥¯±¶ª¢¡¦¨´¸¤¬µ×÷"
# Signs beside letters, marks between letters, and a capital behind a small letter of Cyrillic.
_SUSPECT = re.compile(
    rf"[^\W\d_][{_SIGNS}]|[{_SIGNS}][^\W\d_]|[^\W\d_][‚„…†‡‰ˆ˜‹›“”•–—™€][^\W\d_]|[\x80-\x9f]|[а-џ][Ѐ-Я]"
    r"|[^\W\d_][‚„†‡ˆ‰˜‹™]|[a-zß-öø-ÿ][À-ÖØ-Þ]"
)
_SIGNS_IN_WORDS = f"[\u2200-\u25ff{_SIGNS.replace('µ', '')}†‡€ƒ]"
SIGNS_OF_CYRILLIC = f"[а-џ][Ѐ-Я]|[Ѐ-ӿ]{_SIGNS_IN_WORDS}|{_SIGNS_IN_WORDS}[Ѐ-ӿ]"
"""Places that no right line in Cyrillic letters has, though most of its letters are those of the language."""
_INNER_CAPITAL = re.compile(f"[а-џ][Ѐ-Я]|[^\\W\\d_]{_SIGNS_IN_WORDS}|{_SIGNS_IN_WORDS}[^\\W\\d_]")

_MIN_CHARACTERS = 4  # East Asian ones of a line that is repaired by itself
_NOT_NATIVE_COST = 10.0  # what a line of characters of other languages would lose of its mean gain
_SAME = 0.05  # such gains are equal
Table = dict[int, str]


@cache
def _single_byte_table(mistaken: str, right: str) -> Table:
    """Character as it was read -> character as it was written, for the bytes from 0x80 that both pages have."""
    table: Table = {}
    for byte in range(0x80, 0x100):
        data = bytes([byte])
        written = data.decode(right, "ignore")
        if not written or (not written.isprintable() and written != "\u00a0"):
            continue
        # What programs put where a page has no character.
        table[ord(data.decode(mistaken, "ignore") or chr(byte))] = written
        if mistaken == "cp1252":  # Latin-1 too
            table[byte] = written
    return table


def code_pages(lang: Language) -> tuple[str, ...]:
    """The code pages that a language is written in; none where Unicode alone has its letters."""
    if lang.script == "Latn":
        return _PAGES_OF_LANG.get(lang.code, _WESTERN)
    return _PAGES_OF_SCRIPT.get(lang.script, ())


def better_page(data: bytes, stated: str, lang: Language) -> str:
    """Return the code page of a language in which bytes are clearly likelier than in the stated one, else ""."""
    column = WrongCodePage.of(lang.code).column
    pages = dict.fromkeys((stated, *code_pages(lang)))
    if column < 0 or len(pages) == 1 or data.isascii():
        return ""
    words = b" ".join(word for word in data.split() if not word.isascii())
    texts = [words.decode(page, "replace") for page in pages]
    scores = built_in_ngrams().scores([body_of(text) for text in texts])[0][:, column]
    strange = [text.count("\ufffd") + misfits(text) for text in texts]
    scores -= _NOT_NATIVE_COST * np.array(strange) / [max(1, len(text)) for text in texts]
    best = int(scores.argmax())
    needed = _MIN_GAIN_OF_PAGE if texts[0] in texts[1:] else _SAME  # in a page of the language, or in none
    return [*pages][best] if scores[best] > scores[0] + needed else ""


_ANY = ("ru", "uk", "bg", "sr", "el", "he", "ar", "fa", "th", "zh", "ja", "ko", "pl", "cs", "hu", "ro", "tr", "lt",
        "lv", "hr", "fr", "es", "de", "pt", "it", "sv")  # fmt: skip
"""Languages that are tried where none is known."""
# What the letters of another alphabet look like as Windows-1252 has them, and letters of one script inside words of
# another: only then is every language tried.
_SURELY_DAMAGED = re.compile(
    r"[¡-¬®-ÿ]{4}|[a-z][þðý¹³¿º¼¾¥£¯±¶][a-z]|[a-z][а-џ]|[а-џ][a-z]|[\x80-\x9f]|[a-z][√≈∆ŽˆŠ‚„‡‰][a-z]|[а-џ][Ѐ-Я]|[А-Я]{5}"
    "|[A-Za-zÀ-ÿЀ-я][\u2200-\u25ff][A-Za-zÀ-ÿЀ-я]|[a-z][Α-ω][a-z]"
)
_MIN_DAMAGED, _SAMPLE_LINES = 3, 6


@dataclass(frozen=True)
class CodePages:
    """Repairs text in any of some languages that was read in another code page.

    Attributes:
        langs: codes of the languages; of one, each line is tried as soon as it has a letter of no code page of it.
    """

    langs: tuple[str, ...]

    @staticmethod
    def of(codes: str) -> CodePages:
        """Return the one of a language, of several with commas between them, or of ``all`` (UserError)."""
        return CodePages(
            _ANY if codes in ("", "all") else tuple(languages.get(code).code for code in codes.split(","))
        )

    def is_suspect(self, text: str) -> bool:
        """Whether to look at a text closer: without sign of damage it is right."""
        if len(self.langs) == 1:
            return WrongCodePage.of(self.langs[0]).is_suspect(text)
        return is_surely_damaged(text)

    def mend(self, lines: Sequence[str]) -> list[str]:
        """Return the lines of one text, put right in the language that it then is in."""
        if len(self.langs) == 1:
            return WrongCodePage.of(self.langs[0]).mend(lines)
        if not self.is_suspect("\n".join(lines)):
            return list(lines)
        sample = sorted((line for line in lines if not line.isascii()), key=len, reverse=True)[:_SAMPLE_LINES]
        readings = [(code, WrongCodePage.of(code).mend(sample)) for code in self.langs]
        # Only what was written in a code page of two bytes can be read in it, line by line.
        east_asian = [
            (code, lines)
            for code, lines in readings
            if languages.get(code).script in _EAST_ASIAN and not set(lines) & set(sample)
        ]
        changed = east_asian or [(code, lines) for code, lines in readings if lines != sample]
        if not changed:
            return list(lines)
        texts = ["\n".join(lines) for lines in [sample, *(lines for _, lines in changed)]]
        scores = built_in_ngrams().scores([body_of(text) for text in texts])[0]
        strange = np.array([misfits(text) / max(1, len(text)) for text in texts])
        best = (scores.max(axis=1) - _NOT_NATIVE_COST * strange).tolist()
        score, code = max(zip(best[1:], (code for code, _ in changed), strict=True))
        is_better = score > best[0] + _MIN_GAIN or (east_asian and score > 0)
        return WrongCodePage.of(code).mend(lines) if is_better else list(lines)

    def of_decoded(self, lines: Sequence[str], decoded: list[str]) -> list[str]:
        """Return lines with sequences of UTF-8 decoded; where damage is left, those were other bytes by chance."""
        is_of_one = len(self.langs) == 1
        if len(decoded) != len(lines) or decoded == lines:
            return decoded
        if not is_of_one and not any(map(is_surely_damaged, decoded)):
            return decoded
        letters = WrongCodePage.of(self.langs[0]).letters if is_of_one else None
        return [
            reread
            if reread != line
            and (is_surely_damaged(new) or (is_of_one and misfits(new, letters) > misfits(reread, letters)))
            else new
            for line, new, reread in zip(lines, decoded, self.mend(lines), strict=True)
        ]


def is_surely_damaged(text: str) -> bool:
    """Return whether a text has several places that right text of no language has."""
    return sum(1 for _ in itertools.islice(_SURELY_DAMAGED.finditer(text), _MIN_DAMAGED)) == _MIN_DAMAGED


class WrongCodePage:
    """Repairs the lines of a language that were read in another code page."""

    def __init__(self, lang: Language) -> None:
        self.lang = lang
        self.column = self._model_column()

    @staticmethod
    @cache
    def of(code: str) -> WrongCodePage:
        """Return the one of a language, which keeps its tables."""
        return WrongCodePage(languages.get(code))

    def _model_column(self) -> int:
        langs = built_in_ngrams().langs
        for code in (self.lang.code, self.lang.base):
            if code in langs and languages.get(code).script == self.lang.script:
                return langs.index(code)
        return -1

    @cached_property
    def letters(self) -> frozenset[str]:
        """Letters of the language beyond ASCII that its code pages have."""
        pages = [page for page in code_pages(self.lang) if page not in _MULTI_BYTE]
        chars = {char for page in pages for char in bytes(range(0x80, 0x100)).decode(page, "ignore")}
        letters = sorted(char for char in chars if char.isalpha())
        if self.lang.script not in ("Latn", "Cyrl"):
            marks = {char for char in chars if unicodedata.category(char)[0] == "M" and not char.isascii()}
            return frozenset(
                marks.union(char for char in letters if languages.matches_script(char, self.lang))
            )
        hashes = [ngrams.grams(char).get(1, np.zeros(1, np.uint32))[0] for char in letters]
        if not letters or self.column < 0:
            return frozenset()
        gains = built_in_ngrams().gains(np.array(hashes, np.uint32))[:, self.column]
        native = frozenset(char for char, gain in zip(letters, gains, strict=True) if gain >= _NATIVE_GAIN)
        return native | alphabet_of(self.lang.code)

    @cached_property
    def _tables(self) -> dict[tuple[str, str], Table]:
        """The mistaken and the right code page -> character as it was read -> as it was written; no East Asian ones."""
        return {
            (mistaken, right): _single_byte_table(mistaken, right)
            for right in code_pages(self.lang)
            for mistaken in _MISTAKEN
            if mistaken != right and right not in _MULTI_BYTE
        }

    @cached_property
    def _readings(self) -> Readings:
        return Readings(self._tables, self.letters)

    def mend(self, lines: Sequence[str]) -> list[str]:
        """Return the lines of one text or file, those that were read in another code page put right."""
        if self.column < 0 or not code_pages(self.lang):
            return list(lines)
        # In their order: what is read of them may end before the last one.
        suspect_lines = dict.fromkeys(filter(self.is_suspect, dict.fromkeys(lines)))
        mended = self._mend_together(lines, suspect_lines)
        suspects = [
            i
            for i, (line, old) in enumerate(zip(mended, lines, strict=True))
            if (line in suspect_lines if line == old else self.is_suspect(line))
        ]
        if self.lang.script in _EAST_ASIAN:
            for row in suspects:
                mended[row] = self._mend_east_asian(mended[row])
            return mended
        texts = [words_beyond_ascii([mended[row]]) for row in suspects]
        for row, text, possible in zip(suspects, texts, self._readings.possible(texts), strict=True):
            if pages := right_pages(text, possible, self._readings, self.column):
                mended[row] = mended[row].translate(self._tables[pages])
        return mended

    def _mend_together(self, lines: Sequence[str], suspects: Collection[str]) -> list[str]:
        """Return the lines, those with characters out of their place as the pages of the whole text have them."""
        if not suspects or self.lang.script in _EAST_ASIAN:
            return list(lines)
        text = words_beyond_ascii(suspects)
        pages = right_pages(text, next(self._readings.possible([text])), self._readings, self.column)
        if not pages:
            return list(lines)
        table = self._tables[pages]
        others = [line for line in lines if not line.isascii() and line not in suspects]
        return [
            line.translate(table)
            if not line.isascii()
            # A letter that the mistaken page lacks was not read in it.
            and not any(char.isalpha() and not char.isascii() and ord(char) not in table for char in line)
            and self._is_better(line.translate(table), line, len(others) <= len(suspects))
            else line
            for line in lines
        ]

    def _is_better(self, new: str, line: str, is_usual: bool) -> bool:
        """Whether a line has fewer misfits in other pages, or where that is usual as many but more own letters."""
        gain = misfits(line, self.letters) - misfits(new, self.letters)
        return gain > 0 or (is_usual and not gain and self._num_own(new) > self._num_own(line))

    def _num_own(self, text: str) -> int:
        return sum(char in self.letters or char in "¿¡" for char in text)

    def is_suspect(self, text: str) -> bool:
        """Whether a text holds letters that are not the language's, or signs inside words."""
        if text.isascii() or self.column < 0 or not code_pages(self.lang):
            return False
        if self.lang.script != "Latn":
            return not languages.matches_script(text, self.lang) or (
                self.lang.script in ("Cyrl", "Grek")
                and (
                    bool(_INNER_CAPITAL.search(text))
                    or sum(char.isalpha() and char not in self.letters for char in set(text) if char > "\x7f")
                    >= MIN_STRANGE
                )
            )
        strange = {char for char in set(text) if char > "\x7f"}
        return bool(strange - self.letters - _ANYWHERE) or bool(_SUSPECT.search(text))

    def _mend_east_asian(self, line: str) -> str:
        """Return a line whose bytes were read as Windows-1252 in the likeliest page, or as it is."""
        readings = [text for right in code_pages(self.lang) if (text := _reread(line, right))]
        readings = [text for text in readings if text != line and languages.matches_script(text, self.lang)]
        if not readings:
            return line
        scores = built_in_ngrams().scores([body_of(text) for text in (line, *readings)])[0][:, self.column]
        best = int(scores[1:].argmax())
        gain = scores[best + 1] - scores[0]
        num = sum(not char.isascii() for char in readings[best])
        return readings[best] if gain > (_MIN_GAIN if num >= _MIN_CHARACTERS else _MIN_GAIN_OF_ONE) else line


def _reread(line: str, right: str) -> str:
    """The bytes of a line that was read as Windows-1252 in the right code page, "" where they are none of it."""
    try:
        data = b"".join(
            char.encode("cp1252") if ord(char) > 0xFF else char.encode("latin-1") for char in line
        )
        return data.decode(right)
    except UnicodeError:
        return ""
