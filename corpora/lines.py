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
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from xling.core.errors import UserError

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64

# Classes of characters.
(
    _BREAK, _SPACE, _LOWER, _UPPER, _LETTER, _WIDE, _THAI, _DIGIT, _STOP, _COMMA, _BAR, _CLOSING, _MARK, _SIGN
) = range(14)  # fmt: skip
_NUM_CLASSES = 16
# Width of a character in letters of an alphabet, and words in it where no space divides them.
_UNITS = np.array([0, 2, 2, 2, 2, 5, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0])  # halves
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

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


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
        counts: characters of each class, ``(num_lines, 16)``.
        capitals: words that begin with a capital, ``(num_lines,)``.
        first: class of the first character, ``(num_lines,)``.
        last: class of the last character that closes no quotation, ``(num_lines,)``.
        top: number of the first line of each line's page, ``(num_lines,)``.
        end: number after its last line, ``(num_lines,)``.
    """

    counts: Ints
    capitals: Ints
    first: Ints
    last: Ints
    top: Ints
    end: Ints


def _counted(pages: Sequence[str]) -> _Lines:
    text = "\n".join(pages) + "\n"
    codes = np.frombuffer(text.encode("utf-32-le", "replace"), dtype=np.uint32)
    classes = _classes()[np.minimum(codes, _TABLE_SIZE - 1)]
    classes[codes >= _TABLE_SIZE] = _WIDE  # Han of the planes above
    ends = np.flatnonzero(classes == _BREAK)
    num_lines = len(ends)
    starts = np.concatenate([[0], ends[:-1] + 1])
    line_of = np.repeat(np.arange(num_lines), ends + 1 - starts)
    counts = np.bincount(line_of * _NUM_CLASSES + classes, minlength=num_lines * _NUM_CLASSES)
    begins = np.concatenate([[True], classes[:-1] <= _SPACE]) & (classes == _UPPER)
    last = classes[np.maximum(ends - 1, 0)]
    before = classes[np.maximum(ends - 2, 0)]
    lengths = np.array([page.count("\n") + 1 for page in pages])
    page_ends = np.cumsum(lengths)
    return _Lines(
        counts.reshape(num_lines, _NUM_CLASSES),
        np.bincount(line_of[begins], minlength=num_lines),
        classes[starts].astype(np.int64),
        np.where((last == _CLOSING) & (ends - starts > 1), before, last).astype(np.int64),
        np.repeat(page_ends - lengths, lengths),
        np.repeat(page_ends, lengths),
    )


def features(pages: Sequence[str]) -> Float64[np.ndarray, "num_lines num_features"]:
    """Return what the network sees of each line, ``(num_lines, num_features)`` float64, multiples of 1/256.

    Args:
        pages: texts, a paragraph a line; a page has at least one line.
    """
    lines = _counted(pages)
    units = lines.counts @ _UNITS
    own = _own(lines, units)
    size, ended = own[:, 0], own[:, 8]
    around = [
        _shifted(column, offset, lines)
        for offset in _OFFSETS
        for column in (size, ended, own[:, 4], own[:, 2])
    ]
    is_long, is_sentence = (units >= _LONG).astype(np.float64), (units >= _SENTENCE) * ended
    smooth = [
        _window(column, reach, lines)
        for reach in _WINDOWS
        for column in (size, ended, is_long, own[:, 4], own[:, 5])
    ]
    columns = [*own.T, *around, *smooth, *_places(lines, units, is_sentence * units, size, is_long)]
    return _rounded(np.stack(columns, axis=1))


def _own(lines: _Lines, units: Ints) -> Floats:
    """Return the features of each line by itself, ``(num_lines, num)``."""
    counts = lines.counts.astype(np.float64)
    chars = np.maximum(1.0, counts.sum(axis=1) - counts[:, _BREAK])
    words = counts[:, _SPACE] + 1 + counts[:, _WIDE] / 2 + counts[:, _THAI] / 6
    return _rounded(
        np.stack(
            [
                np.log2(1 + units) / 2,
                np.log2(1 + words),
                4 * counts[:, _DIGIT] / chars,
                4 * counts[:, _UPPER] / chars,
                4 * lines.capitals / words,
                np.minimum(8, 8 * counts[:, _BAR] / words),
                np.log2(1 + counts[:, _COMMA]),
                np.log2(1 + counts[:, _STOP]),
                2.0 * (lines.last == _STOP),
                2.0 * (lines.last == _COMMA),
                2.0 * (lines.first == _LOWER),
                2.0 * ((lines.first == _BAR) | (lines.first == _SIGN) | (lines.first == _MARK)),
                2.0 * (lines.first == _DIGIT),
                8 * (counts[:, _SIGN] + counts[:, _MARK]) / chars,
                np.minimum(8, units / words / 4),
                2 * (counts[:, _WIDE] + counts[:, _THAI]) / chars,
                2 * counts[:, _LETTER] / chars,
                np.minimum(8, 8 * counts[:, _COMMA] / words),
            ],
            axis=1,
        )
    )


def _shifted(column: Floats, offset: int, lines: _Lines) -> Floats:
    """Return the value of the line ``offset`` lines further on the same page, -1 beyond its ends."""
    places = np.arange(len(column)) + offset
    inside = (places >= lines.top) & (places < lines.end)
    return np.where(inside, column[np.where(inside, places, 0)], -1.0)


def _window(column: Floats, reach: int, lines: _Lines) -> Floats:
    """Return the mean of a column over the lines of a page up to ``reach`` lines away."""
    sums = np.concatenate([[0.0], np.cumsum(column)])  # exact: multiples of 1/256
    places = np.arange(len(column))
    first = np.maximum(lines.top, places - reach)
    last = np.minimum(lines.end, places + reach + 1)
    return (sums[last] - sums[first]) / (last - first)


def _places(lines: _Lines, units: Ints, mass: Floats, size: Floats, is_long: Floats) -> list[Floats]:
    """Return where each line stands on its page, and how its page is."""
    places = np.arange(len(units))
    num_lines = lines.end - lines.top
    sums, masses, sizes, longs = (
        np.concatenate([[0.0], np.cumsum(column)]) for column in (units, mass, size, is_long)
    )
    total, whole = sums[lines.end] - sums[lines.top], masses[lines.end] - masses[lines.top]
    before = masses[places] - masses[lines.top]
    after = masses[lines.end] - masses[places + 1]
    return [
        np.log2(1.0 + places - lines.top),
        np.log2(0.0 + lines.end - places),
        np.log2(1.0 + num_lines),
        4 * (places - lines.top) / num_lines,
        np.log2(1 + total) / 2,
        2 * whole / np.maximum(1, total),
        np.log2(1 + whole) / 2,
        4 * before / np.maximum(1, whole),
        4 * after / np.maximum(1, whole),
        (sizes[lines.end] - sizes[lines.top]) / num_lines,
        4 * (longs[lines.end] - longs[lines.top]) / num_lines,
        2 * units / np.maximum(1, total),
    ]


def _rounded(values: Floats) -> Floats:
    return np.clip(np.rint(values * _STEP) / _STEP, -_MAX_FEATURE, _MAX_FEATURE)


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
        return self.answer(features(pages))

    def answer(
        self, seen: Float64[np.ndarray, "num_lines num_features"]
    ) -> Float64[np.ndarray, " num_lines"]:
        """Return the log-odds for `features`, ``(num_lines,)``."""
        hidden = np.maximum(0, seen @ self.inner[:-1] + self.inner[-1])
        hidden = np.floor(hidden * _WEIGHT_STEP) / _WEIGHT_STEP
        return hidden @ self.outer[:-1] + self.outer[-1]

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
        with np.load(path, allow_pickle=False) as file:
            inner, outer = file["inner"] / float(_WEIGHT_STEP), file["outer"] / float(_WEIGHT_STEP)
        if inner.shape[0] != len(features(["x"])[0]) + 1 or outer.shape != (inner.shape[1] + 1,):
            raise ValueError(f"shapes {inner.shape} and {outer.shape}")
    except (OSError, ValueError, KeyError) as error:
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
