"""Task of finding the answer to a question in a passage: two pointers to sub-tokens of the passage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xling.data.packing import Example
from xling.transfer.encode import BOS, EOS, UNK, Row, example, pieces, segments
from xling.transfer.task import TASKS, Task, Windows

if TYPE_CHECKING:
    from jaxtyping import Float

MAX_QUESTION = 64
"""Maximum sub-tokens of a question (Devlin et al. 2019, their code); at most half of the sequence."""
MAX_ANSWER = 30
"""Maximum sub-tokens of an answer (Devlin et al. 2019, their code)."""


class Span(Task):
    """Span task: an answer is the text between two sub-tokens of the passage."""

    name = "span"
    pointers = True

    def encode(
        self, processor: Any, row: Row, labels: Sequence[str], max_length: int, labelled: bool = True
    ) -> list[Example]:
        """Encode windows with ``offsets`` (M, 2): the character range of the passage for each chosen sub-token.

        ``target`` is 1 at the first sub-token of the answer, 2 at the last, 3 at both.
        """
        return _encode_span(processor, row, row.label if labelled else None, max_length)

    def decode(self, labels: Sequence[str], row: Row, windows: Windows) -> Any:
        """Return the answer's text."""
        return best_span(row.fields["context"], windows)

    def num_outputs(self, labels: Sequence[str]) -> int:
        """Return 2: first and last sub-token."""
        return 2


def _encode_span(processor: Any, row: Row, label: Any, max_length: int) -> list[Example]:
    """Encode windows over the passage after the question; each starts half a window after the previous one.

    ``<s>`` is a chosen token too, to which a window without the whole answer points, as in BERT (Devlin et
    al. 2019, section 4.3).
    """
    context = row.fields["context"]
    question = pieces(processor, row.fields["question"])[: min(MAX_QUESTION, (max_length - 4) // 2)]
    encoded = processor.encode(context, return_type="offset_mapping")
    tokens = [UNK if piece == 0 else piece + 1 for piece in encoded["ids"]]
    offsets = np.array(encoded["offsets"], dtype=np.int64).reshape(-1, 2)
    first, last = _answer_tokens(label, offsets)
    room = max_length - 4 - len(question)
    windows = []
    for start in range(0, max(1, len(tokens) - room + room // 2), max(1, room // 2)):
        part = tokens[start : start + room]
        target = np.full(len(part) + 1, -1 if label is None else 0)
        if label is not None:
            inside = start <= first and last < start + len(part)
            for bit, token in ((1, first), (2, last)):
                target[token - start + 1 if inside else 0] |= bit
        chosen = [0, *range(len(question) + 3, len(question) + 3 + len(part))]
        window = example([BOS, *question, EOS, EOS, *part, EOS], chosen, target.tolist())
        window["segments"] = segments(window, len(question))
        window["offsets"] = np.concatenate([[[0, 0]], offsets[start : start + room]])
        windows.append(window)
    return windows


def _answer_tokens(label: Any, offsets: np.ndarray) -> tuple[int, int]:
    """Return first and last sub-token that share a character with the first answer; -1 if there is none."""
    if not label:
        return -1, -1
    text, start = label[0]
    (shared,) = np.nonzero((offsets[:, 0] < start + len(text)) & (offsets[:, 1] > start))
    return (int(shared[0]), int(shared[-1])) if len(shared) else (-1, -1)


def best_span(context: str, windows: Sequence[tuple[Example, Float[np.ndarray, "_ 2"]]]) -> str:
    """Return the most probable answer over all windows, as written in the passage; "" for an empty passage.

    A window's distributions are over its own sub-tokens and ``<s>``. So a window that points to ``<s>``,
    which means no answer, loses against a window with an answer.
    """
    answer, best = "", -np.inf
    for window, scores in windows:
        if len(scores) < 2:
            continue
        logs = scores - np.logaddexp.reduce(scores, axis=0)
        total = logs[1:, :1] + logs[None, 1:, 1]
        possible = np.tril(np.triu(np.ones(total.shape, dtype=bool)), MAX_ANSWER - 1)
        total = np.where(possible, total, -np.inf)
        first, last = np.unravel_index(int(total.argmax()), total.shape)
        if total[first, last] > best:
            begin, end = window["offsets"][first + 1, 0], window["offsets"][last + 1, 1]
            answer, best = context[begin:end].strip(), float(total[first, last])
    return answer


TASKS.add(Span.name, Span())
