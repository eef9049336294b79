"""Arrays of several parts in one file: a barrier writes one, and each part reads only its own slice of it.

The file holds little-endian uint64: the number of parts, the offset of each part's first value, the number of
values, then the values.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from jaxtyping import Int64, UInt64

Values = NDArray[np.uint64]
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


def read_slice(path: Path, part: int) -> UInt64[np.ndarray, " values"]:
    """Return the values of one part, reading no other."""
    num_parts, first, last = (_words(path, at) for at in (0, 1 + part, 2 + part))
    assert part < num_parts, (path, part, num_parts)
    return np.fromfile(path, dtype="<u8", count=last - first, offset=_WORD * (2 + num_parts + first))


def read_slices(paths: Iterable[Path], part: int) -> UInt64[np.ndarray, " values"]:
    """Return the values of one part in several files, sorted."""
    return np.sort(np.concatenate([np.zeros(0, dtype="<u8"), *(read_slice(path, part) for path in paths)]))


def _words(path: Path, at: int) -> int:
    return int(np.fromfile(path, dtype="<u8", count=1, offset=_WORD * at)[0])
