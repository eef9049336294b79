"""Classification of the lines of web pages: running text, or menus, headers, footers and the like.

A small neural network looks at each line and the lines around it: length, ends of sentences, capitals, digits, marks,
the position on the page. It sees no words, so it works in every language and its table holds no text of a page. Its
teachers are extractors that see the HTML (Resiliparse, trafilatura): `benchmarks/lines.py` fits it to the lines that
they call main content. Kohlschütter et al. 2010 (boilerpipe) showed that such features of a line and its neighbours go
far.

All arithmetic is exact: features and weights are multiples of a power of two, and sums stay below 2^53. So the verdict
on a line depends neither on the machine nor on the pages that are judged in the same call.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TypeVar
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from xling.array_types import Float64, Int64
from xling.core.errors import UserError

# Classes of characters.
(
    _BREAK_CLASS, _SPACE_CLASS, _LOWER_CLASS, _UPPER_CLASS, _LETTER_CLASS, _WIDE_CLASS, _THAI_CLASS, _DIGIT_CLASS,
    _STOP_CLASS, _COMMA_CLASS, _BAR_CLASS, _CLOSING_CLASS, _MARK_CLASS, _SIGN_CLASS,
) = range(14)  # fmt: skip
_NUM_CLASSES = 16
# Width of a character in letters of an alphabet, and words in it where no space divides them.
_UNITS_OF_CLASSES = np.array([0.0, 2, 2, 2, 2, 5, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0])  # halves
_STOP_MARKS = frozenset(".!?…。！？؟।॥։።፧၊။។៕؛᙮᠃᠉⸮")
_COMMA_MARKS = frozenset(",;:、，；：،،፣፤")
_BAR_MARKS = frozenset("|»«›‹•·●■▪►▶▼▲→←↑↓/\\>＞<＜~*+=_#│┃※◆◇○★☆")
_CLOSINGS = frozenset("\"'”’»」』）)]】》〉")
_THAI_RANGES = ((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF))
_WIDE_RANGES = (
    (0x2E80, 0x2FDF),
    (0x3005, 0x3007),
    (0x3021, 0x3134),
    (0x31A0, 0x31FF),
    (0x3400, 0x9FFF),
    (0xF900, 0xFAFF),
)
_TABLE_SIZE = 0x20000

_FEATURE_STEP = 256  # features are multiples of 1 / 256
WEIGHT_STEP = 1024
_MAX_FEATURE = 16.0
# Halves of letters: a long line, and the least of a line that counts as a sentence.
_LONG_LINE_UNITS, _SENTENCE_UNITS = (160, 80)
_WINDOWS = (2, 6, 20)
_OFFSETS = (-3, -2, -1, 1, 2, 3)

_NUM_OWN_FEATURES, _NUM_POSITION_FEATURES = 18, 12
_NUM_NEIGHBOUR_FEATURES, _NUM_WINDOW_FEATURES = 4 * len(_OFFSETS), 5 * len(_WINDOWS)
_LINES_PER_GROUP = 2048  # more do not fit into the cache of a core

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]
_Values = TypeVar("_Values", Ints, Floats)


@cache
def _classes() -> NDArray[np.uint8]:
    """Return the class of every code point below `_TABLE_SIZE`."""
    by_category = {
        "Lu": _UPPER_CLASS,
        "Lt": _UPPER_CLASS,
        "Ll": _LOWER_CLASS,
        "Nd": _DIGIT_CLASS,
        "No": _DIGIT_CLASS,
        "Zs": _SPACE_CLASS,
    }
    by_first = {"L": _LETTER_CLASS, "M": _LETTER_CLASS, "N": _DIGIT_CLASS, "P": _MARK_CLASS, "S": _SIGN_CLASS}
    table = np.full(_TABLE_SIZE, _SIGN_CLASS, dtype=np.uint8)
    for code in range(_TABLE_SIZE):
        category = unicodedata.category(chr(code))
        table[code] = by_category.get(category, by_first.get(category[0], _SIGN_CLASS))
    for first, last in _WIDE_RANGES:
        table[first : last + 1] = _WIDE_CLASS
    for first, last in _THAI_RANGES:
        part = table[first : last + 1]
        part[part == _LETTER_CLASS] = _THAI_CLASS
    for chars, kind in (
        (_COMMA_MARKS, _COMMA_CLASS),
        (_BAR_MARKS, _BAR_CLASS),
        (_CLOSINGS, _CLOSING_CLASS),
        (_STOP_MARKS, _STOP_CLASS),
    ):
        table[[ord(char) for char in chars]] = kind
    table[0x0A], table[0x09] = _BREAK_CLASS, _SPACE_CLASS
    return table


@dataclass(frozen=True)
class _LineCharacters:
    """Counts of each line of some pages.

    Attributes:
        counts: characters of each class, ``(16, num_lines)``.
        num_capitals: words that begin with a capital, ``(num_lines,)``.
        first_class: class of the first character, ``(num_lines,)``.
        last_class: class of the last character that closes no quotation, ``(num_lines,)``.
        lengths: lines of each page, ``(num_pages,)``.
    """

    counts: Floats
    num_capitals: Ints
    first_class: Bytes
    last_class: Bytes
    lengths: Ints

    @property
    def num_lines(self) -> int:
        """Number of lines of all pages."""
        return len(self.num_capitals)

    @cached_property
    def page_ends(self) -> Int64[np.ndarray, " num_pages"]:
        """Number after the last line of each page, ``(num_pages,)``."""
        return np.cumsum(self.lengths)

    @cached_property
    def page_start(self) -> Int64[np.ndarray, " num_lines"]:
        """Number of the first line of each line's page, ``(num_lines,)``."""
        return self.of_page(self.page_ends - self.lengths)

    @cached_property
    def page_end(self) -> Int64[np.ndarray, " num_lines"]:
        """Number after the last line of each line's page, ``(num_lines,)``."""
        return self.of_page(self.page_ends)

    def of_page(self, values: _Values) -> _Values:
        """Return the value of each line's page, ``(num_lines,)``."""
        return np.repeat(values, self.lengths)


