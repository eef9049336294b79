"""Normal forms of a line of text: the one CCNet hashes for deduplication and the one its LM reads.

The fast versions look every code point up in one table with numpy; the plain versions are the definition,
and the tests hold the two equal.
"""

from __future__ import annotations

import functools
import re
import sys
import unicodedata

import numpy as np
from numpy.typing import NDArray

# CCNet's replacements of Unicode punctuation (cc_net/text_normalizer.py). Deduplication deletes the keys;
# the full-width digit one stands among them there too, which no digit survives to notice.
PUNCTUATION = {
    "，": ",", "。": ".", "、": ",", "„": '"', "”": '"', "“": '"', "«": '"', "»": '"', "１": '"', "」": '"',
    "「": '"', "《": '"', "》": '"', "´": "'", "∶": ":", "：": ":", "？": "?", "！": "!", "（": "(", "）": ")",
    "；": ";", "–": "-", "—": " - ", "．": ". ", "～": "~", "’": "'", "…": "...", "━": "-", "〈": "<", "〉": ">",
    "【": "[", "】": "]", "％": "%", "►": "-",
}  # fmt: skip
CONTROLS = "".join(map(chr, [*range(32), *range(127, 160)]))

_DIGIT = re.compile(r"\d")
_MARK_OR_CONTROL = re.compile(f"[{''.join(PUNCTUATION)}{CONTROLS}]")
_TABLE_END = 0x20000  # no cased letter and no decimal digit lies beyond the second plane


def for_dedup(line: str) -> str:
    """CCNet's key text of a paragraph: stripped, lower-cased, digits as 0, its marks and controls deleted.

    Accents and ASCII punctuation stay. Source: ``normalize_for_dedup`` in cc_net/text_normalizer.py.
    """
    return _MARK_OR_CONTROL.sub("", _DIGIT.sub("0", line.strip().lower()))


def for_dedup_batch(text: str) -> list[bytes]:
    """`for_dedup` of every line of ``text`` at once, as UTF-8; fastest at 10 to 60 kB a call.

    Args:
        text: lines joined by newlines; "" is one empty line.
    """
    ascii_table, table = _tables()
    if text.isascii():
        data = text.encode()
        if _SPACE_AT_EDGE.search(data):
            data = _stripped(text).encode()
        return data.translate(ascii_table, _ASCII_DELETED).split(b"\n")
    points = _points(text)
    ends = np.flatnonzero(points == _NEWLINE)
    edges = np.concatenate(
        [points[:1], points[ends - 1], points[np.minimum(ends + 1, len(points) - 1)], points[-1:]]
    )
    # A blank line has a newline for an edge, which is no harm.
    if _spaces()[edges[edges != _NEWLINE]].any():
        text = _stripped(text)
        points = _points(text)
    # No table of single code points can lower these: a capital sigma depends on its place in the word and the
    # dotted capital I becomes two code points.
    if "Σ" in text or "İ" in text:
        points = _points(text.lower())
    return _mapped(points, table).encode("utf-8", "surrogatepass").split(b"\n")


_NEWLINE = ord("\n")
_SPACE_AT_EDGE = re.compile(rb"(?:^|\n)[\t\x0b-\r\x1c- ]|[\t\x0b-\r\x1c- ](?:\n|\Z)")


def _stripped(text: str) -> str:
    return "\n".join([line.strip() for line in text.split("\n")])


def _points(text: str) -> NDArray[np.uint32]:
    """The code points of ``text``, ``(num_chars,)``."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


@functools.cache
def _spaces() -> NDArray[np.bool_]:
    """Which code points ``str.strip`` takes away."""
    table = np.zeros(sys.maxunicode + 1, dtype=bool)
    table[[point for point in range(_TABLE_END) if chr(point).isspace()]] = True
    return table


_ASCII_DELETED = CONTROLS[:33].replace("\n", "").encode()


def _mapped(points: NDArray[np.uint32], table: NDArray[np.uint32]) -> str:
    """Every code point replaced by its entry in ``table``, or deleted if that is 0."""
    points = np.take(table, points)
    if not points.all():
        points = points[points != 0]
    return points.tobytes().decode("utf-32-le", "surrogatepass")


@functools.cache
def _tables() -> tuple[bytes, NDArray[np.uint32]]:
    """Lookup tables for ASCII bytes and for all code points; 0 means delete, a newline stays."""
    table = _digits_and_controls()
    for point in range(_TABLE_END):
        lower = chr(point).lower()
        if len(lower) == 1 and lower != chr(point):
            table[point] = table[ord(lower)]
    table[[ord(mark) for mark in PUNCTUATION if not mark.isdecimal()]] = 0
    table[ord("\n")] = ord("\n")
    return bytes(table[:128].astype(np.uint8)) + bytes(range(128, 256)), table


def _digits_and_controls() -> NDArray[np.uint32]:
    """The table that maps decimal digits of every script to 0, deletes controls and leaves the rest."""
    table = np.arange(sys.maxunicode + 1, dtype=np.uint32)
    table[[p for p in range(_TABLE_END) if unicodedata.category(chr(p)) == "Nd"]] = ord("0")
    table[list(map(ord, CONTROLS))] = 0
    return table


@functools.cache
def _lm_table() -> NDArray[np.uint32]:
    """The table of `for_lm` behind lower case: digits, controls, and marks that become one character."""
    table = _digits_and_controls()
    for mark, plain in PUNCTUATION.items():
        if len(plain) == 1 and not mark.isdecimal():
            table[ord(mark)] = ord(plain)
    return table


_LONG_MARKS = {mark: plain for mark, plain in PUNCTUATION.items() if len(plain) > 1}


def for_lm(line: str, accents: bool = True) -> str:
    """The text an n-gram LM reads: as CCNet's, but accents stay unless asked to go.

    CCNet strips every combining mark, which deletes the vowels of Thai and of the scripts of India.

    Args:
        line: any text without newlines.
        accents: False strips combining marks as CCNet does.
    """
    line = line.strip().lower()
    if not accents and not line.isascii():
        decomposed = unicodedata.normalize("NFD", line)
        line = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
    for mark, plain in _LONG_MARKS.items():
        if mark in line:
            line = line.replace(mark, plain)
    return _mapped(_points(line), _lm_table())
