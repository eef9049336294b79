"""Answers of a quantised fastText model for many texts at once, in arrays: three times as fast as one call a text.

It reads supervised models with a pruned, product-quantised table and hierarchical softmax, such as lid.176.ftz. The
library computes the same, n-gram by n-gram (Joulin et al. 2016, "FastText.zip"; format and hashes as in fastText
0.9.2). Sums are in double precision here and in single precision there, so scores differ by about 1e-6.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import NDArray

if TYPE_CHECKING:
    from jaxtyping import Float32, Float64, Int32, Num

_MAGIC, _VERSION = 793712314, 12
_SUPERVISED, _HIERARCHICAL = 3, 1
_END_OF_LINE, _LABEL = b"</s>", "__label__"
_SEED, _PRIME = np.uint32(2166136261), np.uint32(16777619)
_MAX_CHAR_BYTES = 4  # of a character
_SPACE = 32
_EPSILON = 1e-5  # fastText adds it before each logarithm


class _Reader:
    """Cursor over a stored model."""

    def __init__(self, data: bytes) -> None:
        self._data, self._position = data, 0

    def values(self, layout: str) -> tuple[Any, ...]:
        """Return the next numbers of a `struct` layout."""
        numbers = struct.unpack_from(f"<{layout}", self._data, self._position)
        self._position += struct.calcsize(f"<{layout}")
        return numbers

    def name(self) -> bytes:
        """Return the next text that ends in a zero byte."""
        start, self._position = self._position, self._data.index(b"\0", self._position) + 1
        return self._data[start : self._position - 1]

    def array(self, dtype: str, num: int) -> Num[np.ndarray, " {num}"]:
        """Return the next ``num`` numbers, ``(num,)``."""
        start, self._position = self._position, self._position + num * np.dtype(dtype).itemsize
        return np.frombuffer(self._data, dtype, num, start)

    def matrix(self, quantised: bool) -> Float32[np.ndarray, "num_rows num_columns"]:
        """Return the next matrix, ``(num_rows, num_columns)`` float32."""
        if not quantised:
            num_rows, num_columns = self.values("qq")
            return self.array("<f4", num_rows * num_columns).reshape(num_rows, num_columns)
        has_norms, num_rows, _, num_codes = self.values("?qqi")
        rows = self._from_codes(self.array("u1", num_codes).reshape(num_rows, -1))
        if has_norms:
            rows = rows * self._from_codes(self.array("u1", num_rows)[:, None])
        return rows

    def _from_codes(self, codes: NDArray[np.uint8]) -> Float32[np.ndarray, "num_rows num_columns"]:
        """Return the rows that codes, ``(num_rows, num_parts)``, stand for in the quantiser that comes next."""
        dim, num_parts, size, last = self.values("4i")
        flat, rows = self.array("<f4", dim * 256), list[NDArray[np.float32]]()
        for part in range(num_parts):
            width = last if part == num_parts - 1 else size
            rows.append(flat[part * 256 * size :][: 256 * width].reshape(256, width)[codes[:, part]])
        return np.concatenate(rows, axis=1)


@dataclass(frozen=True)
class FastTextModel:
    """A model read from its file.

    Attributes:
        labels: names of the classes.
        words: known word -> its row.
        row_of_hash: row of the n-grams of each hash, ``(num_hashes,)`` int32; -1 where none is kept.
        rows: vectors of words and n-grams, ``(num_rows, dim)``.
        output_weights: vectors of the inner nodes of the tree of classes, ``(num_labels - 1, dim)``.
        goes_left: 1 where the way to a class goes left, ``(num_labels - 1, num_labels)``.
        goes_right: 1 where it goes right, ``(num_labels - 1, num_labels)``.
        ngram_orders: shortest and longest n-gram, in characters.
    """

    labels: tuple[str, ...]
    words: dict[bytes, int]
    row_of_hash: Int32[np.ndarray, " num_hashes"]
    rows: Float32[np.ndarray, "num_rows dim"]
    output_weights: Float64[np.ndarray, "num_nodes dim"]
    goes_left: Float64[np.ndarray, "num_nodes num_labels"]
    goes_right: Float64[np.ndarray, "num_nodes num_labels"]
    ngram_orders: tuple[int, int]

    def best(self, texts: Sequence[str], max_langs: int) -> list[list[tuple[str, float]]]:
        """Return the ``max_langs`` likely labels of each text with their probabilities over 1e-5, best first.

        Args:
            texts: texts without line breaks.
            max_langs: number of labels.
        """
        # On grids the sums of products are exact, so that an answer does not depend on the other texts.
        nodes = _round_to_grid(self._hidden(texts), 22) @ _round_to_grid(self.output_weights, 20).T
        shares = 1 / (1 + np.exp(-nodes))
        log_left, log_right = (_round_to_grid(np.log(share + _EPSILON), 32) for share in (1 - shares, shares))
        scores = log_left @ self.goes_left + log_right @ self.goes_right
        order = np.argsort(-scores, axis=1, kind="stable")[:, :max_langs]
        values = np.exp(np.take_along_axis(scores, order, axis=1))
        return [
            [(self.labels[i], share) for i, share in zip(chosen, row, strict=True) if share > _EPSILON]
            for chosen, row in zip(order.tolist(), values.tolist(), strict=True)
        ]

    def _hidden(self, texts: Sequence[str]) -> Float64[np.ndarray, "num_texts dim"]:
        """Return the mean vector of each text, ``(num_texts, dim)``."""
        row_ids, owners, unknown_words = list[int](), list[int](), list[bytes]()
        end_row = self.words[_END_OF_LINE]
        for number, text in enumerate(texts):
            words = text.encode("utf-8", "replace").replace(b"\0", b" ").split()
            if _LABEL in text or "</s>" in text:  # fastText skips labels and stops at the end of a line
                words = words[: words.index(_END_OF_LINE)] if _END_OF_LINE in words else words
                words = [word for word in words if not word.startswith(_LABEL.encode())]
            rows = [row for word in words if (row := self.words.get(word)) is not None]
            row_ids += [*rows, end_row]
            owners += [number] * (len(rows) + 1)
            unknown_words.append(b"<" + b"> <".join(words) + b"> " if words else b" ")
        grams, owners_of_grams = self._ngram_hashes(unknown_words)
        columns = np.concatenate([np.array(row_ids, dtype=np.int32), grams])
        lines = np.concatenate([np.array(owners, dtype=np.int32), owners_of_grams])
        counts = scipy.sparse.csr_array(
            (np.ones(len(columns)), (lines, columns)), shape=(len(texts), len(self.rows))
        )
        sums: NDArray[np.float64] = counts @ self.rows
        return sums / np.bincount(lines, minlength=len(texts))[:, None]

    def _ngram_hashes(
        self, words: Sequence[bytes]
    ) -> tuple[Int32[np.ndarray, " num"], Int32[np.ndarray, " num"]]:
        """Return the rows of all n-grams inside words, and the number of the text of each."""
        data = np.frombuffer(b"".join(words), dtype=np.uint8)
        starts = np.flatnonzero((data & 0xC0) != 0x80)
        lengths = np.diff(starts, append=len(data))
        signed_bytes = (
            data.view(np.int8).astype(np.int32).view(np.uint32)
        )  # as fastText extends the sign of a byte
        is_space = data[starts] == _SPACE
        sizes = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
        num_chars = np.diff(np.searchsorted(starts, np.concatenate([[0], np.cumsum(sizes)])))
        owner = np.repeat(np.arange(len(words), dtype=np.int32), num_chars)
        longer_chars = [np.flatnonzero(lengths > extra) for extra in range(1, _MAX_CHAR_BYTES)]
        size = np.uint32(len(self.row_of_hash))
        hashes = np.full(len(starts), _SEED, dtype=np.uint32)
        is_outside = np.zeros(len(starts), dtype=bool)
        rows, owners = list[NDArray[np.int32]](), list[NDArray[np.int32]]()
        for order in range(1, self.ngram_orders[1] + 1):
            num = max(0, len(starts) - order + 1)
            hashes, is_outside = hashes[:num], is_outside[:num] | is_space[order - 1 : order - 1 + num]
            hashes = (hashes ^ signed_bytes[starts[order - 1 : order - 1 + num]]) * _PRIME
            for extra, chars in enumerate(longer_chars, start=1):
                at = chars[np.searchsorted(chars, order - 1) :] - (order - 1)
                hashes[at] = (hashes[at] ^ signed_bytes[starts[at + order - 1] + extra]) * _PRIME
            if order >= self.ngram_orders[0]:
                # A division by one number is computed without dividing; a remainder is not.
                places = self.row_of_hash[hashes - hashes // size * size]
                taken = np.flatnonzero((places >= 0) & ~is_outside)
                rows.append(places[taken])
                owners.append(owner[taken])
        return np.concatenate(rows), np.concatenate(owners)


def _round_to_grid(values: NDArray[np.float64], bits: int) -> NDArray[np.float64]:
    return np.ldexp(np.rint(np.ldexp(values, bits)), -bits)


def load(path: Path) -> FastTextModel | None:
    """Return the model in a file, or None if it is of another kind, which only the library reads."""
    with path.open("rb") as file:
        head = struct.unpack("<14i", file.read(56))
        num_word_grams, loss, model, num_hashes, shortest, longest = head[7:13]
        if head[:2] != (_MAGIC, _VERSION) or (num_word_grams, loss, model) != (1, _HIERARCHICAL, _SUPERVISED):
            return None
        if shortest < 2 or longest < shortest or not num_hashes:
            return None
        num_entries, num_words, num_labels, _, num_kept = struct.unpack("<8x3i2q", file.read(36))
        if num_kept <= 0:  # only a pruned table is small enough to unpack
            return None
        reader = _Reader(file.read())
    names, counts = list[bytes](), list[int]()
    for _ in range(num_entries):
        names.append(reader.name())
        counts.append(reader.values("qb")[0])
    pairs = reader.array("<i4", 2 * num_kept).reshape(-1, 2)
    row_of_hash = np.full(num_hashes, -1, dtype=np.int32)
    row_of_hash[pairs[:, 0]] = num_words + pairs[:, 1]
    rows = reader.matrix(*reader.values("?"))
    output_weights = reader.matrix(*reader.values("?")).astype(np.float64)
    goes_left, goes_right = _huffman_paths(counts[num_words:])
    return FastTextModel(
        tuple(name.decode("utf-8", "replace") for name in names[num_words:]),
        {name: row for row, name in enumerate(names[:num_words])},
        row_of_hash,
        rows,
        output_weights[: num_labels - 1],
        goes_left,
        goes_right,
        (shortest, longest),
    )


def _huffman_paths(
    counts: Sequence[int],
) -> tuple[Float64[np.ndarray, "nodes labels"], Float64[np.ndarray, "nodes labels"]]:
    """Return which inner nodes of the Huffman tree of the classes lie on the way to each: those left of, right of."""
    num = len(counts)
    node_counts = [*counts, *([1 << 60] * (num - 1))]
    classes_below: list[list[int]] = [[i] for i in range(num)]  # classes under each node
    goes_left, goes_right = np.zeros((num - 1, num)), np.zeros((num - 1, num))
    leaf, node = num - 1, num
    for parent in range(num, 2 * num - 1):
        pair = list[int]()
        for _ in range(2):
            if leaf >= 0 and node_counts[leaf] < node_counts[node]:
                pair.append(leaf)
                leaf -= 1
            else:
                pair.append(node)
                node += 1
        goes_left[parent - num, classes_below[pair[0]]] = goes_right[parent - num, classes_below[pair[1]]] = 1
        node_counts[parent] = node_counts[pair[0]] + node_counts[pair[1]]
        classes_below.append([*classes_below[pair[0]], *classes_below[pair[1]]])
    return goes_left, goes_right
