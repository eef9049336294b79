"""Units for comparing text in any script: words, or single characters in scripts without spaces."""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from xling.array_types import Bool, Int64, UInt8, UInt64

# Blocks whose languages write no spaces between words: Thai, Lao, Tibetan, Myanmar, Khmer, Tai Le, kana, bopomofo
# and the Han ideographs. Hangul is written with spaces.
_UNSPACED_BLOCKS = (
    (0x0E01, 0x0EFF), (0x0F40, 0x0F6C), (0x1000, 0x109F), (0x1780, 0x17DF), (0x1950, 0x1974), (0x3005, 0x3007),
    (0x3041, 0x30FF), (0x3105, 0x312F), (0x31F0, 0x31FF), (0x3400, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF),
)  # fmt: skip
UNSPACED_CLASS = (
    "\u0e00-\u0eff\u0f40-\u0f6c\u1000-\u109f\u1780-\u17df\u1950-\u1974\u3005-\u3007\u3041-\u30ff\u3105-\u312f"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Such blocks as ranges of a character class in a regular expression."""
_SEPARATOR, _SPACED_LETTER, _UNSPACED_LETTER, _MARK = range(4)
_CLASS_BITS, _NUMERAL_BIT = 3, 4  # bits of a table: one of the four, and whether it is a numeral
_CODE_POINTS = (*range(0x40000), *range(0xE0100, 0xE01F0))  # the rest is private or not assigned
_ASCII_UNIT = re.compile("[a-z0-9]+")
_ASCII_UNIT_OR_LINE = re.compile("[a-z0-9]+|\n")
_LINE_MARK = "\U000f0000"
"""A private code point that marks a line break when lines are counted; a unit of its own."""
_HASH_FACTOR, _HASH_MIXER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_MAX_CACHED_UNITS = 1_000_000
_MAX_RECENT_UNITS = 500_000  # 8 MB


@cache
def _class_table() -> NDArray[np.uint8]:
    """Return a table with the class of each code point, by which text is cut into words.

    Separator, letter of a spaced script, letter of an unspaced one, or mark on the last.
    """
    table = np.zeros(sys.maxunicode + 1, dtype=np.uint8)
    of_category = {"L": _SPACED_LETTER, "N": _SPACED_LETTER, "M": _MARK}
    for point in range(0x40000):
        table[point] = of_category.get(unicodedata.category(chr(point))[0], _SEPARATOR)
    for first, last in _UNSPACED_BLOCKS:
        block = table[first : last + 1]
        block[[unicodedata.category(chr(p))[0] == "L" for p in range(first, last + 1)]] = _UNSPACED_LETTER
    table[ord(_LINE_MARK)] = _SPACED_LETTER
    return table


@cache
def combining_marks() -> str:
    """List combining marks and the two joiners for the brackets of a regular expression.

    Python's word class lacks them.

    Without them words of Hindi, pointed Hebrew, or Persian with its zero-width non-joiner would be split.
    """
    mark_points = [p for p in _CODE_POINTS if p in (0x200C, 0x200D) or unicodedata.category(chr(p))[0] == "M"]
    firsts = [p for p, before in zip(mark_points, [-1, *mark_points], strict=False) if p != before + 1]
    lasts = [p for p, after in zip(mark_points, [*mark_points[1:], -1], strict=True) if p + 1 != after]
    return "".join(f"{chr(a)}-{chr(b)}" for a, b in zip(firsts, lasts, strict=True))


def split_units(text: str) -> list[str]:
    """Return the lower-cased words of ``text`` without punctuation.

    In scripts without spaces each character is a unit.

    Combining marks stay with their letter. Example: ``units("Tea, 茶!") == ["tea", "茶"]``.
    """
    text = text.lower()
    if text.isascii():
        return _ASCII_UNIT.findall(text)
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    classes = _class_table().take(points)
    points = np.where(classes == _SEPARATOR, np.uint32(ord(" ")), points)
    if (classes == _UNSPACED_LETTER).any():
        places = np.arange(len(points)) + np.cumsum(_unit_starts(classes))
        spaced_points = np.full(int(places[-1]) + 1, ord(" "), dtype=np.uint32)
        spaced_points[places] = points
        points = spaced_points
    return points.tobytes().decode("utf-32-le", "surrogatepass").split()


def _unit_starts(classes: UInt8[np.ndarray, " points"]) -> Bool[np.ndarray, " points"]:
    """Return where a unit starts without a separator: before every letter of an unspaced script, and after it."""
    letter_of_mark = np.maximum.accumulate(np.where(classes == _MARK, 0, np.arange(len(classes))))
    previous_class = np.concatenate([[_SEPARATOR], classes[letter_of_mark][:-1]])
    starts: Bool[np.ndarray, " points"] = (classes == _UNSPACED_LETTER) | (
        (classes == _SPACED_LETTER) & (previous_class == _UNSPACED_LETTER)
    )
    return starts


def unspaced_share(text: str) -> float:
    """Return the share of the letters of ``text`` in scripts without spaces between words; 0 without letters."""
    if text.isascii():
        return 0.0
    classes = _class_table().take(np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32))
    num_single = int((classes == _UNSPACED_LETTER).sum())
    num_spaced = int((classes == _SPACED_LETTER).sum())
    return num_single / max(1, num_single + num_spaced)


class CountedUnits(NamedTuple):
    """The `split_units` of a text without their letters; the arrays are read-only.

    Attributes:
        hashes: equal for equal units of any text, ``(num_units,)``.
        lengths: characters of each, ``(num_units,)``.
        num_numeric: units of numerals alone.
        unspaced_share: that of `unspaced_share`.
    """

    hashes: UInt64[np.ndarray, " units"]
    lengths: Int64[np.ndarray, " units"]
    num_numeric: int
    unspaced_share: float


def count_units(text: str) -> CountedUnits:
    """Return hashes and lengths of the `split_units` of a text, in a tenth of the time of making them.

    What was counted last is remembered, `_MAX_RECENT_UNITS` units in all: successive stages ask for the same texts.
    """
    return _RECENT_UNITS[text]


def _count_units(text: str) -> CountedUnits:
    if "\u0130" in text or "Σ" in text:  # one becomes two letters, the other depends on its neighbours
        text = text.lower()
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    class_bits = _class_and_numeral_table().take(points)
    classes = class_bits & _CLASS_BITS
    is_inside = classes != _SEPARATOR
    starts = is_inside.copy()
    starts[1:] &= ~is_inside[:-1]
    num_single = 0 if text.isascii() else int(np.count_nonzero(classes == _UNSPACED_LETTER))
    if num_single:
        starts |= _unit_starts(classes)
    unit_starts = np.flatnonzero(starts)
    if not len(unit_starts):
        return CountedUnits(np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64), 0, 0.0)
    is_last = is_inside.copy()
    is_last[:-1] &= ~is_inside[1:] | starts[1:]
    # A sum over letters times powers of a factor, those of the letter's place in the text. Then the power of the place
    # where the unit starts is divided out.
    powers_of_place, inverse_powers = _place_powers(1 << max(12, len(points).bit_length()))
    terms = _hash_terms().take(points)
    terms *= powers_of_place[: len(terms)]
    hashes = np.add.reduceat(terms, unit_starts)
    hashes *= inverse_powers[unit_starts]
    hashes ^= hashes >> np.uint64(32)
    hashes *= _HASH_MIXER
    num_numeric = 0
    if (class_bits & _NUMERAL_BIT).any():
        is_other = is_inside & ((class_bits & _NUMERAL_BIT) == 0)
        num_numeric = len(unit_starts) - int(np.count_nonzero(np.logical_or.reduceat(is_other, unit_starts)))
    num_spaced = int(np.count_nonzero(classes == _SPACED_LETTER))
    share = num_single / max(1, num_single + num_spaced)
    return CountedUnits(hashes, np.flatnonzero(is_last) - unit_starts + 1, num_numeric, share)


@cache
def _class_and_numeral_table() -> NDArray[np.uint8]:
    """Return a table of the classes of code points, plus `_NUMERAL_BIT` for what `str.isnumeric` calls a numeral."""
    table = _class_table().copy()
    table[[point for point in range(0x40000) if chr(point).isnumeric()]] |= _NUMERAL_BIT
    return table


@cache
def _hash_terms() -> NDArray[np.uint64]:
    """Return a mixed number for each code point, the same for both cases of a letter, and 0 for separators."""
    points = np.arange(sys.maxunicode + 1, dtype=np.uint64)
    for point in range(0x40000):
        lower = chr(point).lower()
        points[point] = ord(lower) if len(lower) == 1 else point
    terms = (points + np.uint64(1)) * _HASH_MIXER
    terms ^= terms >> np.uint64(29)
    terms[_class_table() == _SEPARATOR] = 0
    return terms


@lru_cache(maxsize=24)
def _place_powers(num: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the powers 1 to ``num`` of a factor modulo 2^64, and the powers 0 to ``num`` - 1 of its inverse."""
    factor, inverse = (
        np.full(num, value, dtype=np.uint64) for value in (_HASH_FACTOR, pow(int(_HASH_FACTOR), -1, 1 << 64))
    )
    inverse[0] = 1
    return np.cumprod(factor), np.cumprod(inverse)


@cache
def hash_powers(n: int) -> UInt64[np.ndarray, " n"]:
    """Return the hash factors of the positions in a run of ``n``, uint64 (n,): powers of 64-bit FNV's prime."""
    return np.array([pow(0x100000001B3, k, 1 << 64) for k in range(n)], dtype=np.uint64)


def hash_runs(hashes: UInt64[np.ndarray, " items"], n: int) -> UInt64[np.ndarray, " runs"]:
    """Hash every run of ``n`` consecutive items, ``(num_items - n + 1,)``; empty when there are fewer."""
    num = len(hashes) - n + 1
    if num <= 0:
        return np.zeros(0, dtype=np.uint64)
    run_hashes = np.zeros(num, dtype=np.uint64)
    for k, power in enumerate(hash_powers(n)):
        run_hashes += hashes[k : k + num] * power
    return run_hashes


class _UnitHashes(dict[str, int]):
    """Hash of each unit, equal in every process, unlike Python's built-in hash."""

    def __missing__(self, unit: str) -> int:
        if len(self) >= _MAX_CACHED_UNITS:
            self.clear()
        value = self[unit] = xxhash.xxh3_64_intdigest(unit.encode("utf-8", "surrogatepass"))
        return value


class _RecentUnits(dict[str, CountedUnits]):
    """Cache of the units of recent texts, `_MAX_RECENT_UNITS` in all."""

    num_units = 0

    def __missing__(self, text: str) -> CountedUnits:
        value = self[text] = _count_units(text)
        for array in value[:2]:
            array.flags.writeable = False
        self.num_units += len(value.hashes)
        while self.num_units > _MAX_RECENT_UNITS and len(self) > 1:
            self.num_units -= len(self.pop(next(iter(self))).hashes)
        return value


_UNIT_HASHES, _RECENT_UNITS = _UnitHashes(), _RecentUnits()


def hash_units(text: str) -> tuple[UInt64[np.ndarray, " units"], Int64[np.ndarray, " units"]]:
    """Return a hash of every unit of ``text`` in NFC, and its line number from 0; both arrays are read-only."""
    if text.isascii():
        pieces, line = _ASCII_UNIT_OR_LINE.findall(text.lower()), "\n"
    else:
        pieces = split_units(unicodedata.normalize("NFC", text).replace("\n", f" {_LINE_MARK} "))
        line = _LINE_MARK
    hashes = np.fromiter(map(_UNIT_HASHES.__getitem__, pieces), dtype=np.uint64, count=len(pieces))
    breaks = hashes == np.uint64(_UNIT_HASHES[line])
    hashes, lines = hashes[~breaks], np.cumsum(breaks)[~breaks]
    for array in (hashes, lines):
        array.flags.writeable = False
    return hashes, lines
