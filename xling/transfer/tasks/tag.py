"""Task of tagging the words of a sentence at their first sub-tokens."""

from collections.abc import Sequence
from typing import Any, ClassVar

from xling.data.packing import Example
from xling.transfer.encode import LabelledRow, encode_tagged
from xling.transfer.task import TASKS, LabelInfo, ScoredWindows, Task


class Tag(Task):
    """Tagging task: one label per word."""

    name = "tag"
    switched_fields: ClassVar[tuple[str, ...]] = ("tokens",)
    tags_words = True

    def encode(
        self, processor: Any, row: LabelledRow, labels: Sequence[str], max_length: int, labelled: bool = True
    ) -> list[Example]:
        """Encode windows that have, over all of them, exactly one chosen position per word, in order."""
        tags = row.label if labelled else None
        return encode_tagged(processor, row.id, row.fields["tokens"], tags, labels, max_length)

    def decode(self, labels: Sequence[str], row: LabelledRow, windows: ScoredWindows) -> Any:
        """Return the tag with the highest score for each word."""
        return tuple(labels[i] for _, scores in windows for i in scores.argmax(-1).tolist())

    def closed_labels(self, label_set: LabelInfo, train: Sequence[LabelledRow]) -> tuple[str, ...]:
        """Return types of spans as IOB2 tags, or the tags of the suite or of the rows."""
        if label_set.scheme:
            return ("O", *(f"{part}-{name}" for name in label_set.labels for part in "BI"))
        return tuple(label_set.labels) or tuple(sorted({tag for row in train for tag in row.label}))


TASKS.add(Tag.name, Tag())
