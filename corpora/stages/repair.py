"""Stage of Unicode repair: one normal form, no control characters, mojibake decoded."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import ftfy
import numpy as np
from numpy.typing import NDArray

from xling.corpora.stages import STREAMING, Example, Stage, Verdict
from xling.text.document import Document
from xling.text.tokenised import TOKENISED, tokenised_kind

# A UTF-8 lead byte and a continuation byte, both read as Latin-1 or Windows-1252: the trace of mojibake.
_CONTINUATION = (
    "\u0080-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013-\u203a\u20ac\u2122"
)
_MOJIBAKE = re.compile(f"[\u00c2-\u00f4][{_CONTINUATION}]")
_ONE_CONTINUED = re.compile(f"[{_CONTINUATION}]")
_OTHER_LINE_ENDS = "\r\x0b\x0c\u2028\u2029"
_LINE_BREAKS = re.compile(f"\r\n|[{_OTHER_LINE_ENDS}]")
# Control characters, byte order marks, soft hyphens, non-characters and lone surrogates. Zero-width joiners
# and spaces stay: Persian, the scripts of India and Khmer are written with them.
_INVISIBLE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\ufeff\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff]")
# Kinds of code points: to be repaired; of mojibake; a blank; a line end; one whose normal form only unicodedata knows.
# A lead byte is the next bit after a continuation byte.
_INVISIBLE_KIND, _CONTINUATION_KIND, _LEAD_KIND, _BLANK_KIND, _LINE_END_KIND, _UNKNOWN_KIND = (
    1,
    2,
    4,
    8,
    16,
    32,
)
_TABLE_SIZE = 0x3100  # code points that are looked up one by one
_PLAIN_RANGES = ((0x3100, 0x312F), (0x3400, 0x9FFF), (0xAC00, 0xD7A3), (0xFF01, 0xFF9D), (0x1F300, 0x1FAFF))


@STREAMING.register("repair")
@dataclass(frozen=True)
class Repair(Stage):
    """Bring text to NFC, delete control characters and repair text decoded with a wrong charset.

    ftfy runs only on documents in which a UTF-8 byte pair read as Latin-1 or Windows-1252 is found; quotes,
    widths and ligatures are left as they are.

    Args:
        max_replacement_ratio: documents with more U+FFFD per character than this are dropped.
    """

    max_replacement_ratio: float = 0.01

    name: ClassVar[str] = "repair"
    reasons: ClassVar[dict[str, str]] = {
        "undecodable": "too many replacement characters U+FFFD",
        "empty": "no text is left",
    }
    rewrites = True
    examples = (
        Example("", "Ã©tÃ© dÃ©jÃ\xa0"),
        Example("", "abc \ufffd", settings={"max_replacement_ratio": 0.5}),
        Example("empty", " \n\x00\ufeff "),
        Example("undecodable", "abc \ufffd"),
    )

    def edit(self, doc: Document) -> Verdict:
        """Repair a document; the ledger notes how many had more wrong than their spaces."""
        text = repair(doc.text)
        notes = {} if text == doc.text or text == tidy_space(doc.text) else {"repaired_unicode": 1}
        if kind := tokenised_kind(text):
            notes[f"{TOKENISED}{kind}"] = 1
        if not text:
            return Verdict("empty", notes=notes)
        if text.count("\ufffd") > self.max_replacement_ratio * len(text):
            return Verdict("undecodable", notes=notes)
        return Verdict(text=text, notes=notes)


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
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    kinds = _character_kinds()[codes]
    kinds_present = int(np.bitwise_or.reduce(kinds))
    if kinds_present & _INVISIBLE_KIND or (kinds[0] | kinds[-1]) & _BLANK_KIND:
        return False
    previous, following = kinds[:-1], kinds[1:]
    if (
        kinds_present & _LEAD_KIND
        and kinds_present & _CONTINUATION_KIND
        and (previous & (following << 1) & _LEAD_KIND).any()
    ):
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
    table[0xC2:0xF5] |= _LEAD_KIND
    for pattern, kind in (
        (_ONE_CONTINUED, _CONTINUATION_KIND),
        (_LINE_BREAKS, _INVISIBLE_KIND),
        (_INVISIBLE, _INVISIBLE_KIND),
    ):
        table[[code for code in range(0x10000) if pattern.match(chr(code))]] |= kind
    table[ord("\t")] |= _INVISIBLE_KIND
    table[ord("\n")] |= _LINE_END_KIND
    return table


def _with_line_feeds(text: str) -> str:
    """Return the text with a line feed for each line end of another kind."""
    return _LINE_BREAKS.sub("\n", text) if any(end in text for end in _OTHER_LINE_ENDS) else text


def _repair_once(text: str) -> str:
    """Run one pass of repair: mojibake, invisible characters and NFC."""
    if _MOJIBAKE.search(text):
        # A page mixes charsets, and ftfy only repairs text that is completely wrong: one line at a time.
        lines = [ftfy.fix_encoding(line) if _MOJIBAKE.search(line) else line for line in text.split("\n")]
        text = _with_line_feeds("\n".join(lines))
    if not text.replace("\n", "").isprintable():  # a much faster question, which unbroken spaces fail too
        text = _INVISIBLE.sub("", text)
    return text if unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)


def tidy_space(text: str) -> str:
    """Strip every paragraph, turn tabs into spaces and delete empty paragraphs."""
    return "\n".join(filter(None, map(str.strip, text.replace("\t", " ").split("\n"))))
