"""Read fairseq's memory-mapped shards as flat token streams."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xling.core.errors import UserError

_MAGIC = b"MMIDIDX\x00\x00"
_DTYPES = {
    1: np.uint8,
    2: np.int8,
    3: np.int16,
    4: np.int32,
    5: np.int64,
    6: np.float64,
    7: np.float32,
    8: np.uint16,
}


@dataclass(frozen=True)
class Shard:
    """One dataset as a stream of tokens and the items it is cut into; nothing is read until it is used.

    Attributes:
        tokens: every token in order, unsigned or signed integers of shape (num_tokens,), memory-mapped.
        sizes: tokens per item, int32 of shape (num_items,), memory-mapped.
    """

    tokens: np.ndarray
    sizes: np.ndarray

    def starts(self) -> np.ndarray:
        """Offset of each item in ``tokens``, int64 of shape (num_items,)."""
        return np.cumsum(self.sizes, dtype=np.int64) - self.sizes


def open_shard(prefix: Path) -> Shard:
    """Map ``prefix.bin`` and ``prefix.idx``.

    Raises:
        UserError: a file is missing, is no fairseq index, or has another size than the index says.
    """
    index, data = prefix.with_name(prefix.name + ".idx"), prefix.with_name(prefix.name + ".bin")
    for path in (index, data):
        if not path.is_file():
            raise UserError(
                f"shard {path} is missing", "prefix.bin and prefix.idx", "run `xling binarize` again"
            )
    with index.open("rb") as handle:
        head = handle.read(len(_MAGIC) + 17)
    if not head.startswith(_MAGIC) or len(head) < len(_MAGIC) + 17:
        raise UserError(f"{index} is no fairseq memory-mapped index", fix="run `xling binarize` again")
    version, code, num_items = struct.unpack("<QBQ", head[len(_MAGIC) :])
    if version != 1 or code not in _DTYPES:
        raise UserError(f"{index}: version {version}, type {code}", "version 1", "run `xling binarize` again")
    dtype = np.dtype(_DTYPES[code])
    if index.stat().st_size < len(head) + 12 * num_items:
        raise UserError(f"{index} is cut off", f"{num_items} items", "run `xling binarize` again")
    sizes = np.memmap(index, np.int32, "r", len(head), (num_items,)) if num_items else np.zeros(0, np.int32)
    num_tokens = int(sizes.sum(dtype=np.int64))
    if data.stat().st_size != num_tokens * dtype.itemsize:
        raise UserError(
            f"{data} has {data.stat().st_size} bytes",
            f"{num_tokens * dtype.itemsize}",
            "run `xling binarize` again",
        )
    tokens = np.memmap(data, dtype, "r") if num_tokens else np.zeros(0, dtype)
    # As plain arrays, whose slices cost a third of a memmap's.
    return Shard(np.asarray(tokens), np.asarray(sizes))


def languages_in(directory: Path) -> list[str]:
    """Languages that have a monolingual training shard under a binarised directory, sorted."""
    return sorted(p.parent.name for p in directory.glob("*/train.idx"))


def pairs_in(directory: Path) -> list[str]:
    """Pairs ``src-tgt`` that have a training shard under a binarised directory, sorted."""
    return sorted({p.parent.name for p in directory.glob("*-*/train.*.idx")})
