"""Stage of Unicode repair: one normal form, no control characters, mojibake decoded."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import ClassVar

import ftfy

from xling.corpora.stages import STREAMING, Example, Stage, Verdict
from xling.text.document import Document

# A UTF-8 lead byte and a continuation byte, both read as Latin-1 or Windows-1252: the trace of mojibake.
_CONTINUATION = (
    "\u0080-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013-\u203a\u20ac\u2122"
)
_MOJIBAKE = re.compile(f"[\u00c2-\u00f4][{_CONTINUATION}]")
_BREAKS = re.compile("\r\n|[\r\x0b\x0c\u2028\u2029]")
# Control characters, byte order marks, soft hyphens, non-characters and lone surrogates. Zero-width joiners
# and spaces stay: Persian, the scripts of India and Khmer are written with them.
_INVISIBLE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\ufeff\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff]")


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
        notes = {} if text == doc.text or text == tidy(doc.text) else {"repaired_unicode": 1}
        if not text:
            return Verdict("empty", notes=notes)
        if text.count("\ufffd") > self.max_replacement_ratio * len(text):
            return Verdict("undecodable", notes=notes)
        return Verdict(text=text, notes=notes)


def repair(text: str) -> str:
    """Repair ``text`` and return one stripped paragraph per line without empty lines.

    Repairing twice changes nothing more.
    """
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return tidy(text)
    text = _BREAKS.sub("\n", text).replace("\t", " ")
    # A repair may uncover another layer or a decomposed letter, hence repeat until nothing changes. Only then
    # may spaces be removed: the last byte of a letter may look like one.
    while (mended := tidy(_mend(text))) != text:
        text = mended
    return text


def _mend(text: str) -> str:
    """Run one pass of repair: mojibake, invisible characters and NFC."""
    if _MOJIBAKE.search(text):
        # A page mixes charsets, and ftfy only repairs text that is completely wrong: one line at a time.
        lines = [ftfy.fix_encoding(line) if _MOJIBAKE.search(line) else line for line in text.split("\n")]
        text = _BREAKS.sub("\n", "\n".join(lines))
    if not text.replace("\n", "").isprintable():  # a much faster question, which unbroken spaces fail too
        text = _INVISIBLE.sub("", text)
    return text if unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)


def tidy(text: str) -> str:
    """Strip every paragraph, turn tabs into spaces and delete empty paragraphs."""
    lines = text.replace("\t", " ").split("\n")
    return "\n".join([stripped for line in lines if (stripped := line.strip())])
