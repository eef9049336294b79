"""The training batches of one process, read epoch by epoch and from within any of them.

fairseq's own iterator lists all batches of an epoch. This one keeps the windows that are being read.
"""

from __future__ import annotations

import resource
import sys
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from fairseq.data.iterators import BufferedIterator
from torch.utils.data import DataLoader

from xling.array_types import Int
from xling.core.errors import UserError
from xling.objectives.dataset import ObjectiveDataset, Stream, collate_or_empty

if TYPE_CHECKING:
    import numpy as np

AHEAD = 10  # batches that a thread makes ready
FEW_FILES = 1024  # of a process at once: the tensors of the batches would take several each


class TrainIterator:
    """Iterator over the batches of one epoch that belong to one of several processes.

    The processes take the batches of the epoch, or of what is left of it, in turn; one with a batch less than others
    gets an empty one at the end. So the batches of an update depend only on how many it has in all.

    Args:
        workers: loader workers, 0 for a thread of this process.
        used: batches of the epoch that all processes used in an earlier run.
        window: the window from which those are counted off, see `Stream.window`; empty for the start of the epoch.

    Attributes:
        epoch: the epoch.
        used_earlier: batches of the epoch that all processes used in an earlier run.
        iterations_in_epoch: batches that this process has used since.
    """

    def __init__(
        self,
        dataset: ObjectiveDataset,
        max_tokens: int,
        epoch: int,
        num_shards: int = 1,
        shard: int = 0,
        workers: int = 0,
        used: int = 0,
        window: dict[str, Any] | None = None,
    ) -> None:
        self.dataset, self.epoch, self.num_shards = dataset, epoch, num_shards
        self.used_earlier, self.iterations_in_epoch = used, 0
        self._max_tokens, self._shard, self._workers = max_tokens, shard, workers
        self._collate = partial(collate_or_empty, dataset.collater)
        self._num_rounds: int | None = None  # known once the last one has been asked for
        dataset.set_epoch(epoch)
        self._stream = Stream(dataset, max_tokens, used=used, window=window)
        self._stream.has_next()
        self._windows = deque([self._stream.window()])  # from that of the next batch to the one read ahead

    def __len__(self) -> int:
        """Return the batches of this process in the rest of the epoch, or about that many."""
        return -(-(self.num_batches - self.used_earlier) // self.num_shards)

    @property
    def num_batches(self) -> int:
        """Batches of the epoch in all processes, or about that many."""
        return self.dataset.expected_batches(self._max_tokens)

    @property
    def first_batch(self) -> dict[str, Any]:
        """The first batch, as a stand-in for an empty one."""
        return self._collate([self.dataset[int(i)] for i in self._stream.peek()])

    @property
    def next_epoch_idx(self) -> int:
        """The epoch of the next batch."""
        return self.epoch + self.at_end

    @property
    def at_end(self) -> bool:
        """Whether all batches of this process have been used."""
        return self._num_rounds is not None and self.iterations_in_epoch >= self._num_rounds

    @property
    def used(self) -> int:
        """Batches of the epoch that all processes have used."""
        return self.used_earlier + self.iterations_in_epoch * self.num_shards

    def state_dict(self) -> dict[str, Any]:
        """Return plain values from which any number of processes go on with the next batch."""
        epoch = self.next_epoch_idx
        while len(self._windows) > 1 and self._windows[1]["before"] <= self.used:
            self._windows.popleft()
        return {
            "version": 2,  # fairseq looks for it and for the next: at 0 it resets its meters
            "iterations_in_epoch": 0 if self.at_end else self.used,
            "epoch": epoch,
            "dataset": self.dataset.epoch_state(epoch),
            "place": {} if self.at_end else dict(self._windows[0]),
        }

    def next_epoch_itr(self, shuffle: bool = False, fix_batches_to_gpus: bool = False) -> Iterator[Any]:
        """Yield the batches; the arguments are fairseq's and change nothing, since the order is random already."""
        if self._workers and resource.getrlimit(resource.RLIMIT_NOFILE)[0] < FEW_FILES:
            torch.multiprocessing.set_sharing_strategy("file_system")  # which keeps no file of a batch open
        loader: Any = DataLoader(
            self.dataset,  # type: ignore[arg-type] # fairseq's class has no type
            batch_sampler=self._own_batches(),  # type: ignore[arg-type] # it has no length
            collate_fn=self._collate,
            num_workers=self._workers,
            pin_memory=torch.cuda.is_available(),
        )
        source = _Closable(loader)
        buffered = BufferedIterator(AHEAD, source)
        try:
            for batch in buffered:
                self.iterations_in_epoch += 1
                yield batch
        finally:
            source.is_closed = True
            # The reading thread waits for room. While it lives, so do the loader's processes.
            while source.is_read and next(buffered, None) is not None:
                pass

    def _own_batches(self) -> Iterator[Int[np.ndarray, " _"] | list[int]]:
        rounds = 0
        while self._stream.has_next():
            group: list[Int[np.ndarray, " _"]] = []
            while len(group) < self.num_shards and self._stream.has_next():
                group.append(self._stream.take())
            rounds += 1
            if not self._stream.has_next():
                self._num_rounds = rounds
            elif (window := self._stream.window())["before"] != self._windows[-1]["before"]:
                self._windows.append(window)
            yield group[self._shard] if self._shard < len(group) else []
        self._num_rounds = rounds


class _Closable:
    """An iterable that can be ended, for fairseq's reading thread, which asks how much there is at most.

    Attributes:
        is_closed: whether the next batch is not read any more.
        is_read: whether a thread reads, and will hand on that there are no more batches.
    """

    def __init__(self, batches: Any) -> None:
        self._batches, self.is_closed, self.is_read = batches, False, False

    def __iter__(self) -> Iterator[Any]:
        self.is_read = True
        try:
            for batch in self._batches:
                if self.is_closed:
                    return  # its processes end before the thread hands on that there are no more batches
                yield batch
        except Exception as error:
            self.is_read = False
            if isinstance(error, UserError):  # a process of the loader puts its traceback in front
                given, _, fix = str(error).rpartition("UserError: ")[2].strip().partition("; fix: ")
                raise UserError(given, fix=fix) from None
            raise
        self.is_read = False

    def __len__(self) -> int:
        return sys.maxsize
