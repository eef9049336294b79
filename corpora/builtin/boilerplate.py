"""Classification of the lines of web pages: running text, or menus, headers, footers and the like.

A small neural network looks at each line and the lines around it: length, ends of sentences, capitals, digits, marks,
the position on the page. It sees no words, so it works in every language and its table holds no text of a page. Its
teacher is an extractor that sees the HTML (Resiliparse, trafilatura); `train` fits it to the lines that the extractor
calls main content. Kohlschütter et al. 2010 (boilerpipe) showed that such features of a line and its neighbours go far.

All arithmetic is exact: features and weights are multiples of a power of two, and sums stay below 2^53. So the verdict
on a line depends neither on the machine nor on the pages that are judged in the same call.
"""

from __future__ import annotations

import difflib
import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from xling.core.errors import UserError

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64, Int64

# Classes of characters.
(
    _BREAK, _SPACE, _LOWER, _UPPER, _LETTER, _WIDE, _THAI, _DIGIT, _STOP, _COMMA, _BAR, _CLOSING, _MARK, _SIGN
) = range(14)  # fmt: skip
_NUM_CLASSES = 16
# Width of a character in letters of an alphabet, and words in it where no space divides them.
_UNITS = np.array([0.0, 2, 2, 2, 2, 5, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0])  # halves
_STOPS = frozenset(".!?…。！？؟।॥։።፧၊။។៕؛᙮᠃᠉⸮")
_COMMAS = frozenset(",;:、，；：،،፣፤")
_BARS = frozenset("|»«›‹•·●■▪►▶▼▲→←↑↓/\\>＞<＜~*+=_#│┃※◆◇○★☆")
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

_STEP = 256  # features are multiples of 1 / 256
_WEIGHT_STEP = 1024
_MAX_FEATURE, _MAX_WEIGHT = 16.0, 15.0
_LONG, _SENTENCE = (
    160,
    80,
)  # halves of letters: a long line, and the least of a line that counts as a sentence
_WINDOWS = (2, 6, 20)
_OFFSETS = (-3, -2, -1, 1, 2, 3)

_NUM_OWN, _NUM_AROUND, _NUM_SMOOTH, _NUM_PLACES = 18, 4 * len(_OFFSETS), 5 * len(_WINDOWS), 12
_LINES_AT_ONCE = 2048  # more do not fit into the cache of a core

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]
_Values = TypeVar("_Values", Ints, Floats)


@cache
def _classes() -> NDArray[np.uint8]:
    """Return the class of every code point below `_TABLE_SIZE`."""
    by_category = {"Lu": _UPPER, "Lt": _UPPER, "Ll": _LOWER, "Nd": _DIGIT, "No": _DIGIT, "Zs": _SPACE}
    by_first = {"L": _LETTER, "M": _LETTER, "N": _DIGIT, "P": _MARK, "S": _SIGN}
    table = np.full(_TABLE_SIZE, _SIGN, dtype=np.uint8)
    for code in range(_TABLE_SIZE):
        category = unicodedata.category(chr(code))
        table[code] = by_category.get(category, by_first.get(category[0], _SIGN))
    for first, last in _WIDE_RANGES:
        table[first : last + 1] = _WIDE
    for first, last in _THAI_RANGES:
        part = table[first : last + 1]
        part[part == _LETTER] = _THAI
    for chars, kind in ((_COMMAS, _COMMA), (_BARS, _BAR), (_CLOSINGS, _CLOSING), (_STOPS, _STOP)):
        table[[ord(char) for char in chars]] = kind
    table[0x0A], table[0x09] = _BREAK, _SPACE
    return table


@dataclass(frozen=True)
class _Lines:
    """Counts of each line of some pages.

    Attributes:
        counts: characters of each class, ``(16, num_lines)``.
        capitals: words that begin with a capital, ``(num_lines,)``.
        first: class of the first character, ``(num_lines,)``.
        last: class of the last character that closes no quotation, ``(num_lines,)``.
        lengths: lines of each page, ``(num_pages,)``.
    """

    counts: Floats
    capitals: Ints
    first: Bytes
    last: Bytes
    lengths: Ints

    @property
    def num_lines(self) -> int:
        """Number of lines of all pages."""
        return len(self.capitals)

    @cached_property
    def ends(self) -> Int64[np.ndarray, " num_pages"]:
        """Number after the last line of each page, ``(num_pages,)``."""
        return np.cumsum(self.lengths)

    @cached_property
    def top(self) -> Int64[np.ndarray, " num_lines"]:
        """Number of the first line of each line's page, ``(num_lines,)``."""
        return self.of_page(self.ends - self.lengths)

    @cached_property
    def end(self) -> Int64[np.ndarray, " num_lines"]:
        """Number after the last line of each line's page, ``(num_lines,)``."""
        return self.of_page(self.ends)

    def of_page(self, values: _Values) -> _Values:
        """Return the value of each line's page, ``(num_lines,)``."""
        return np.repeat(values, self.lengths)


