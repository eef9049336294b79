"""Task of choosing the more plausible cause or effect: the alternatives of a row compete at their ``<s>``."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from xling.data.packing import Example
from xling.transfer.encode import LabelledRow, encode_pair
from xling.transfer.task import TASKS, ScoredWindows, Task


class Choice(Task):
    """Choice task: the answer is the index of an alternative."""

    name = "choice"
    pointers = True
    pooled = True
    alternatives_compete = True
    two_texts = True

    def encode(
        self, processor: Any, row: LabelledRow, labels: Sequence[str], max_length: int, labelled: bool = True
    ) -> list[Example]:
        """Encode one pair per alternative; ``target`` is 1 for the correct one, else 0."""
        return [
            encode_pair(
                processor, *_cause_effect(row, text), (row.label == n) if labelled else -1, max_length
            )
            for n, text in enumerate(row.fields["choices"])
        ]

    def decode(self, labels: Sequence[str], row: LabelledRow, windows: ScoredWindows) -> Any:
        """Return the index of the best alternative."""
        return int(np.argmax([scores[0, 0] for _, scores in windows]))

    def num_outputs(self, labels: Sequence[str]) -> int:
        """Return the number of outputs of the head: 1, the plausibility of an alternative."""
        return 1


def _cause_effect(row: LabelledRow, alternative: str) -> tuple[str, str]:
    """Return the cause, then its effect: so the order expresses the question in any language."""
    premise = row.fields["premise"]
    return (alternative, premise) if row.fields["question"] == "cause" else (premise, alternative)


TASKS.add(Choice.name, Choice())
