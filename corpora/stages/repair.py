"""Stage of Unicode repair: one normal form, no control characters, text read in a wrong encoding put right."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import ClassVar

import numpy as np
from ftfy.badness import badness
from numpy.typing import NDArray

from xling.corpora.langid.code_pages import CodePages, is_surely_damaged
from xling.corpora.langid.whole_text import misfits
from xling.corpora.stages import STREAMING, Stage, Verdict
from xling.text.document import LONE, Document
from xling.text.repair import code_points, decode_c1, decode_entities, decode_mojibake, has_mojibake
from xling.text.tokenised import TOKENISED, tokenised_kind

_OTHER_LINE_ENDS = "\r\x0b\x0c\u2028\u2029"
_LINE_BREAKS = re.compile(f"\r\n|[{_OTHER_LINE_ENDS}]")
# Control characters, byte order marks, soft hyphens, non-characters and lone surrogates. Zero-width joiners
# and spaces stay: Persian, the scripts of India and Khmer are written with them.
_INVISIBLE = re.compile(
    "\x1b\\[[0-9;]*[A-Za-z]|[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\ufeff\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff]"
)
# Kinds of code points: to be repaired; a blank; a line end; one whose normal form only unicodedata knows.
_INVISIBLE_KIND, _BLANK_KIND, _LINE_END_KIND, _UNKNOWN_KIND = 1, 8, 16, 32
# A question mark where a letter was; in addresses it is none.
_LOST_LETTER = re.compile(  # begins with the mark, which is found several times as fast
    r"\?(?:(?<=[^\W\d_]\?)(?=[a-zß-öø-ÿ,;:])|(?:(?<=^\?)|(?<=[\s(\"«„“'’]\?))(?=[a-zß-öø-ÿ])|\?+[\s,.]+(?=\?{2,}))",
    re.M,
)
_LOST_INSIDE = re.compile(r"\?(?:(?<=[a-zß-öø-ÿ]\?)(?=[a-zß-öø-ÿ])|(?<=\s\?)(?=[a-zß-öø-ÿ]{1,20}\?))")
_ADDRESS = re.compile(r"\S*(?:://|www\.|\?\w+=)\S*")
_LOST_GLYPH = "(cid:"  # and its number: a letter of a PDF whose font names none
_MIN_LOST, _MAX_LOST_SHARE = 2, 0.02  # of the words
# Signs inside words of a short text; mathematics has names of one letter.
_LETTER, _SIGN = "[A-Za-zÀ-ÖØ-öø-ʯͰ-ӿ]", "[¹³²¼½¾±¬¶¤¦ˆ˜‗ⁿ]"
_BOX = "[\u2500-\u2580\u2582-\u259f]"  # without the mark of SentencePiece
_SIGN_IN_WORD = re.compile(
    f"{_LETTER}{{2}}{_SIGN}{_LETTER}|{_LETTER}{_SIGN}{_LETTER}{{2}}|{_LETTER}{{2}}[\u2200-\u24ff]{_LETTER}{{2}}"
    f"|{_BOX}{_LETTER}|{_LETTER}{_BOX}"
)
_ANY_SIGN = re.compile(f"{_SIGN}|{_BOX}|[\u2200-\u24ff]")
_WORDS_OF_SIGN = 20
_MIN_BAD, _MAX_BAD_SHARE = 3, 0.002  # of the characters; right text of 90 languages has a third of it at most
_MAX_MISFIT_SHARE = 0.3  # of the characters beyond ASCII
# Greek and Cyrillic letters that people type for those of African languages that a keyboard lacks: ``tι`` for ``tɩ``.
_TYPED_FOR = str.maketrans("ιευбђ", "ieubd")
_MAX_TYPED = 2  # kinds of them; text in a wrong code page has more, or other letters
_TABLE_SIZE = 0x3100  # code points that are looked up one by one
_PLAIN_RANGES = ((0x3100, 0x312F), (0x3400, 0x9FFF), (0xAC00, 0xD7A3), (0xFF01, 0xFF9D), (0x1F300, 0x1FAFF))


@STREAMING.register("repair")
@dataclass(frozen=True)
class Repair(Stage):
    """Bring text to NFC, delete control characters, read escapes and repair text decoded with a wrong charset.

    UTF-8 that was read in another code page is decoded, and text in one code page that was read in another, where the
    language is known. Quotes, widths and ligatures are left as they are.

    Args:
        max_replacement_ratio: documents with more U+FFFD, or glyphs of PDF without a letter, per character are dropped.
        lang: language whose code pages are tried; several with commas, ``all`` for any.
    """

    max_replacement_ratio: float = 0.01
    lang: str = "all"

    name: ClassVar[str] = "repair"
    reasons: ClassVar[dict[str, str]] = {
        "undecodable": "too many replacement characters U+FFFD, or glyphs without a letter",
        "empty": "no text is left",
        "lost_letters": "question marks in the places of letters",
        "mojibake": "read in a wrong encoding, and which one cannot be told",
    }
    rewrites = True
    at_once: ClassVar[int] = 64

    def edits(self, docs: Sequence[Document]) -> Iterator[Verdict]:
        """Yield the verdict on each document; lines by themselves tell together which code pages they were in."""
        lone = [doc for doc in docs if doc.form == LONE and "\n" not in doc.text and not doc.text.isascii()]
        texts = [doc.text for doc in lone]
        mended = dict[int, str]()
        is_of_one_language = len(lone) > 1 and len(self._code_pages.langs) == 1
        if is_of_one_language and any(map(self._code_pages.is_suspect, texts)):
            reread = self._code_pages.mend(texts)
            mended = {
                id(doc): new
                for doc, text, new in zip(lone, texts, reread, strict=True)
                if new != text and not has_mojibake(code_points(text))
            }
        for doc in docs:
            if id(doc) not in mended:
                yield self.edit(doc)
                continue
            verdict = self.edit(replace(doc, text=mended[id(doc)]))
            yield replace(verdict, notes={**verdict.notes, "repaired_unicode": 1})

    def edit(self, doc: Document) -> Verdict:
        """Repair a document; the ledger notes how many had more wrong than their spaces."""
        reread, is_suspect = self._reread(decode_entities(doc.text))
        text = repair(reread)
        notes = {} if text == doc.text or text == tidy_space(doc.text) else {"repaired_unicode": 1}
        if kind := tokenised_kind(text):
            notes[f"{TOKENISED}{kind}"] = 1
        if not text:
            return Verdict("empty", notes=notes)
        if text.count("\ufffd") + text.count(_LOST_GLYPH) > self.max_replacement_ratio * len(text):
            return Verdict("undecodable", notes=notes)
        if reason := _reason_beyond_repair(text, is_suspect):
            return Verdict(reason, notes=notes)
        return Verdict(text=text, notes=notes)

    def check(self) -> None:
        """Refuse unknown languages (UserError)."""
        _ = self._code_pages

    @cached_property
    def _code_pages(self) -> CodePages:
        return CodePages.of(self.lang)

    def _reread(self, text: str) -> tuple[str, bool]:
        """Return a text with lines that were read in another code page put right, and whether it had a sign of any."""
        if text.isascii():
            return text, False
        may_be_mojibake = has_mojibake(code_points(text))
        if not may_be_mojibake and not self._code_pages.is_suspect(text):
            return text, False
        lines = _with_line_feeds(text).split("\n")
        if may_be_mojibake:
            lines = self._code_pages.of_decoded(lines, _decode_lines("\n".join(lines)).split("\n"))
        return "\n".join(self._code_pages.mend(lines)), True


def _reason_beyond_repair(text: str, is_suspect: bool) -> str:
    """Return why a repaired text is still damaged, or ""."""
    if "?" in text:
        rest = _ADDRESS.sub("", text) if "=" in text or "://" in text or "www." in text else text
        lost = sum(1 for _ in _LOST_LETTER.finditer(rest))
        # One inside a word is enough: of a million right lines of 60 languages 11 have one.
        least = 1 if lost and _LOST_INSIDE.search(rest) else _MIN_LOST
        if lost >= least and lost > _MAX_LOST_SHARE * len(rest.split()):
            return "lost_letters"
    if not is_suspect or text.isascii():
        return ""
    foreign = {ord(char) for char in text if "\u036f" < char < "\u0530"}
    if len(foreign) <= _MAX_TYPED and foreign <= _TYPED_FOR.keys():
        text = text.translate(_TYPED_FOR)
    # Most texts have no sign, which is sooner seen.
    num_signs = sum(1 for _ in _SIGN_IN_WORD.finditer(text)) if _ANY_SIGN.search(text) else 0
    if num_signs * _WORDS_OF_SIGN > len(text.split()):
        return "mojibake"
    num_strange = len(text) - len(text.encode("ascii", "ignore"))
    if num_strange >= _MIN_BAD and misfits(text) > max(_MIN_BAD - 1, _MAX_MISFIT_SHARE * num_strange):
        return "mojibake"
    if not (has_mojibake(code_points(text)) or is_surely_damaged(text)):
        return ""
    bad = badness(text)
    return "mojibake" if bad >= _MIN_BAD and bad > _MAX_BAD_SHARE * len(text) else ""


def repair(text: str) -> str:
    """Repair ``text`` and return one stripped paragraph per line without empty lines.

    Repairing twice changes nothing more.
    """
    if _is_clean(text):
        return text
    text = _with_line_feeds(text).replace("\t", " ")
    # A repair may uncover another layer or a decomposed letter, hence repeat until nothing changes. Only then
    # may spaces be removed: the last byte of a letter may look like one.
    while (repaired := tidy_space(_repair_once(text))) != text:
        text = repaired
    return text


def _is_clean(text: str) -> bool:
    """Return whether nothing is to be repaired: in a sixth of the time of looking for each fault."""
    if not text:
        return True
    codes = code_points(text)
    kinds = _character_kinds()[codes]
    kinds_present = int(np.bitwise_or.reduce(kinds))
    if kinds_present & _INVISIBLE_KIND or (kinds[0] | kinds[-1]) & _BLANK_KIND:
        return False
    previous, following = kinds[:-1], kinds[1:]
    if not text.isascii() and has_mojibake(codes):
        return False
    # A blank beside a line end: one of two neighbours is a line end, and both are blank.
    if (
        kinds_present & _LINE_END_KIND
        and (
            (previous & _BLANK_KIND != 0)
            & (following & _BLANK_KIND != 0)
            & ((previous | following) & _LINE_END_KIND != 0)
        ).any()
    ):
        return False
    return not kinds_present & _UNKNOWN_KIND or unicodedata.is_normalized("NFC", text)


@cache
def _character_kinds() -> NDArray[np.uint8]:
    """Return what each code point may be a sign of, ``(1114112,)`` uint8."""
    table = np.full(0x110000, _UNKNOWN_KIND, dtype=np.uint8)
    for first, last in _PLAIN_RANGES:
        table[first : last + 1] = 0
    split = (unicodedata.decomposition(chr(code)).split() for code in range(_TABLE_SIZE))
    canonical = [parts for parts in split if parts and parts[0][0] != "<"]
    seconds = {int(part, 16) for parts in canonical for part in parts[1:]}
    for code in range(_TABLE_SIZE):
        char = chr(code)
        stays = not unicodedata.combining(char) and unicodedata.is_normalized("NFC", char)
        table[code] = 0 if stays and code not in seconds and not 0x1100 <= code <= 0x11FF else _UNKNOWN_KIND
        table[code] |= _BLANK_KIND * char.isspace()
    for pattern in (_LINE_BREAKS, _INVISIBLE):
        table[[code for code in range(0x10000) if pattern.match(chr(code))]] |= _INVISIBLE_KIND
    table[ord("\t")] |= _INVISIBLE_KIND
    table[ord("\n")] |= _LINE_END_KIND
    return table


def _with_line_feeds(text: str) -> str:
    """Return the text with a line feed for each line end of another kind."""
    return _LINE_BREAKS.sub("\n", text) if any(end in text for end in _OTHER_LINE_ENDS) else text


def _repair_once(text: str) -> str:
    """Run one pass of repair: mojibake, invisible characters and NFC."""
    if not text.isascii() and has_mojibake(code_points(text)):
        text = _decode_lines(text)
    if not text.replace("\n", "").isprintable():  # a much faster question, which unbroken spaces fail too
        text = _INVISIBLE.sub("", decode_c1(text))
    return text if unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)


def _decode_lines(text: str) -> str:
    """Decode UTF-8 read in another code page: a page mixes charsets, so one line at a time."""
    lines = [
        decode_mojibake(line) if not line.isascii() and has_mojibake(code_points(line)) else line
        for line in text.split("\n")
    ]
    return _with_line_feeds("\n".join(lines))


def tidy_space(text: str) -> str:
    """Strip every paragraph, turn tabs into spaces and delete empty paragraphs."""
    return "\n".join(filter(None, map(str.strip, text.replace("\t", " ").split("\n"))))
