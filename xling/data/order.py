"""Random orders that are computed item by item, so that an order of a billion items needs no table.

A large permutation is a Feistel network over two digits with a random function of a key. Source: Black & Rogaway 2002,
section 5 (ciphers with arbitrary finite domains, cycle walking).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from xling.core.sampling import rng

if TYPE_CHECKING:
    from jaxtyping import Int

TABLE = 1 << 16
"""Up to this many items a permutation is drawn as a table: a network over few items has few orders."""
ROUNDS = 8


class Permutation:
    """A random permutation of 0 .. ``num`` - 1 that depends only on ``num`` and the key.

    Args:
        num: number of items, above 0.
        key: see `xling.core.sampling.rng`.

    Example:
        >>> sorted(Permutation(70_000, 1, "order")(np.arange(70_000)).tolist()) == list(range(70_000))
        True
    """

    def __init__(self, num: int, *key: int | str) -> None:
        self._num = num
        self._table = rng(*key).permutation(num) if num <= TABLE else None
        if self._table is None:
            self._high = math.isqrt(num - 1) + 1
            self._low = -(-num // self._high)
            self._keys = rng(*key).integers(0, 1 << 64, ROUNDS, dtype=np.uint64)

    def __call__(self, at: Int[np.ndarray, " places"]) -> Int[np.ndarray, " places"]:
        """Return the items at some places of the order, int64 (num_places,)."""
        if self._table is not None:
            items: np.ndarray = self._table[at]
            return items
        items = self._encipher(at)
        # The two digits count a little further than the items. Walking on from such a number ends at an item
        # that no other place leads to.
        while len(outside := np.flatnonzero(items >= self._num)):
            items[outside] = self._encipher(items[outside])
        return items

    def _encipher(self, numbers: Int[np.ndarray, " places"]) -> Int[np.ndarray, " places"]:
        high, low = np.divmod(numbers.astype(np.uint64), np.uint64(self._low))
        for turn, key in enumerate(self._keys):
            if turn % 2:
                low = (low + _scrambled(high, key)) % np.uint64(self._low)
            else:
                high = (high + _scrambled(low, key)) % np.uint64(self._high)
        return (high * np.uint64(self._low) + low).astype(np.int64)


def _scrambled(numbers: np.ndarray, key: np.uint64) -> np.ndarray:
    """Hash numbers with a key to 32 bits, uint64 of the same shape (the finaliser of SplitMix64)."""
    mixed = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) ^ key
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed >> np.uint64(32)


class Chunks:
    """A random permutation that reads neighbours together: the order of chunks is random, and so is a buffer of them.

    The order goes through all items of ``buffer`` chunks in random order before it goes on to others. So a file is read
    in long stretches. The items that do not fill a chunk are in the last buffer.

    Args:
        num: number of items, above 0.
        chunk: neighbouring items in a chunk, above 0.
        buffer: chunks that are shuffled together, above 0.
        key: see `xling.core.sampling.rng`.
    """

    def __init__(self, num: int, chunk: int, buffer: int, *key: int | str) -> None:
        self._num, self._chunk, self._span, self._key = num, chunk, chunk * buffer, key
        self._whole = num // chunk
        self._chunks = Permutation(max(self._whole, 1), *key, "chunks")

    def __call__(self, at: Int[np.ndarray, " places"]) -> Int[np.ndarray, " places"]:
        """Return the items at some places of the order, which ascend, int64 (num_places,)."""
        items = np.empty(len(at), dtype=np.int64)
        groups, begins = np.unique(at // self._span, return_index=True)
        for group, begin, end in zip(groups.tolist(), begins, [*begins[1:], len(at)], strict=True):
            first = group * self._span
            inside = Permutation(min(self._span, self._num - first), *self._key, "buffer", group)
            place = first + inside(at[begin:end] - first)
            number = place // self._chunk
            full = number < self._whole
            place[full] = self._chunks(number[full]) * self._chunk + place[full] % self._chunk
            items[begin:end] = place
        return items
