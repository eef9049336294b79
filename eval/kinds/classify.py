"""Texts with a class."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from xling.eval.grams import character_grams
from xling.eval.kinds.base import KINDS, Analysed, Example, Kind, LabelSet


class Classify(Kind):
    """The answer is the name of a class."""

    name = "classify"
    fields: ClassVar[Mapping[str, type]] = {"text": str}
    label = "class name"
    answer = "a class name"
    metrics: ClassVar[tuple[str, ...]] = ("accuracy",)
    task = "classify"
    closed = True
    analysed: ClassVar[Analysed] = "classes"
    texts: ClassVar[tuple[str, ...]] = ("text",)

    def closed_labels(self, suite: LabelSet, row: Example) -> Iterable[str]:
        """Return the class of a row: its label from the closed list."""
        return (row.label,)

    def is_answer(self, suite: LabelSet, row: Example, answer: Any) -> bool:
        """Return whether the answer is a class of the suite."""
        return isinstance(answer, str) and (answer in suite.labels or not suite.labels)

    def commonest(self, train: Sequence[Example], most_frequent: Callable[[Iterable[Any]], Any]) -> Any:
        """Return the most frequent class of the training rows."""
        return most_frequent(row.label for row in train)

    def class_and_tags(self, row: Example) -> tuple[list[str] | None, str | None, Sequence[str] | None]:
        """Return the n-grams of the text."""
        return character_grams(row.fields["text"]), row.label, None


KINDS.add(Classify.name, Classify())
