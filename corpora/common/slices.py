"""Arrays of several parts in one file: a barrier writes one, and each part reads only its own slice of it.

The file holds little-endian uint64: the number of parts, the offset of each part's first value, the number of
values, then the values.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from xling.array_types import Int64, UInt64

_WORD = 8


def write_slices(
    path: Path, values: UInt64[np.ndarray, " values"], ends: Int64[np.ndarray, " parts"]
) -> None:
    """Write ``values``; part ``i`` has those from ``ends[i - 1]`` to ``ends[i]``. Appears whole or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as handle:
        handle.write(np.array([len(ends), 0, *ends], dtype="<u8").data)
        handle.write(np.ascontiguousarray(values, dtype="<u8").data)
    temporary.rename(path)


def write_slices_in_blocks(
    path: Path, blocks: Iterable[tuple[UInt64[np.ndarray, " _"], Int64[np.ndarray, " parts"]]], num_parts: int
) -> None:
    """Write values that come in blocks, each with how many of its values belong to each part; parts are in order.

    Appears whole or not at all.
    """
    temporary = path.with_name(path.name + ".tmp")
    counts = np.zeros(num_parts, dtype=np.int64)
    with temporary.open("wb") as handle:
        handle.seek(_WORD * (2 + num_parts))
        for values, of_part in blocks:
            counts += of_part
            handle.write(np.ascontiguousarray(values, dtype="<u8").data)
        handle.seek(0)
        handle.write(np.array([num_parts, 0, *np.cumsum(counts)], dtype="<u8").data)
    temporary.rename(path)


def read_slice(path: Path, part: int) -> UInt64[np.ndarray, " values"]:
    """Return the values of one part, reading no other; -1 is the last part."""
    num_parts = _read_words(path, 0)
    part = part % num_parts if part < 0 else part
    assert part < num_parts, (path, part, num_parts)
    first, last = _read_words(path, 1 + part), _read_words(path, 2 + part)
    return np.fromfile(path, dtype="<u8", count=last - first, offset=_WORD * (2 + num_parts + first))


def slice_start(path: Path, part: int) -> int:
    """Return the number of the first value of one part among all values."""
    return _read_words(path, 1 + part)


def read_slices(paths: Iterable[Path], part: int) -> UInt64[np.ndarray, " values"]:
    """Return the values of one part in several files, sorted."""
    return np.sort(np.concatenate([np.zeros(0, dtype="<u8"), *(read_slice(path, part) for path in paths)]))


def _read_words(path: Path, offset: int) -> int:
    return int(np.fromfile(path, dtype="<u8", count=1, offset=_WORD * offset)[0])