def _count_characters(pages: Sequence[str]) -> _LineCharacters:
    text = "\n".join(pages) + "\n"
    codes = np.frombuffer(text.encode("utf-32-le", "replace"), dtype=np.uint32)
    if int(codes.max()) < _TABLE_SIZE:
        classes = _classes()[codes]
    else:
        classes = _classes()[np.minimum(codes, _TABLE_SIZE - 1)]
        classes[codes >= _TABLE_SIZE] = _WIDE_CLASS  # Han of the planes above
    line_ends = np.flatnonzero(classes == _BREAK_CLASS)
    num_lines = len(line_ends)
    starts = np.concatenate([[0], line_ends[:-1] + 1])
    cells = np.repeat(np.arange(0, num_lines * _NUM_CLASSES, _NUM_CLASSES), line_ends + 1 - starts)
    is_capital = classes == _UPPER_CLASS
    is_capital[1:] &= classes[:-1] <= _SPACE_CLASS
    lines_of_capitals = cells[is_capital] // _NUM_CLASSES
    cells += classes
    counts = np.bincount(cells, minlength=num_lines * _NUM_CLASSES).reshape(num_lines, _NUM_CLASSES)
    last = classes[np.maximum(line_ends - 1, 0)]
    last_but_one = classes[np.maximum(line_ends - 2, 0)]
    return _LineCharacters(
        np.ascontiguousarray(counts.T, dtype=np.float64),
        np.bincount(lines_of_capitals, minlength=num_lines),
        classes[starts],
        np.where((last == _CLOSING_CLASS) & (line_ends - starts > 1), last_but_one, last),
        np.fromiter((page.count("\n") + 1 for page in pages), dtype=np.int64, count=len(pages)),
    )


def features(pages: Sequence[str]) -> Float64[np.ndarray, "num_lines num_features"]:
    """Return what the network sees of each line, ``(num_lines, num_features)`` float64, multiples of 1/256.

    Args:
        pages: texts, a paragraph a line; a page has at least one line.
    """
    return np.ascontiguousarray(_all_features(pages).T)


def _all_features(pages: Sequence[str]) -> Floats:
    """Return the features of all lines, ``(num_features, num_lines)``."""
    lines = _count_characters(pages)
    units = _UNITS_OF_CLASSES @ lines.counts
    ends = np.cumsum([_NUM_OWN_FEATURES, _NUM_NEIGHBOUR_FEATURES, _NUM_WINDOW_FEATURES])
    columns = np.empty((ends[-1] + _NUM_POSITION_FEATURES, lines.num_lines))
    own_rows, neighbour_rows, window_rows, position_rows = np.split(columns, ends)
    _own_features(own_rows, lines, units)
    size, ended = own_rows[0], own_rows[8]
    is_long = (units >= _LONG_LINE_UNITS).astype(np.float64)
    _neighbour_features(neighbour_rows, [size, ended, own_rows[4], own_rows[2]], lines)
    _window_features(window_rows, [size, ended, is_long, own_rows[4], own_rows[5]], lines)
    _position_features(position_rows, lines, units, (units >= _SENTENCE_UNITS) * ended * units, size, is_long)
    return columns


