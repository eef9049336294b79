"""Task of classifying a text at its ``<s>``."""

from collections.abc import Sequence
from typing import Any, ClassVar

from xling.data.packing import Example
from xling.transfer.encode import (
    BOS,
    EOS,
    LabelledRow,
    encode_pieces,
    has_probabilities,
    label_index,
    make_example,
    target_shares,
)
from xling.transfer.task import TASKS, LabelInfo, ScoredWindows, Task


class Classify(Task):
    """Classification task: one label per text, or the probabilities that a teacher gave its classes."""

    name = "classify"
    pooled = True
    one_text = True
    switched_fields: ClassVar[tuple[str, ...]] = ("text",)

    def encode(
        self, processor: Any, row: LabelledRow, labels: Sequence[str], max_length: int, labelled: bool = True
    ) -> list[Example]:
        """Encode one sequence, cut if it is too long."""
        target = label_index(row.label if labelled else None, labels)
        encoded = make_example(
            [BOS, *encode_pieces(processor, row.fields["text"])[: max_length - 2], EOS], [0], [target]
        )
        return [
            encoded | {"shares": target_shares(row, labels)[None]}
            if labelled and has_probabilities(row)
            else encoded
        ]

    def decode(self, labels: Sequence[str], row: LabelledRow, windows: ScoredWindows) -> Any:
        """Return the label with the highest score."""
        return labels[int(windows[0][1].argmax(-1)[0])]

    def closed_labels(self, label_set: LabelInfo, train: Sequence[LabelledRow]) -> tuple[str, ...]:
        """Return the suite's classes, or those of the rows."""
        return tuple(label_set.labels) or tuple(sorted({row.label for row in train}))


TASKS.add(Classify.name, Classify())
