"""Vectors of sentences in shards of fp16 on disk, of which a block at a time is in memory.

A file is mapped for each read and unmapped after it, so that pages which were read do not count as memory of the
process for longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from xling.array_types import Float32, Int64, Real
from xling.core.errors import UserError

Vectors = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]
_ROWS_AT_ONCE = 16_384


def normalise(vectors: Real[np.ndarray, "rows dim"]) -> Float32[np.ndarray, "rows dim"]:
    """Return vectors (n, dim) of length 1, so that inner products are cosines; zeros stay zeros."""
    # Scaled first: the squares of large numbers of 32 bits are infinite.
    scaled = vectors / np.maximum(np.abs(vectors).max(axis=1, keepdims=True, initial=0), 1e-30)
    norms = np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.ascontiguousarray(scaled / np.maximum(norms, 1e-9), dtype=np.float32)


class VectorRows:
    """Rows of length 1, read as float32.

    Args:
        shards: ``.npy`` files or arrays (rows, dim), in order; at least one.
    """

    def __init__(self, shards: Sequence[Path | Real[np.ndarray, "_ dim"]]) -> None:
        self._shards = list(shards)
        shapes = [self._open(i).shape for i in range(len(shards))]
        self._starts = np.concatenate([[0], np.cumsum([rows for rows, _ in shapes])]).astype(np.int64)
        self.dim = int(shapes[0][1])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def block(self, start: int, stop: int) -> Float32[np.ndarray, "rows dim"]:
        """Return the rows from ``start`` to ``stop`` or the end."""
        first, last = np.searchsorted(self._starts[1:], [start, min(stop, len(self)) - 1], side="right")
        pieces = [
            np.asarray(
                self._open(i)[max(0, start - self._starts[i]) : stop - self._starts[i]], dtype=np.float32
            )
            for i in range(first, last + 1)
        ]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def blocks(self, size: int) -> Iterator[tuple[int, Float32[np.ndarray, "rows dim"]]]:
        """Yield all rows, ``size`` at a time, each block with the number of its first row."""
        for start in range(0, len(self), size):
            yield start, self.block(start, start + size)

    def take(self, numbers: Int64[np.ndarray, " numbers"]) -> Float32[np.ndarray, "numbers dim"]:
        """Return the rows of these numbers; ascending numbers are read from the front of each file to its end."""
        rows = np.empty((len(numbers), self.dim), np.float32)
        owners = np.searchsorted(self._starts[1:], numbers, side="right")
        for i in np.unique(owners):
            chosen = owners == i
            rows[chosen] = self._open(int(i))[numbers[chosen] - self._starts[i]]
        return rows

    def _open(self, shard: int) -> npt.NDArray[Any]:
        held = self._shards[shard]
        return np.load(held, mmap_mode="r") if isinstance(held, Path) else held


def shape_of(path: Path) -> tuple[int, int]:
    """Return the number and width of the vectors in a ``.npy`` file, of which only the head is read.

    Raises:
        UserError: it holds no vectors of numbers.
    """
    array = _map_file(path)
    if array.ndim != 2 or not array.shape[1] or array.dtype.kind not in "fiu":
        raise UserError(
            f"{path} holds {array.dtype} of shape {array.shape}", "numbers, a vector a line of the text"
        )
    return array.shape[0], array.shape[1]


def _map_file(path: Path) -> npt.NDArray[Any]:
    try:
        stored: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"{path} holds no vectors: {error}", "a .npy file of numbers") from None
    return stored


def write_given_rows(path: Path, lines: Int64[np.ndarray, " sentences"], target: Path) -> None:
    """Write the vectors of some lines of a ``.npy`` file as fp16 of length 1.

    Args:
        path: (lines of the text, dim), any kind of number.
        lines: line numbers from 0, ascending.
        target: the file to write.

    Raises:
        UserError: a vector has a value that is not finite in 32 bits; the message names its line.
    """

    def pieces() -> Iterator[Float32[np.ndarray, "rows dim"]]:
        for start in range(0, len(lines), _ROWS_AT_ONCE):
            line_numbers = lines[start : start + _ROWS_AT_ONCE]
            with np.errstate(over="ignore"):  # what overflows is infinite and refused
                rows = np.asarray(_map_file(path)[line_numbers], dtype=np.float32)
            bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
            if len(bad):
                raise UserError(
                    f"{path}: the vector of line {int(line_numbers[bad[0]]) + 1:,} is not finite",
                    "finite numbers of 32 bits",
                    "make the vectors of this line again, or take the line out of text and vectors",
                )
            yield rows

    _write_rows(target, pieces(), len(lines))


def write_embedded_rows(pieces: Iterable[Real[np.ndarray, "_ dim"]], num_rows: int, target: Path) -> None:
    """Write the vectors of an encoder as fp16 of length 1.

    Args:
        pieces: (some rows, dim) each, ``num_rows`` together.
        num_rows: at least 1.
        target: the file to write.

    Raises:
        UserError: a value is not finite.
    """

    def check_pieces() -> Iterator[Float32[np.ndarray, "rows dim"]]:
        for rows in pieces:
            if not np.isfinite(rows).all():
                raise UserError(
                    "the checkpoint gives vectors that are not finite", "a model that was trained to its end"
                )
            yield np.asarray(rows, np.float32)

    _write_rows(target, check_pieces(), num_rows)


def _write_rows(target: Path, pieces: Iterator[Vectors], num_rows: int) -> None:
    first = next(pieces)
    head = {"descr": "<f2", "fortran_order": False, "shape": (num_rows, first.shape[1])}
    with target.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, head)
        for rows in chain([first], pieces):
            normalise(rows).astype("<f2").tofile(file)
