"""Task of intents and slots.

Classify an utterance at its first ``<s>`` and tag its words at their first sub-tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from xling.array_types import Float, Int
from xling.data.packing import Example
from xling.transfer.encode import LabelledRow, encode_tagged, label_index
from xling.transfer.task import TASKS, LabelInfo, ScoredWindows, Task

INTENT_PREFIX = "intent:"
"""Prefix of intents among the labels; the others are tags."""
IMPOSSIBLE_LOGIT = -1e4
"""Logit of a label that a token cannot have; finite, so that differences of log-probabilities are not NaN."""


class IntentSlots(Task):
    """Task whose labels are intents and slot tags; the token at the start has an intent, the others a tag."""

    name = "intent_slots"
    open_labels = True

    def encode(
        self, processor: Any, row: LabelledRow, labels: Sequence[str], max_length: int, labelled: bool = True
    ) -> list[Example]:
        """Encode the windows of the words; in the first of them ``<s>`` is chosen too."""
        return _encode_utterance(processor, row, row.label if labelled else None, labels, max_length)

    def decode(self, labels: Sequence[str], row: LabelledRow, windows: ScoredWindows) -> Any:
        """Return the intent and the tags."""
        predicted = [labels[i] for _, scores in windows for i in scores.argmax(-1).tolist()]
        return predicted[0].removeprefix(INTENT_PREFIX), tuple(predicted[1:])

    def closed_labels(self, label_set: LabelInfo, train: Sequence[LabelledRow]) -> tuple[str, ...]:
        """Return the intents of the suite, or of the rows, and the tags of the rows."""
        intents = label_set.labels or sorted({row.label[0] for row in train})
        slots = sorted({tag for row in train for tag in row.label[1]})
        return (*(INTENT_PREFIX + name for name in intents), *slots)

    def mask_logits(
        self, logits: Float[Tensor, "chosen labels"], positions: Int[Tensor, " chosen"], labels: Sequence[str]
    ) -> Float[Tensor, "chosen labels"]:
        """Allow intents only at the start, tags only elsewhere."""
        intents = torch.tensor([label.startswith(INTENT_PREFIX) for label in labels], device=logits.device)
        return logits.masked_fill((positions == 0)[:, None] != intents, IMPOSSIBLE_LOGIT)

    def loss(
        self, losses: Float[Tensor, " chosen"], target: Int[Tensor, " chosen"], labels: Sequence[str]
    ) -> Float[Tensor, ""]:
        """Return the sum of the means over the intents and over the tags (Chen et al. 2019)."""
        intents = target < sum(label.startswith(INTENT_PREFIX) for label in labels)
        return sum(
            (losses[part].sum() / part.sum().clamp_min(1) for part in (intents, ~intents)),
            losses.new_zeros(()),
        )


def _encode_utterance(
    processor: Any, row: LabelledRow, label: Any, labels: Sequence[str], max_length: int
) -> list[Example]:
    intent, tags = label or (None, None)
    windows = encode_tagged(processor, row.id, row.fields["tokens"], tags, labels, max_length)
    first_window = windows[0]
    first_window["chosen"] = np.concatenate([[0], first_window["chosen"]])
    intent_target = label_index(None if intent is None else INTENT_PREFIX + intent, labels)
    first_window["target"] = np.concatenate([[intent_target], first_window["target"]])
    return windows


TASKS.add(IntentSlots.name, IntentSlots())
