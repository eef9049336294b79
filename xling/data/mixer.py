"""Order of items from several languages: n^alpha sampling measured in tokens, keyed by (seed, epoch, index).

Orders are computed item by item, so that an order of a billion items needs no table. A large permutation is a Feistel
network over two digits with a random function of a key. Source: Black & Rogaway 2002, section 5 (ciphers with arbitrary
finite domains, cycle walking).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from xling.array_types import Int, Integer
from xling.core.sampling import alpha_shares, rng

WINDOW = 1 << 18
"""Draws that are ordered together: enough to find examples of equal length, few enough to be ready in a moment."""
TABLE = 1 << 16
"""Up to this many items a permutation is drawn as a table: a network over few items has few orders."""
ROUNDS = 8


@dataclass(frozen=True)
class Draw:
    """Items drawn one after the other.

    Attributes:
        langs: index of the language of each draw, int16 of shape (num_draws,).
        items: item of that language, int64 of shape (num_draws,).
        number: the window of the epoch that these draws are.
    """

    langs: Int[np.ndarray, " draws"]
    items: Int[np.ndarray, " draws"]
    number: int = 0

    def of_items(self, values: Iterable[Integer[np.ndarray, " items"]]) -> Int[np.ndarray, " draws"]:
        """Return a value per draw, int64 (num_draws,), given the values of each language's items."""
        return self.by_item(of_lang.__getitem__ for of_lang in values)

    def by_item(
        self, functions: Iterable[Callable[[Int[np.ndarray, " items"]], Integer[np.ndarray, " items"]]]
    ) -> Int[np.ndarray, " draws"]:
        """Return a value per draw, int64 (num_draws,), given a function of items for each language."""
        drawn = np.zeros(len(self.items), dtype=np.int64)
        for index, of_lang in enumerate(functions):
            where = self.langs == index
            drawn[where] = of_lang(self.items[where])
        return drawn


def epoch_counts(num_items: Mapping[str, int], num_tokens: Mapping[str, int], alpha: float) -> dict[str, int]:
    """Return how many items of each language an epoch holds; their total equals the number of items in the data.

    Shares are in tokens: a language with short items gets more of them.
    """
    return counts_of(alpha_shares(num_tokens, alpha), num_items, num_tokens)


def counts_of(
    shares: Mapping[str, float], num_items: Mapping[str, int], num_tokens: Mapping[str, int]
) -> dict[str, int]:
    """Return how many items of each kind an epoch holds for given shares in tokens."""
    total = sum(num_tokens.values())
    mean = {lang: num_tokens[lang] / max(num_items[lang], 1) for lang in num_items}
    return {lang: max(1, round(shares[lang] * total / mean[lang])) for lang in num_items if num_items[lang]}


@dataclass(frozen=True)
class Reading:
    """How a training reads its files.

    Attributes:
        chunk: neighbouring items that are read together; 0 reads every item where it lies.
        buffer: chunks that are shuffled together.
    """

    chunk: int = 0
    buffer: int = 16


class Order:
    """The order of one epoch, computed in windows of about `WINDOW` draws; it keeps no table of the epoch.

    Each language continues its own endless sequence of permutations. A pass over its items ends before the next one
    starts, across epochs too: after k draws each of its n items was drawn k // n or k // n + 1 times. Every window
    holds the same share of each language, in random order.

    Args:
        num_items: number of items by language.
        counts: draws of each language in an epoch; a language that is missing has none.
        seed, epoch: key of the order; epochs count from 1.
        shuffled: whether the order is random; else each language in its own order, one after the other.
        reading: how items of a language follow each other.

    Attributes:
        total: draws of the epoch.
        num_windows: number of windows, at least 1.
    """

    def __init__(
        self,
        num_items: Mapping[str, int],
        counts: Mapping[str, int],
        seed: int,
        epoch: int,
        shuffled: bool = True,
        reading: Reading = Reading(),
    ) -> None:
        self._num_items, self._seed, self._epoch = dict(num_items), seed, epoch
        self._counts = [counts.get(lang, 0) if n else 0 for lang, n in num_items.items()]
        self._shuffled, self._reading = shuffled, reading
        self.total = sum(self._counts)
        self.num_windows = max(1, -(-self.total // WINDOW))

    def start(self, number: int) -> int:
        """Return the draws before window ``number``; that of ``num_windows`` is ``total``."""
        if not self._shuffled:
            return number * self.total // self.num_windows
        return sum(number * count // self.num_windows for count in self._counts)

    def window_of(self, index: int) -> int:
        """Return the window of a draw."""
        number = min(index * self.num_windows // max(self.total, 1), self.num_windows - 1)
        while self.start(number) > index:
            number -= 1
        while self.start(number + 1) <= index:
            number += 1
        return number

    def window(self, number: int) -> Draw:
        """Draw the items of a window."""
        if not self._shuffled:
            return self._in_order(number)
        langs, items = [np.zeros(0, dtype=np.int16)], [np.zeros(0, dtype=np.int64)]
        for index, (lang, count) in enumerate(zip(self._num_items, self._counts, strict=True)):
            first, last = (n * count // self.num_windows for n in (number, number + 1))
            if last > first:
                before = (self._epoch - 1) * count
                items.append(self._items(lang, before + first, before + last))
                langs.append(np.full(last - first, index, dtype=np.int16))
        key: tuple[int | str, ...] = (self._seed, "mix", self._epoch, *([number] if number else []))
        order = rng(*key).permutation(sum(map(len, items)))
        return Draw(np.concatenate(langs)[order], np.concatenate(items)[order], number)

    def _items(self, lang: str, first: int, last: int) -> Int[np.ndarray, " draws"]:
        """Return the draws ``first`` to ``last`` of the endless sequence of a language."""
        n, items = self._num_items[lang], []
        for turn in range(first // n, (last - 1) // n + 1):
            begin, end = max(first, turn * n), min(last, (turn + 1) * n)
            key = (self._seed, "order", lang, turn)
            chunk, buffer = self._reading.chunk, self._reading.buffer
            permuted = Chunks(n, chunk, buffer, *key) if chunk else Permutation(n, *key)
            items.append(permuted(np.arange(begin, end) - turn * n))
        return np.concatenate(items)

    def _in_order(self, number: int) -> Draw:
        first, last = self.start(number), self.start(number + 1)
        at, ends = np.arange(first, last), np.cumsum(self._counts, dtype=np.int64)
        langs = np.searchsorted(ends, at, side="right")
        return Draw(langs.astype(np.int16), at - (ends - self._counts)[langs], number)


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