def _counted(pages: Sequence[str]) -> _Lines:
    text = "\n".join(pages) + "\n"
    codes = np.frombuffer(text.encode("utf-32-le", "replace"), dtype=np.uint32)
    if int(codes.max()) < _TABLE_SIZE:
        classes = _classes()[codes]
    else:
        classes = _classes()[np.minimum(codes, _TABLE_SIZE - 1)]
        classes[codes >= _TABLE_SIZE] = _WIDE  # Han of the planes above
    ends = np.flatnonzero(classes == _BREAK)
    num_lines = len(ends)
    starts = np.concatenate([[0], ends[:-1] + 1])
    cells = np.repeat(np.arange(0, num_lines * _NUM_CLASSES, _NUM_CLASSES), ends + 1 - starts)
    is_capital = classes == _UPPER
    is_capital[1:] &= classes[:-1] <= _SPACE
    capitals = cells[is_capital] // _NUM_CLASSES
    cells += classes
    counts = np.bincount(cells, minlength=num_lines * _NUM_CLASSES).reshape(num_lines, _NUM_CLASSES)
    last = classes[np.maximum(ends - 1, 0)]
    before = classes[np.maximum(ends - 2, 0)]
    return _Lines(
        np.ascontiguousarray(counts.T, dtype=np.float64),
        np.bincount(capitals, minlength=num_lines),
        classes[starts],
        np.where((last == _CLOSING) & (ends - starts > 1), before, last),
        np.fromiter((page.count("\n") + 1 for page in pages), dtype=np.int64, count=len(pages)),
    )


def features(pages: Sequence[str]) -> Float64[np.ndarray, "num_lines num_features"]:
    """Return what the network sees of each line, ``(num_lines, num_features)`` float64, multiples of 1/256.

    Args:
        pages: texts, a paragraph a line; a page has at least one line.
    """
    return np.ascontiguousarray(_columns(pages).T)


def _columns(pages: Sequence[str]) -> Floats:
    """Return the features of all lines, ``(num_features, num_lines)``."""
    lines = _counted(pages)
    units = _UNITS @ lines.counts
    columns = np.empty((_NUM_OWN + _NUM_AROUND + _NUM_SMOOTH + _NUM_PLACES, lines.num_lines))
    own, around, smooth, places = np.split(columns, np.cumsum([_NUM_OWN, _NUM_AROUND, _NUM_SMOOTH]))
    _own(own, lines, units)
    size, ended = own[0], own[8]
    is_long = (units >= _LONG).astype(np.float64)
    _shifted(around, [size, ended, own[4], own[2]], lines)
    _smoothed(smooth, [size, ended, is_long, own[4], own[5]], lines)
    _places(places, lines, units, (units >= _SENTENCE) * ended * units, size, is_long)
    return columns


def _own(own: Floats, lines: _Lines, units: Floats) -> None:
    """Compute the features of each line by itself, ``(18, num_lines)``."""
    counts = lines.counts
    chars = np.maximum(1.0, counts.sum(axis=0) - counts[_BREAK])
    words = counts[_SPACE] + 1 + counts[_WIDE] / 2 + counts[_THAI] / 6
    own[0] = np.log2(1 + units) / 2
    own[1] = np.log2(1 + words)
    own[2] = 4 * counts[_DIGIT] / chars
    own[3] = 4 * counts[_UPPER] / chars
    own[4] = 4 * lines.capitals / words
    own[5] = np.minimum(8, 8 * counts[_BAR] / words)
    own[6] = np.log2(1 + counts[_COMMA])
    own[7] = np.log2(1 + counts[_STOP])
    own[8] = 2.0 * (lines.last == _STOP)
    own[9] = 2.0 * (lines.last == _COMMA)
    own[10] = 2.0 * (lines.first == _LOWER)
    own[11] = 2.0 * ((lines.first == _BAR) | (lines.first == _SIGN) | (lines.first == _MARK))
    own[12] = 2.0 * (lines.first == _DIGIT)
    own[13] = 8 * (counts[_SIGN] + counts[_MARK]) / chars
    own[14] = np.minimum(8, units / words / 4)
    own[15] = 2 * (counts[_WIDE] + counts[_THAI]) / chars
    own[16] = 2 * counts[_LETTER] / chars
    own[17] = np.minimum(8, 8 * counts[_COMMA] / words)
    _round(own)


