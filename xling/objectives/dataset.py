"""Datasets of objectives: examples by index, epochs of drawn items, and the batches of an epoch one after the other.

An epoch of a billion examples needs no table: the draws, lengths and batches of a window are made when it is read, from
a keyed order (`xling.data.mixer.Order`). So every process, every loader worker and every resumed run finds the same
batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from fairseq.data import FairseqDataset

from xling.array_types import Int, Integer
from xling.core.sampling import rng
from xling.data import mixer
from xling.data.packing import Example, pack

NO_LIMIT = 1 << 62  # tokens or examples of a batch where no limit is given
WINDOWS_KEPT = 2  # in memory: the loader is one ahead of the training
NO_BATCHES: list[Int[np.ndarray, " _"]] = []


class ObjectiveDataset(FairseqDataset, ABC):  # type: ignore[misc]
    """Examples of one split by index, determined by (seed, epoch, index) and independent of the workers.

    The ``id`` of a batch holds the indices of its examples in any order, to rebuild a batch in halves.
    """

    def __init__(self, seed: int) -> None:
        self.seed, self.epoch = seed, 1
        self.set_epoch(1)

    @abstractmethod
    def set_epoch(self, epoch: int) -> None:
        """Draw the items of an epoch."""

    @abstractmethod
    def __getitem__(self, index: int) -> Example: ...

    @property
    @abstractmethod
    def sizes(self) -> Integer[np.ndarray, " examples"]:
        """Tokens of each example of this epoch, (num_examples,)."""

    def __len__(self) -> int:
        return len(self.sizes)

    def filter_indices_by_size(
        self, indices: Int[np.ndarray, " examples"], max_sizes: Any
    ) -> tuple[Int[np.ndarray, " examples"], list[int]]:
        """Keep all indices: every example is cut to fit when it is made."""
        return indices, []

    def num_tokens(self, index: int) -> int:
        """Return the tokens of one example, for batching."""
        return self.size(index)

    def num_tokens_vec(self, indices: Int[np.ndarray, " chosen"]) -> Integer[np.ndarray, " chosen"]:
        """Return the tokens of examples, for batching."""
        return self.sizes[indices]

    def size(self, index: int) -> int:
        """Return the tokens of one example, for filtering."""
        return int(self.sizes[index])

    def ordered_indices(self) -> Int[np.ndarray, " examples"]:
        """Return the indices sorted by length, equal lengths in the epoch's random order."""
        return np.argsort(self.sizes, kind="stable")

    def batch_by_size(
        self,
        indices: Int[np.ndarray, " examples"],
        max_tokens: int | None = None,
        max_sentences: int | None = None,
        required_batch_size_multiple: int = 1,
    ) -> list[Int[np.ndarray, " _"]]:
        """Return the batches of the epoch, window by window.

        Args:
            required_batch_size_multiple: ignored.
        """
        assert len(indices) == len(self), "batches are made of whole windows"
        return [batch for _, batches in self.windows(max_tokens, max_sentences) for batch in batches]

    def windows(
        self, max_tokens: int | None, max_sentences: int | None = None, state: Any = None
    ) -> Iterator[tuple[Any, list[Int[np.ndarray, " _"]]]]:
        """Yield the batches of the epoch in windows, each with a state from which the rest begins with it.

        Args:
            max_tokens: most real tokens of a batch.
            max_sentences: most examples of a batch.
            state: state of the first window, None for the start of the epoch; plain values for a checkpoint.
        """
        indices = self.ordered_indices()
        batches = batches_of(self.sizes[indices], indices, max_tokens or NO_LIMIT, max_sentences or NO_LIMIT)
        yield None, [batches[i] for i in rng(self.seed, "batches", self.epoch).permutation(len(batches))]

    def expected_batches(self, max_tokens: int | None, max_sentences: int | None = None) -> int:
        """Return the batches of the epoch; where several windows make it, about that many."""
        return sum(len(batches) for _, batches in self.windows(max_tokens, max_sentences))

    def epoch_tokens(self) -> int:
        """Return the sum of `sizes`, or about that."""
        return int(self.sizes.sum())

    def mixture(self) -> dict[str, tuple[int, int]]:
        """Return (tokens available, tokens in this epoch) by language or pair."""
        return {}

    def epoch_state(self, epoch: int) -> dict[str, Any]:
        """Return the state from which `restore_epoch` begins ``epoch``, which is this epoch or the next."""
        return {}

    def restore_epoch(self, epoch: int, state: dict[str, Any]) -> None:
        """Begin an epoch with the state that `epoch_state` returned in an earlier run."""
        self.set_epoch(epoch)

    def halves(self, indices: Int[np.ndarray, " batch"]) -> list[Int[np.ndarray, " _"]]:
        """Split the examples of a batch that was too large into two batches; one if it cannot be split."""
        return [part for part in np.array_split(np.sort(indices), 2) if len(part)]

    def collater(self, samples: list[Any]) -> dict[str, Any]:
        """Build a packed batch; see `xling.data.packing.pack`."""
        return pack(samples)

    @property
    def supports_prefetch(self) -> bool:
        """False: shards are memory-mapped, so there is nothing to prefetch."""
        return False

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """False: every epoch draws its own items."""
        return False


