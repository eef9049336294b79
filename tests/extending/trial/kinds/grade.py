"""Texts with a grade from 1 to 5: a kind of suite in one file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median_low
from typing import Any, ClassVar

from xling.eval.kinds.base import KINDS, Example, Kind, LabelSet


class Grade(Kind):
    """The answer is a whole number."""

    name = "grade"
    fields: ClassVar[Mapping[str, type]] = {"text": str}
    label = "grade from 1 to 5"
    answer = "a whole number from 1 to 5"
    metrics: ClassVar[tuple[str, ...]] = ("closeness",)
    task = "classify"

    def is_label(self, row: Example) -> bool:
        """A whole number from 1 to 5."""
        return type(row.label) is int and 1 <= row.label <= 5

    def is_answer(self, suite: LabelSet, row: Example, answer: Any) -> bool:
        """A whole number from 1 to 5."""
        return type(answer) is int and 1 <= answer <= 5

    def majority_label(self, train: Sequence[Example], most_frequent: Callable[[Iterable[Any]], Any]) -> Any:
        """The median grade."""
        return median_low(row.label for row in train)


KINDS.add(Grade.name, Grade())
