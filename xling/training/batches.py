"""The number of batches per update: constant, or increasing during the batch warm-up.

It depends only on the number of the update, so that a resumed run uses the same batches.
Source: Warner et al. 2024, section 2.2.1 (batches that grow over the first tokens).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass
class Batches:
    """Number of batches of each update.

    Attributes:
        most: batches of an update after the warm-up.
        tokens: tokens of a batch over all processes, assuming full batches.
        warmup: tokens over which updates grow to ``most``, 0 for no warm-up.
        first: batches of the first update of the warm-up.
    """

    most: int
    tokens: int
    warmup: int = 0
    first: int = 1
    _growing: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Compute the updates of the warm-up."""
        seen = 0
        while seen < self.warmup and self.most > self.first:
            grown = self.first + (self.most - self.first) * seen / self.warmup
            self._growing.append(math.ceil(grown))
            seen += self._growing[-1] * self.tokens

    @classmethod
    def of(cls, train: Any, processes: int = 1) -> Batches:
        """Build the rule for batch sizes from the settings of a training."""
        return cls(train.accumulate, train.batch_tokens * processes, train.batch_warmup, train.batch_first)

    def at(self, update: int) -> int:
        """Return the batches of the update after ``update`` others."""
        return self._growing[update] if update < len(self._growing) else self.most

    def updates(self, tokens: int, start: int = 0) -> int:
        """Return the number of updates that read ``tokens`` after ``start`` others."""
        num = 0
        while tokens > 0 and start + num < len(self._growing):
            tokens -= self.at(start + num) * self.tokens
            num += 1
        return num + max(0, math.ceil(tokens / (self.most * self.tokens)))

    def total(self, updates: int) -> int:
        """Return the batches of the first ``updates``."""
        growing = self._growing[:updates]
        return sum(growing) + (updates - len(growing)) * self.most

    def grouped(self, batches: Iterable[T], update: Any) -> Iterator[list[T]]:
        """Group the batches of an epoch into updates; the last may be short.

        ``update()`` is the number of updates so far.
        """
        group: list[T] = []
        for batch in batches:
            group.append(batch)
            if len(group) >= self.at(update()):
                yield group
                group = []
        if group:
            yield group
