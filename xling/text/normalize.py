"""Normal forms of a line of text: the one CCNet hashes for deduplication and the one its language model reads.

The fast versions look up every code point in a table with numpy, two bytes per character unless one needs
more. The plain versions are the definition, and tests check that both agree.
"""

import functools
import re
import sys
import unicodedata
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CodePoints = NDArray[np.uint16] | NDArray[np.uint32]
WORD_START = "\u2581"  # SentencePiece's marker for the space before a word

# CCNet's replacements of Unicode punctuation (cc_net/text_normalizer.py). Deduplication deletes the keys;
# these include the full-width digit one, which has no effect since digits are replaced first.
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
    """Normalise a paragraph to CCNet's deduplication key.

    Strip, lower-case, digits to 0, delete marks and controls.

    Accents and ASCII punctuation are kept. Source: ``normalize_for_dedup`` in cc_net/text_normalizer.py.
    """
    return _MARK_OR_CONTROL.sub("", _DIGIT.sub("0", line.strip().lower()))


def for_dedup_batch(text: str) -> list[bytes]:
    """Apply `for_dedup` to every line of ``text`` at once, as UTF-8; fastest at 10 to 60 kB per call.

    Args:
        text: lines joined by newlines; "" is one empty line.
    """
    code_points = _code_points(text)
    ends = np.flatnonzero(code_points == _NEWLINE)
    line_starts = code_points[np.minimum(ends + 1, len(code_points) - 1)]
    line_edges = np.concatenate([code_points[:1], code_points[ends - 1], line_starts, code_points[-1:]])
    # A blank line is bounded by newlines, which does no harm.
    if _is_space_table()[line_edges[line_edges != _NEWLINE]].any():
        text = "\n".join([line.strip() for line in text.split("\n")])
        code_points = _code_points(text)
    if _needs_lower(text):
        code_points = _code_points(text.lower())
    return _map_code_points(code_points, _dedup_table()).split(b"\n")


_NEWLINE = ord("\n")
_NUM_TWO_BYTE = 0x10000  # code points below it take one UTF-16 unit


def _needs_lower(text: str) -> bool:
    """Return whether ``text`` has capitals that a table of single code points cannot lower.

    A capital sigma depends on its place in the word, and the dotted capital I becomes two code points.
    """
    return "Σ" in text or "İ" in text


def _code_points(text: str) -> CodePoints:
    """Return the code points of ``text``, ``(num_chars,)``.

    Uint16 if all fit and none is a surrogate, else uint32.
    """
    try:
        units = text.encode("utf-16-le")
    except UnicodeEncodeError:
        units = b""
    if len(units) == 2 * len(text):
        return np.frombuffer(units, dtype=np.uint16)
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


@functools.cache
def _is_space_table() -> NDArray[np.bool_]:
    """Return which code points ``str.strip`` removes."""
    table = np.zeros(sys.maxunicode + 1, dtype=bool)
    table[[point for point in range(_TABLE_END) if chr(point).isspace()]] = True
    return table


@dataclass(frozen=True)
class _CodePointTable:
    """Replacement of each code point, 0 for deletion.

    One entry each, with a separate table for two-byte code points.
    """

    wide: NDArray[np.uint32]
    narrow: NDArray[np.uint16]


def _make_table(wide: NDArray[np.uint32]) -> _CodePointTable:
    assert int(wide[:_NUM_TWO_BYTE].max()) < _NUM_TWO_BYTE, (
        "a two-byte code point becomes one that needs more"
    )
    return _CodePointTable(wide, wide[:_NUM_TWO_BYTE].astype(np.uint16))


def _map_code_points(code_points: CodePoints, table: _CodePointTable) -> bytes:
    """Return UTF-8 of every code point replaced by its entry in ``table``, or deleted if that is 0."""
    if code_points.dtype == np.uint16:
        text = np.take(table.narrow, code_points).tobytes().decode("utf-16-le")
    else:
        text = np.take(table.wide, code_points).tobytes().decode("utf-32-le", "surrogatepass")
    return text.encode("utf-8", "surrogatepass").replace(b"\0", b"")


@functools.cache
def _dedup_table() -> _CodePointTable:
    """Build the table of `for_dedup`; a newline is kept."""
    table = _with_lower_case(_digit_and_control_table())
    table[[ord(mark) for mark in PUNCTUATION if not mark.isdecimal()]] = 0
    table[ord("\n")] = ord("\n")
    return _make_table(table)


def _with_lower_case(table: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return ``table`` with every capital mapped like its small letter."""
    table = table.copy()
    for point in range(_TABLE_END):
        lower = chr(point).lower()
        if len(lower) == 1 and lower != chr(point):
            table[point] = table[ord(lower)]
    return table


def _digit_and_control_table() -> NDArray[np.uint32]:
    """Build the table that maps decimal digits of every script to 0, deletes controls and keeps the rest."""
    table = np.arange(sys.maxunicode + 1, dtype=np.uint32)
    table[[p for p in range(_TABLE_END) if unicodedata.category(chr(p)) == "Nd"]] = ord("0")
    table[list(map(ord, CONTROLS))] = 0
    return table


@functools.cache
def _lm_table() -> _CodePointTable:
    """Build the table of `for_lm` after lower-casing: digits, controls, and marks that become one character."""
    table = _digit_and_control_table()
    for mark, plain in PUNCTUATION.items():
        if len(plain) == 1 and not mark.isdecimal():
            table[ord(mark)] = ord(plain)
    return _make_table(table)


@functools.cache
def _words_table() -> _CodePointTable:
    """Build the table of `words_for_lm`: that of `for_lm`, with word separators mapped to one space."""
    table = _with_lower_case(_lm_table().wide)
    separators = np.flatnonzero(
        _is_space_table() & (table != 0)
    )  # controls are deleted, even those that are spaces
    table[[*separators, _NEWLINE, ord(WORD_START)]] = ord(" ")
    return _make_table(table)


_LONG_MARKS = {mark: plain for mark, plain in PUNCTUATION.items() if len(plain) > 1}


def for_lm(line: str, accents: bool = True) -> str:
    """Normalise a line for an n-gram language model as CCNet does, but keep accents by default.

    CCNet strips every combining mark, which deletes the vowels of Thai and of the scripts of India.

    Args:
        line: any text without newlines.
        accents: False strips combining marks as CCNet does.
    """
    line = line.strip().lower()
    if not accents and not line.isascii():
        decomposed = unicodedata.normalize("NFD", line)
        line = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
    return _map_code_points(_code_points(_replace_long_marks(line)), _lm_table()).decode(
        "utf-8", "surrogatepass"
    )


def words_for_lm(text: str) -> list[bytes]:
    """Return the words of ``for_lm(text)`` as UTF-8, split at white space, newlines or SentencePiece's marker."""
    if _needs_lower(text):
        text = text.lower()
    return _map_code_points(_code_points(_replace_long_marks(text)), _words_table()).split()


def _replace_long_marks(text: str) -> str:
    for mark, plain in _LONG_MARKS.items():
        if mark in text:
            text = text.replace(mark, plain)
    return text