def _shifted(around: Floats, columns: Sequence[Floats], lines: _Lines) -> None:
    """Compute each column of the lines `_OFFSETS` lines further on the same page; -1 beyond its ends."""
    num, places = lines.num_lines, np.arange(lines.num_lines)
    rows = iter(around)
    for offset in _OFFSETS:
        outside = np.flatnonzero((places + offset < lines.top) | (places + offset >= lines.end))
        here = slice(max(0, -offset), max(0, num - max(0, offset)))
        there = slice(max(0, offset), max(0, num + min(0, offset)))
        for column, row in zip(columns, itertools.islice(rows, len(columns)), strict=True):
            row[here] = column[there]
            row[outside] = -1.0


def _smoothed(smooth: Floats, columns: Sequence[Floats], lines: _Lines) -> None:
    """Compute the mean of each column over the lines of a page up to each of `_WINDOWS` lines away."""
    places, rows = np.arange(lines.num_lines), iter(smooth)
    sums = [_summed(column) for column in columns]  # exact: multiples of 1/256
    for reach in _WINDOWS:
        first = np.maximum(lines.top, places - reach)
        last = np.minimum(lines.end, places + reach + 1)
        width = (last - first).astype(np.float64)
        for total, row in zip(sums, itertools.islice(rows, len(columns)), strict=True):
            np.subtract(total[last], total[first], out=row)
            row /= width
    _round(smooth)


def _summed(column: Floats) -> Floats:
    """Return the sums of the first 0, 1, 2, ... values, ``(num + 1,)``."""
    sums = np.zeros(len(column) + 1)
    np.cumsum(column, out=sums[1:])
    return sums


def _places(
    places: Floats, lines: _Lines, units: Floats, mass: Floats, size: Floats, is_long: Floats
) -> None:
    """Compute where each line stands on its page, and how its page is, ``(12, num_lines)``."""
    num_lines, ends = lines.lengths, lines.ends
    tops = ends - num_lines
    masses = _summed(mass)
    total, whole, sizes, longs = (
        sums[ends] - sums[tops] for sums in (_summed(units), masses, _summed(size), _summed(is_long))
    )
    line = np.arange(lines.num_lines) - lines.top  # on its page
    whole_of = lines.of_page(np.maximum(1, whole))
    logs = np.log2(np.arange(1.0, num_lines.max() + 1))
    places[0] = logs[line]
    places[1] = logs[lines.end - lines.top - 1 - line]
    places[2] = lines.of_page(np.log2(1.0 + num_lines))
    places[3] = 4 * line / lines.of_page(num_lines)
    places[4] = lines.of_page(np.log2(1 + total) / 2)
    places[5] = lines.of_page(2 * whole / np.maximum(1, total))
    places[6] = lines.of_page(np.log2(1 + whole) / 2)
    places[7] = 4 * (masses[:-1] - lines.of_page(masses[tops])) / whole_of
    places[8] = 4 * (lines.of_page(masses[ends]) - masses[1:]) / whole_of
    places[9] = lines.of_page(sizes / num_lines)
    places[10] = lines.of_page(4 * longs / num_lines)
    places[11] = 2 * units / lines.of_page(np.maximum(1, total))
    _round(places)


def _round(values: Floats) -> None:
    """Round to multiples of ``1 / _STEP`` and cut at `_MAX_FEATURE`, in place."""
    values *= _STEP
    np.rint(values, out=values)
    values /= _STEP
    np.clip(values, -_MAX_FEATURE, _MAX_FEATURE, out=values)


def _groups(pages: Sequence[str]) -> Iterator[list[str]]:
    """Yield the pages in groups of `_LINES_AT_ONCE` lines, or a few more."""
    group, num_lines = list[str](), 0
    for page in pages:
        group.append(page)
        num_lines += page.count("\n") + 1
        if num_lines >= _LINES_AT_ONCE:
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
        return np.concatenate([self.answer(_columns(group).T) for group in _groups(pages)])

    def answer(
        self, seen: Float64[np.ndarray, "num_lines num_features"]
    ) -> Float64[np.ndarray, " num_lines"]:
        """Return the log-odds for `features`, ``(num_lines,)``."""
        hidden = seen @ (self.inner[:-1] * _WEIGHT_STEP)
        hidden += self.inner[-1] * _WEIGHT_STEP
        np.maximum(0, hidden, out=hidden)
        np.floor(hidden, out=hidden)
        return hidden @ (self.outer[:-1] / _WEIGHT_STEP) + self.outer[-1]

    def save(self, path: Path) -> None:
        """Write the model; equal models give equal bytes."""
        with path.open("wb") as handle:
            np.savez_compressed(
                handle,
                inner=np.rint(self.inner * _WEIGHT_STEP).astype(np.int16),
                outer=np.rint(self.outer * _WEIGHT_STEP).astype(np.int16),
            )


