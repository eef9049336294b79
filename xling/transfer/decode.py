"""The scores of a row's windows into its answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xling.data.packing import Example
from xling.transfer.encode import INTENT, Kind, Row

MAX_ANSWER = 30
"""Sub-tokens of an answer (Devlin et al. 2019, their code)."""


def answer(kind: Kind, labels: Sequence[str], row: Row, windows: Sequence[tuple[Example, np.ndarray]]) -> Any:
    """What a model says of a row, of the shape of the row's label; of a span its text alone.

    Args:
        kind: shape of the row.
        labels: of the model.
        row: as it was encoded.
        windows: the row's examples of `xling.transfer.encode.encode_row`, in order, each with its logits (M, K).
    """
    if kind == "span":
        return best_span(row.fields["context"], windows)
    if kind == "choice":
        return int(np.argmax([scores[0, 0] for _, scores in windows]))
    best = [labels[i] for _, scores in windows for i in scores.argmax(-1).tolist()]
    if kind == "intent_slots":
        return best[0].removeprefix(INTENT), tuple(best[1:])
    return tuple(best) if kind == "tag" else best[0]


def best_span(context: str, windows: Sequence[tuple[Example, np.ndarray]]) -> str:
    """The most probable answer over all windows, as it stands in the passage; "" for an empty passage.

    A window's distributions are over its own sub-tokens and ``<s>``, so one that points to ``<s>``, where no
    answer is, loses against one that has found an answer.
    """
    found, best = "", -np.inf
    for example, scores in windows:
        if len(scores) < 2:
            continue
        logs = scores - np.logaddexp.reduce(scores, axis=0)
        total = logs[1:, :1] + logs[None, 1:, 1]
        possible = np.tril(np.triu(np.ones(total.shape, dtype=bool)), MAX_ANSWER - 1)
        total = np.where(possible, total, -np.inf)
        first, last = np.unravel_index(int(total.argmax()), total.shape)
        if total[first, last] > best:
            begin, end = example["offsets"][first + 1, 0], example["offsets"][last + 1, 1]
            found, best = context[begin:end].strip(), float(total[first, last])
    return found