def _own_features(rows: Floats, lines: _LineCharacters, units: Floats) -> None:
    """Compute the features of each line by itself, ``(18, num_lines)``."""
    counts = lines.counts
    chars = np.maximum(1.0, counts.sum(axis=0) - counts[_BREAK_CLASS])
    words = counts[_SPACE_CLASS] + 1 + counts[_WIDE_CLASS] / 2 + counts[_THAI_CLASS] / 6
    rows[0] = np.log2(1 + units) / 2
    rows[1] = np.log2(1 + words)
    rows[2] = 4 * counts[_DIGIT_CLASS] / chars
    rows[3] = 4 * counts[_UPPER_CLASS] / chars
    rows[4] = 4 * lines.num_capitals / words
    rows[5] = np.minimum(8, 8 * counts[_BAR_CLASS] / words)
    rows[6] = np.log2(1 + counts[_COMMA_CLASS])
    rows[7] = np.log2(1 + counts[_STOP_CLASS])
    rows[8] = 2.0 * (lines.last_class == _STOP_CLASS)
    rows[9] = 2.0 * (lines.last_class == _COMMA_CLASS)
    rows[10] = 2.0 * (lines.first_class == _LOWER_CLASS)
    rows[11] = 2.0 * (
        (lines.first_class == _BAR_CLASS)
        | (lines.first_class == _SIGN_CLASS)
        | (lines.first_class == _MARK_CLASS)
    )
    rows[12] = 2.0 * (lines.first_class == _DIGIT_CLASS)
    rows[13] = 8 * (counts[_SIGN_CLASS] + counts[_MARK_CLASS]) / chars
    rows[14] = np.minimum(8, units / words / 4)
    rows[15] = 2 * (counts[_WIDE_CLASS] + counts[_THAI_CLASS]) / chars
    rows[16] = 2 * counts[_LETTER_CLASS] / chars
    rows[17] = np.minimum(8, 8 * counts[_COMMA_CLASS] / words)
    _round_in_place(rows)


def _neighbour_features(neighbour_rows: Floats, columns: Sequence[Floats], lines: _LineCharacters) -> None:
    """Compute each column of the lines `_OFFSETS` lines further on the same page; -1 beyond its ends."""
    num, numbers = lines.num_lines, np.arange(lines.num_lines)
    row_iterator = iter(neighbour_rows)
    for offset in _OFFSETS:
        beyond_page = np.flatnonzero(
            (numbers + offset < lines.page_start) | (numbers + offset >= lines.page_end)
        )
        to_lines = slice(max(0, -offset), max(0, num - max(0, offset)))
        from_lines = slice(max(0, offset), max(0, num + min(0, offset)))
        for column, row in zip(columns, itertools.islice(row_iterator, len(columns)), strict=True):
            row[to_lines] = column[from_lines]
            row[beyond_page] = -1.0


def _window_features(rows_out: Floats, columns: Sequence[Floats], lines: _LineCharacters) -> None:
    """Compute the mean of each column over the lines of a page up to each of `_WINDOWS` lines away."""
    numbers, rows = np.arange(lines.num_lines), iter(rows_out)
    prefix_sums = [_prefix_sums(column) for column in columns]  # exact: multiples of 1/256
    for reach in _WINDOWS:
        first = np.maximum(lines.page_start, numbers - reach)
        last = np.minimum(lines.page_end, numbers + reach + 1)
        width = (last - first).astype(np.float64)
        for total, row in zip(prefix_sums, itertools.islice(rows, len(columns)), strict=True):
            np.subtract(total[last], total[first], out=row)
            row /= width
    _round_in_place(rows_out)


def _prefix_sums(column: Floats) -> Floats:
    """Return the sums of the first 0, 1, 2, ... values, ``(num + 1,)``."""
    sums = np.zeros(len(column) + 1)
    np.cumsum(column, out=sums[1:])
    return sums


