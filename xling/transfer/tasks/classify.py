"""Task of classifying a text at its ``<s>``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from xling.data.packing import Example
from xling.transfer.encode import BOS, EOS, Row, example, index_of, is_soft, pieces, shares_of
from xling.transfer.task import TASKS, LabelSet, Task, Windows


class Classify(Task):
    """Classification task: one label per text, or the probabilities that a teacher gave its classes."""

    name = "classify"
    pooled = True
    one_text = True
    switched: ClassVar[tuple[str, ...]] = ("text",)

    def encode(
        self, processor: Any, row: Row, labels: Sequence[str], max_length: int, labelled: bool = True
    ) -> list[Example]:
        """Encode one sequence, cut if it is too long."""
        target = index_of(row.label if labelled else None, labels)
        encoded = example([BOS, *pieces(processor, row.fields["text"])[: max_length - 2], EOS], [0], [target])
        return [encoded | {"shares": shares_of(row, labels)[None]} if labelled and is_soft(row) else encoded]

    def decode(self, labels: Sequence[str], row: Row, windows: Windows) -> Any:
        """Return the label with the highest score."""
        return labels[int(windows[0][1].argmax(-1)[0])]

    def labels_of(self, given: LabelSet, train: Sequence[Row]) -> tuple[str, ...]:
        """Return the suite's classes, or those of the rows."""
        return tuple(given.labels) or tuple(sorted({row.label for row in train}))


TASKS.add(Classify.name, Classify())
