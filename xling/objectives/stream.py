"""The batches of an epoch one after the other, from any place in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xling.objectives.base import ObjectiveDataset

if TYPE_CHECKING:
    from jaxtyping import Int

NO_BATCHES: list[Int[np.ndarray, " _"]] = []


class Stream:
    """Reader of the batches of the current epoch of a dataset.

    Args:
        dataset: the dataset.
        max_tokens: most real tokens of a batch.
        max_sentences: most examples of a batch.
        done: batches of the epoch that are left out.
        before: batches before the stretch ``state``.
        state: a stretch of the epoch, see `ObjectiveDataset.windows`; None for its start.

    Attributes:
        done: batches before the next one.
        before: batches before the stretch that the next batch is in.
        state: that stretch.
    """

    def __init__(
        self,
        dataset: ObjectiveDataset,
        max_tokens: int | None,
        max_sentences: int | None = None,
        done: int = 0,
        before: int = 0,
        state: Any = None,
    ) -> None:
        self._windows = dataset.windows(max_tokens, max_sentences, state)
        self._batches, self._at = NO_BATCHES, 0
        self.before, self.state = before, state
        for _ in range(done - before):
            if self.has_next():
                self.take()

    @property
    def done(self) -> int:
        """Batches of the epoch before the next one."""
        return self.before + self._at

    def has_next(self) -> bool:
        """Return whether the epoch has another batch."""
        while self._at == len(self._batches):
            window = next(self._windows, None)
            if window is None:
                return False
            self.before += len(self._batches)
            (self.state, self._batches), self._at = window, 0
        return True

    def peek(self) -> Int[np.ndarray, " batch"]:
        """Return the next batch without using it; there must be one."""
        assert self.has_next(), "the epoch has ended"
        return self._batches[self._at]

    def take(self) -> Int[np.ndarray, " batch"]:
        """Return the next batch, indices of the dataset; there must be one."""
        batch = self.peek()
        self._at += 1
        return batch

    def place(self) -> dict[str, Any]:
        """Return ``before`` and ``state`` for a reader that goes on here."""
        return {"before": self.before, "state": self.state}