def batches_of(
    sizes: Integer[np.ndarray, " examples"],
    indices: Int[np.ndarray, " examples"],
    max_tokens: int,
    max_sentences: int,
) -> list[Int[np.ndarray, " _"]]:
    """Divide ``indices`` (n,) with ``sizes`` (n,) greedily into batches within both limits."""
    ends = np.cumsum(sizes)
    batches, start = [], 0
    while start < len(indices):
        tokens_before = ends[start - 1] if start else 0
        end = int(np.searchsorted(ends, tokens_before + max_tokens, side="right"))
        end = max(start + 1, min(end, start + max_sentences))
        batches.append(indices[start:end])
        start = end
    return batches


def collate_or_empty(collate: Callable[[list[Any]], dict[str, Any]], samples: list[Any]) -> dict[str, Any]:
    """Build a batch, an empty one of no examples."""
    return collate(samples) if samples else {}


@dataclass
class Window:
    """A window of an epoch that is read at once.

    Attributes:
        start: draws of the epoch before it.
        draw: its draws.
        tokens: tokens of each drawn item, int64 (num_draws,).
        sizes: maximum tokens of each example, int64 (num_draws,).
        batches: its batches by limits, once made: indices of the epoch.
    """

    start: int
    draw: mixer.Draw
    tokens: Integer[np.ndarray, " draws"]
    sizes: Integer[np.ndarray, " draws"]
    batches: dict[tuple[int, int], list[Int[np.ndarray, " _"]]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.sizes)


class DrawnDataset(ObjectiveDataset):
    """Dataset whose training epochs draw items of languages or pairs by alpha; other splits hold each item once.

    Args:
        name: name of the objective, part of its random key.
        num_tokens: number of tokens by language or pair, as used by alpha and `mixture`.
    """

    def __init__(
        self, cfg: Any, split: str, name: str, num_items: dict[str, int], num_tokens: dict[str, int]
    ) -> None:
        self._cfg, self._split, self._name = cfg, split, name
        self.num_items_of, self.num_tokens_of = num_items, num_tokens
        super().__init__(cfg.seed)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch; its windows are drawn when they are read."""
        train = self._split == "train"
        self.epoch = epoch if train else 0
        counts = self.epoch_counts() if train else self.num_items_of
        reading = mixer.Reading(self._cfg.read_chunk, self._cfg.read_buffer)
        self._order = mixer.Order(self.num_items_of, counts, self.seed, epoch, train, reading)
        self._windows: dict[int, Window] = {}
        self._all_sizes: np.ndarray | None = None

    def epoch_counts(self) -> dict[str, int]:
        """Return the number of items of each language or pair in a training epoch."""
        return mixer.epoch_counts(self.num_items_of, self.num_tokens_of, self._cfg.alpha)

    @abstractmethod
    def tokens_of(self, draw: mixer.Draw) -> Integer[np.ndarray, " draws"]:
        """Count the tokens of each drawn item as ``num_tokens`` does, int64 (num_draws,)."""

    def example_tokens(self, num: Integer[np.ndarray, " draws"]) -> Integer[np.ndarray, " draws"]:
        """Return the maximum number of tokens of examples made from items with ``num`` tokens."""
        return num

    def sort_keys(self, window: Window) -> tuple[Integer[np.ndarray, " draws"], ...]:
        """Return what the examples of a batch are alike in, the weightiest last, as `numpy.lexsort` takes it."""
        return (window.sizes,)

    def arranged(self, batches: list[Int[np.ndarray, " _"]]) -> list[Int[np.ndarray, " _"]]:
        """Return batches in random order as they are trained; a subclass may use some more than once."""
        return batches

    def read_ahead(self, draw: mixer.Draw) -> None:
        """Prepare to read the items of a window, if ``read_chunk`` is set."""

    def __len__(self) -> int:
        return self._order.total

    def window(self, number: int) -> Window:
        """Return a window of the epoch."""
        if (window := self._windows.get(number)) is None:
            draw = self._order.window(number)
            if self._cfg.read_chunk:
                self.read_ahead(draw)
            tokens = self.tokens_of(draw)
            window = Window(self._order.start(number), draw, tokens, self.example_tokens(tokens))
            for old in list(self._windows)[: 1 - WINDOWS_KEPT]:
                self._windows.pop(old, None)
            self._windows[number] = window
        return window

    def locate(self, index: int) -> tuple[int, int]:
        """Return the window of an example and its number there."""
        for number, window in tuple(self._windows.items()):
            if 0 <= index - window.start < len(window):
                return number, index - window.start
        number = self._order.window_of(index)
        return number, index - self._order.start(number)

    def drawn(self, index: int) -> tuple[int, int]:
        """Return the language or pair of an example, as a number, and its item."""
        number, at = self.locate(int(index))
        draw = self.window(number).draw
        return int(draw.langs[at]), int(draw.items[at])

    @property
    def sizes(self) -> Integer[np.ndarray, " examples"]:
        """Maximum number of tokens of each example of the whole epoch: a table, which training does without."""
        if self._all_sizes is None:
            self._all_sizes = np.concatenate(
                [self.window(number).sizes for number in range(self._order.num_windows)]
            )
        return self._all_sizes

    def size(self, index: int) -> int:
        """Return the tokens of one example, for filtering."""
        number, at = self.locate(int(index))
        return int(self.window(number).sizes[at])

    def ordered_indices(self) -> Int[np.ndarray, " examples"]:
        """Return the indices of each window sorted by length, equal lengths in the epoch's random order."""
        return np.concatenate([self._sorted_indices(number) for number in range(self._order.num_windows)])

    def _sorted_indices(self, number: int) -> Int[np.ndarray, " draws"]:
        window = self.window(number)
        return window.start + np.lexsort(self.sort_keys(window))

    def batches_in(self, number: int, limits: tuple[int, int]) -> list[Int[np.ndarray, " _"]]:
        """Return the batches of a window within limits of tokens and examples, in random order."""
        window = self.window(number)
        if limits not in window.batches:
            order = self._sorted_indices(number)
            cut = batches_of(window.sizes[order - window.start], order, *limits)
            key: tuple[int | str, ...] = (self.seed, "batches", self.epoch, *([number] if number else []))
            mixed = [cut[i] for i in rng(*key).permutation(len(cut))]
            window.batches[limits] = self.arranged(mixed)
        return window.batches[limits]

    def windows(
        self, max_tokens: int | None, max_sentences: int | None = None, state: Any = None
    ) -> Iterator[tuple[Any, list[Int[np.ndarray, " _"]]]]:
        """Yield the batches of each window from number ``state``, with the number."""
        limits = (max_tokens or NO_LIMIT, max_sentences or NO_LIMIT)
        numbers = range(state or 0, self._order.num_windows)
        return ((number, self.batches_in(number, limits)) for number in numbers)

    def expected_batches(self, max_tokens: int | None, max_sentences: int | None = None) -> int:
        """Return the batches of the epoch; of several windows, as many times those of the first."""
        limits = (max_tokens or NO_LIMIT, max_sentences or NO_LIMIT)
        return len(self.batches_in(0, limits)) * self._order.num_windows

    def epoch_tokens(self) -> int:
        """Return the sum of all sizes; of several windows, as many times that of the first."""
        return int(self.window(0).sizes.sum()) * self._order.num_windows

    def mixture(self) -> dict[str, tuple[int, int]]:
        """Return (tokens available, tokens in this epoch) by language or pair, of the text alone.

        With several windows the tokens of an epoch are those of items of mean length.
        """
        if self._order.num_windows > 1:
            counts, items = self.epoch_counts(), self.num_items_of
            return {
                name: (there, round(counts.get(name, 0) * there / max(items[name], 1)))
                for name, there in self.num_tokens_of.items()
            }
        window = self.window(0)
        drawn = np.bincount(window.draw.langs, window.tokens, len(self.num_tokens_of))
        return {
            name: (there, int(n)) for (name, there), n in zip(self.num_tokens_of.items(), drawn, strict=True)
        }

    def generator(self, index: int) -> np.random.Generator:
        """Return the random generator of the example at ``index``."""
        return rng(self.seed, self.epoch, index, self._name, self._split)


