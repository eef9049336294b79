"""Task of classifying two texts at the ``<s>`` before them."""

from collections.abc import Sequence
from typing import Any, ClassVar

from xling.data.packing import Example
from xling.transfer.encode import LabelledRow, encode_pair, label_index
from xling.transfer.task import TASKS
from xling.transfer.tasks.classify import Classify


class Pair(Classify):
    """Pair classification task: one label per pair of texts."""

    name = "pair"
    one_text = False
    two_texts = True
    switched_fields: ClassVar[tuple[str, ...]] = ("text_a", "text_b")

    def encode(
        self, processor: Any, row: LabelledRow, labels: Sequence[str], max_length: int, labelled: bool = True
    ) -> list[Example]:
        """Encode one sequence with ``segments`` and ``sides``.

        If both texts are too long, the longer one is cut.
        """
        target = label_index(row.label if labelled else None, labels)
        return [encode_pair(processor, row.fields["text_a"], row.fields["text_b"], target, max_length)]


TASKS.add(Pair.name, Pair())
