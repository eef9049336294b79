"""Choose the more plausible cause or effect: the alternatives of a row compete at their ``<s>``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xling.data.packing import Example
from xling.transfer.encode import Row, encode_pair
from xling.transfer.task import TASKS, Task, Windows


class Choice(Task):
    """The index of an alternative."""

    name = "choice"
    pointers = True
    pooled = True
    together = True
    two_texts = True
    xlmr_class = "XLMRobertaForMultipleChoice"

    def encode(
        self, processor: Any, row: Row, labels: Sequence[str], max_length: int, labelled: bool = True
    ) -> list[Example]:
        """One pair per alternative; ``target`` is 1 at the right one, else 0."""
        return [
            encode_pair(
                processor, *_cause_effect(row, text), (row.label == n) if labelled else -1, max_length
            )
            for n, text in enumerate(row.fields["choices"])
        ]

    def decode(self, labels: Sequence[str], row: Row, windows: Windows) -> Any:
        """The index of the best alternative."""
        return int(np.argmax([scores[0, 0] for _, scores in windows]))

    def num_outputs(self, labels: Sequence[str]) -> int:
        """How plausible it is."""
        return 1


def _cause_effect(row: Row, alternative: str) -> tuple[str, str]:
    """The cause, then its effect: so the order says what was asked, in any language."""
    premise = row.fields["premise"]
    return (alternative, premise) if row.fields["question"] == "cause" else (premise, alternative)


TASKS.add(Choice.name, Choice())