class Stream:
    """Reader of the batches of the current epoch of a dataset, window by window.

    Args:
        used: batches of the epoch that are left out.
        window: the window from which those are counted off, see `window`; empty for the first one of the epoch.
    """

    def __init__(
        self,
        dataset: ObjectiveDataset,
        max_tokens: int | None,
        max_sentences: int | None = None,
        used: int = 0,
        window: Mapping[str, Any] | None = None,
    ) -> None:
        begin, state = (window["before"], window["state"]) if window else (0, None)
        self._windows = dataset.windows(max_tokens, max_sentences, state)
        self._batches, self._next = NO_BATCHES, 0
        self._window_begin, self._window_state = begin, state
        for _ in range(used - begin):
            if self.has_next():
                self.take()

    @property
    def used(self) -> int:
        """Batches of the epoch before the next one."""
        return self._window_begin + self._next

    def window(self) -> dict[str, Any]:
        """Return the window of the next batch: ``before``, the batches of the epoch before it, and its ``state``."""
        return {"before": self._window_begin, "state": self._window_state}

    def has_next(self) -> bool:
        """Return whether the epoch has another batch."""
        while self._next == len(self._batches):
            window = next(self._windows, None)
            if window is None:
                return False
            self._window_begin += len(self._batches)
            (self._window_state, self._batches), self._next = window, 0
        return True

    def peek(self) -> Int[np.ndarray, " batch"]:
        """Return the next batch without using it; there must be one."""
        assert self.has_next(), "the epoch has ended"
        return self._batches[self._next]

    def take(self) -> Int[np.ndarray, " batch"]:
        """Return the next batch, indices of the dataset; there must be one."""
        batch = self.peek()
        self._next += 1
        return batch