def load(path: Path) -> LineModel:
    """Return the model in a file.

    Raises:
        UserError: there is none, or it is another kind of file.
    """
    try:
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            inner, outer = file["inner"] / float(_WEIGHT_STEP), file["outer"] / float(_WEIGHT_STEP)
        if inner.shape[0] != len(features(["x"])[0]) + 1 or outer.shape != (inner.shape[1] + 1,):
            raise ValueError(f"shapes {inner.shape} and {outer.shape}")
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise UserError(
            f"{path} is not a model of lines: {error}", "a file that xling corpus lines-train made"
        ) from None
    return LineModel(inner, outer)


_WORD = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]|\w+")


def labels(text: str, main: str) -> Bool[np.ndarray, " num_lines"]:
    """Return which lines of a page are in its main content, ``(num_lines,)``: at least half of their words are.

    The words of both are aligned in order, so that a menu item is not taken for the same word of an article.

    Args:
        text: all text of the page.
        main: the part that an extractor calls main content.
    """
    lines = [_WORD.findall(line.lower()) for line in text.split("\n")]
    words = [word for line in lines for word in line]
    matched = np.zeros(len(words) + 1, dtype=np.int64)
    blocks = difflib.SequenceMatcher(None, words, _WORD.findall(main.lower()), autojunk=False)
    for block in blocks.get_matching_blocks():
        matched[block.a + 1 : block.a + block.size + 1] = 1
    ends = np.cumsum([len(line) for line in lines])
    lengths = np.diff(ends, prepend=0)
    hits = np.cumsum(matched)[ends] - np.cumsum(matched)[ends - lengths]
    return (lengths > 0) & (2 * hits >= np.maximum(1, lengths))


def train(
    seen: Float64[np.ndarray, "num_lines num_features"],
    wanted: Float64[np.ndarray, " num_lines"],
    weights: Float64[np.ndarray, " num_lines"],
    seed: int = 0,
    num_nets: int = 4,
    num_hidden: int = 12,
    epochs: int = 40,
) -> LineModel:
    """Train networks by Adam on weighted cross-entropy, and return their mean as one network.

    Args:
        seen: `features` of lines, ``(num_lines, num_features)``.
        wanted: share of the teachers that call each line main content, ``(num_lines,)``.
        weights: of the lines, ``(num_lines,)``.
        seed: of the first weights and of the order.
        num_nets: networks whose mean is returned.
        num_hidden: hidden units of each.
        epochs: passes over the lines.
    """
    nets = [
        _fitted(seen, wanted, weights / weights.mean(), [seed, net], num_hidden, epochs)
        for net in range(num_nets)
    ]
    inner = np.concatenate([inner for inner, _ in nets], axis=1)
    outer = (
        np.concatenate([*(outer[:-1] for _, outer in nets), [sum(outer[-1] for _, outer in nets)]]) / num_nets
    )
    return LineModel(_on_grid(inner), _on_grid(outer))


def _on_grid(weights: Floats) -> Floats:
    return np.rint(np.clip(weights, -_MAX_WEIGHT, _MAX_WEIGHT) * _WEIGHT_STEP) / _WEIGHT_STEP


def _fitted(
    seen: Floats, wanted: Floats, weights: Floats, seed: list[int], num_hidden: int, epochs: int
) -> tuple[Floats, Floats]:
    """Return the inner and outer weights of one network."""
    random = np.random.default_rng(seed)
    inputs = np.concatenate([seen, np.ones((len(seen), 1))], axis=1)
    inner = random.normal(0, 0.15, (inputs.shape[1], num_hidden))
    outer = random.normal(0, 0.3, num_hidden + 1)
    moments = [(np.zeros_like(p), np.zeros_like(p)) for p in (inner, outer)]
    batch, decay, step = 128, 3e-4, 0
    num_steps = epochs * -(-len(inputs) // batch)
    for _ in range(epochs):
        order = random.permutation(len(inputs))
        for at in range(0, len(inputs), batch):
            rows = order[at : at + batch]
            x, step = inputs[rows], step + 1
            hidden = np.maximum(0, x @ inner)
            share = 1 / (1 + np.exp(-np.clip(hidden @ outer[:-1] + outer[-1], -30, 30)))
            wrong = weights[rows] * (share - wanted[rows]) / len(rows)
            back = np.outer(wrong, outer[:-1]) * (hidden > 0)
            slopes = (x.T @ back + decay * inner, np.append(hidden.T @ wrong, wrong.sum()) + decay * outer)
            rate = 0.01 * (1 - step / (num_steps + 1))
            for weight, slope, (mean, square) in zip((inner, outer), slopes, moments, strict=True):
                mean += 0.1 * (slope - mean)
                square += 0.01 * (slope**2 - square)
                fresh = (1 - 0.9**step, 1 - 0.99**step)
                weight -= rate * (mean / fresh[0]) / (np.sqrt(square / fresh[1]) + 1e-8)
    return inner, outer