def _position_features(
    rows: Floats, lines: _LineCharacters, units: Floats, sentence_units: Floats, size: Floats, is_long: Floats
) -> None:
    """Compute where each line stands on its page, and how its page is, ``(12, num_lines)``."""
    num_lines, ends = lines.lengths, lines.page_ends
    tops = ends - num_lines
    sentence_sums = _prefix_sums(sentence_units)
    total, page_sentence_units, sizes, page_long_lines = (
        sums[ends] - sums[tops]
        for sums in (_prefix_sums(units), sentence_sums, _prefix_sums(size), _prefix_sums(is_long))
    )
    line = np.arange(lines.num_lines) - lines.page_start  # on its page
    sentence_units_of_page = lines.of_page(np.maximum(1, page_sentence_units))
    logs = np.log2(np.arange(1.0, num_lines.max() + 1))
    rows[0] = logs[line]
    rows[1] = logs[lines.page_end - lines.page_start - 1 - line]
    rows[2] = lines.of_page(np.log2(1.0 + num_lines))
    rows[3] = 4 * line / lines.of_page(num_lines)
    rows[4] = lines.of_page(np.log2(1 + total) / 2)
    rows[5] = lines.of_page(2 * page_sentence_units / np.maximum(1, total))
    rows[6] = lines.of_page(np.log2(1 + page_sentence_units) / 2)
    rows[7] = 4 * (sentence_sums[:-1] - lines.of_page(sentence_sums[tops])) / sentence_units_of_page
    rows[8] = 4 * (lines.of_page(sentence_sums[ends]) - sentence_sums[1:]) / sentence_units_of_page
    rows[9] = lines.of_page(sizes / num_lines)
    rows[10] = lines.of_page(4 * page_long_lines / num_lines)
    rows[11] = 2 * units / lines.of_page(np.maximum(1, total))
    _round_in_place(rows)


def _round_in_place(values: Floats) -> None:
    """Round to multiples of ``1 / _FEATURE_STEP`` and cut at `_MAX_FEATURE`, in place."""
    values *= _FEATURE_STEP
    np.rint(values, out=values)
    values /= _FEATURE_STEP
    np.clip(values, -_MAX_FEATURE, _MAX_FEATURE, out=values)


def _page_groups(pages: Sequence[str]) -> Iterator[list[str]]:
    """Yield the pages in groups of `_LINES_PER_GROUP` lines, or a few more."""
    group, num_lines = list[str](), 0
    for page in pages:
        group.append(page)
        num_lines += page.count("\n") + 1
        if num_lines >= _LINES_PER_GROUP:
            yield group
            group, num_lines = [], 0
    if group:
        yield group


@dataclass(frozen=True)
class LineModel:
    """A network with one hidden layer.

    Attributes:
        inner: weights of the hidden layer, ``(num_features + 1, num_hidden)``; the last row is the bias.
        outer: weights of the answer, ``(num_hidden + 1,)``; the last is the bias.
    """

    inner: Float64[np.ndarray, "num_inputs num_hidden"]
    outer: Float64[np.ndarray, " num_outputs"]

    def scores(self, pages: Sequence[str]) -> Float64[np.ndarray, " num_lines"]:
        """Return the log-odds that each line of the pages is running text, ``(num_lines,)``.

        Args:
            pages: texts, a paragraph a line.
        """
        return np.concatenate([self.answer(_all_features(group).T) for group in _page_groups(pages)])

    def answer(
        self, line_features: Float64[np.ndarray, "num_lines num_features"]
    ) -> Float64[np.ndarray, " num_lines"]:
        """Return the log-odds for `features`, ``(num_lines,)``."""
        hidden = line_features @ (self.inner[:-1] * WEIGHT_STEP)
        hidden += self.inner[-1] * WEIGHT_STEP
        np.maximum(0, hidden, out=hidden)
        np.floor(hidden, out=hidden)
        return hidden @ (self.outer[:-1] / WEIGHT_STEP) + self.outer[-1]


def load(path: Path) -> LineModel:
    """Return the model in a file.

    Raises:
        UserError: there is none, or it is another kind of file.
    """
    try:
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            hidden_weights = file["inner"] / float(WEIGHT_STEP)
            output_weights = file["outer"] / float(WEIGHT_STEP)
        num_inputs, num_hidden = len(features(["x"])[0]) + 1, hidden_weights.shape[1]
        if hidden_weights.shape[0] != num_inputs or output_weights.shape != (num_hidden + 1,):
            raise ValueError(f"shapes {hidden_weights.shape} and {output_weights.shape}")
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise UserError(
            f"{path} is not a model of lines: {error}", "the file of the package", "install xling again"
        ) from None
    return LineModel(hidden_weights, output_weights)
