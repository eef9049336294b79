"""Labelled rows into token arrays: words into sub-tokens, texts and pairs into sequences, windows for long ones.

Every example says which of its tokens carry a prediction (``chosen``) and what is right there (``target``): for
tagging the first sub-token of each word, for classification the ``<s>`` in front. Of kinds in `POINTERS` the answer
is one of the chosen tokens: the alternative that wins, or the first and the last sub-token of the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from xling.core.errors import unknown
from xling.data.packing import Example

BOS, EOS, UNK = 0, 2, 3
Kind = Literal["pair", "classify", "tag", "span", "choice", "intent_slots"]
KINDS: tuple[Kind, ...] = ("pair", "classify", "tag", "span", "choice", "intent_slots")
POINTERS: tuple[Kind, ...] = ("span", "choice")
INTENT = "intent:"
"""Before the intents among the labels of ``intent_slots``; the others are tags."""
MAX_QUESTION = 64
"""Sub-tokens of a question (Devlin et al. 2019, their code); at most half of the sequence."""


class Row(Protocol):
    """A labelled row; `xling.eval.suite.Example` is one.

    ============  =============================================  ============================================
    kind          ``fields``                                     ``label``
    ============  =============================================  ============================================
    classify      text                                           class name
    pair          text_a, text_b                                 class name
    tag           tokens, a tuple of words                       tuple of tags
    intent_slots  tokens                                         (intent, tuple of tags)
    choice        premise, question (cause or effect), choices   index of the right one of the choices
    span          context, question                              ((answer, its first character), ...)
    ============  =============================================  ============================================
    """

    @property
    def id(self) -> str: ...  # noqa: D102
    @property
    def fields(self) -> Mapping[str, Any]: ...  # noqa: D102
    @property
    def label(self) -> Any: ...  # noqa: D102


def pieces(processor: Any, text: str) -> list[int]:
    """Ids of the sub-tokens of a text, as fairseq numbers them."""
    return [UNK if piece == 0 else piece + 1 for piece in processor.encode(text)]


def encode_row(
    processor: Any, kind: Kind, row: Row, labels: Sequence[str], max_length: int, labelled: bool = True
) -> list[Example]:
    """The windows of a row: several where a tagged sentence or a passage is too long; one per alternative.

    Args:
        processor: SentencePiece model.
        kind: shape of the row.
        row: the row.
        labels: closed list of labels.
        max_length: sub-tokens of one sequence, specials included.
        labelled: read the row's label; without, a row may have one that is not in ``labels``.

    Returns:
        Examples with ``tokens`` (length,), ``positions`` (length,), ``chosen`` (M,) and ``target`` (M,), -1 where
        the label is unknown or not read. ``target`` are indices into ``labels``; for ``choice`` 1 at the
        right alternative, else 0; for ``span`` 1 at the first sub-token of the answer, 2 at the last, 3 at both.
        Over all windows of a tagged row there is exactly one chosen position per word, in order, and for
        ``intent_slots`` before them the first ``<s>``. Two texts also have ``segments`` (length,), 0 and 1,
        and pairs and alternatives ``sides`` (length,): 1 and 2 at the sub-tokens, 0 at specials. Spans have ``offsets``
        (M, 2): the characters of the passage that a chosen sub-token stands for.

    Raises:
        UserError: a label that is not in ``labels``.
    """
    fields, label = row.fields, row.label if labelled else None
    if kind == "tag":
        return _encode_tagged(processor, row.id, fields["tokens"], label, labels, max_length)
    if kind == "intent_slots":
        return _encode_utterance(processor, row, label, labels, max_length)
    if kind == "span":
        return _encode_span(processor, row, label, max_length)
    if kind == "choice":
        return [
            _encode_pair(
                processor, *_cause_effect(row, text), -1 if label is None else label == n, max_length
            )
            for n, text in enumerate(fields["choices"])
        ]
    target = _index(label, labels)
    if kind == "pair":
        return [_encode_pair(processor, fields["text_a"], fields["text_b"], target, max_length)]
    return [_example([BOS, *pieces(processor, fields["text"])[: max_length - 2], EOS], [0], [target])]


def _encode_pair(processor: Any, first_text: str, second_text: str, target: int, max_length: int) -> Example:
    first, second = _fit_pair(pieces(processor, first_text), pieces(processor, second_text), max_length - 4)
    made = _example([BOS, *first, EOS, EOS, *second, EOS], [0], [target])
    made["sides"] = np.repeat([0, 1, 0, 2, 0], [1, len(first), 2, len(second), 1])
    made["segments"] = _segments(made, len(first))
    return made


def _cause_effect(row: Row, alternative: str) -> tuple[str, str]:
    """The cause, then its effect: so the order says what was asked, in any language."""
    premise = row.fields["premise"]
    return (alternative, premise) if row.fields["question"] == "cause" else (premise, alternative)


def _fit_pair(first: list[int], second: list[int], room: int) -> tuple[list[int], list[int]]:
    """Cut the longer side, or both to halves, until they fit into ``room``."""
    keep = max(room - len(second), (room + 1) // 2)
    first = first[:keep]
    return first, second[: room - len(first)]


def _encode_tagged(
    processor: Any, name: str, tokens: Sequence[str], tags: Any, labels: Sequence[str], max_length: int
) -> list[Example]:
    words = [pieces(processor, word)[: max_length - 2] or [UNK] for word in tokens]
    targets = [_index(tag, labels) for tag in tags] if tags else [-1] * len(words)
    assert len(targets) == len(words), f"row {name}: {len(words)} words but {len(targets)} tags"
    windows: list[Example] = []
    sequence, chosen, wanted = [BOS], [], []  # type: ignore[var-annotated]
    for word, target in zip(words, targets, strict=True):
        if len(sequence) + len(word) + 1 > max_length:
            windows.append(_example([*sequence, EOS], chosen, wanted))
            sequence, chosen, wanted = [BOS], [], []
        chosen.append(len(sequence))
        wanted.append(target)
        sequence += word
    windows.append(_example([*sequence, EOS], chosen, wanted))
    return windows


def _encode_utterance(
    processor: Any, row: Row, label: Any, labels: Sequence[str], max_length: int
) -> list[Example]:
    intent, tags = label or (None, None)
    windows = _encode_tagged(processor, row.id, row.fields["tokens"], tags, labels, max_length)
    first = windows[0]
    first["chosen"] = np.concatenate([[0], first["chosen"]])
    wanted = _index(None if intent is None else INTENT + intent, labels)
    first["target"] = np.concatenate([[wanted], first["target"]])
    return windows


def _encode_span(processor: Any, row: Row, label: Any, max_length: int) -> list[Example]:
    """Windows over the passage behind the question; each starts half a window after the one before.

    ``<s>`` is a chosen token too, at which a window without the whole answer points, as in BERT (Devlin et al.
    2019, section 4.3).
    """
    context = row.fields["context"]
    question = pieces(processor, row.fields["question"])[: min(MAX_QUESTION, (max_length - 4) // 2)]
    found = processor.encode(context, return_type="offset_mapping")
    tokens = [UNK if piece == 0 else piece + 1 for piece in found["ids"]]
    offsets = np.array(found["offsets"], dtype=np.int64).reshape(-1, 2)
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
        made = _example([BOS, *question, EOS, EOS, *part, EOS], chosen, target.tolist())
        made["segments"] = _segments(made, len(question))
        made["offsets"] = np.concatenate([[[0, 0]], offsets[start : start + room]])
        windows.append(made)
    return windows


def _answer_tokens(label: Any, offsets: np.ndarray) -> tuple[int, int]:
    """First and last sub-token that share a character with the first answer; -1 where there are none."""
    if not label:
        return -1, -1
    text, start = label[0]
    (shared,) = np.nonzero((offsets[:, 0] < start + len(text)) & (offsets[:, 1] > start))
    return (int(shared[0]), int(shared[-1])) if len(shared) else (-1, -1)


def _segments(made: Example, first: int) -> np.ndarray:
    """0 in ``<s> x </s>`` with ``first`` sub-tokens, 1 in ``</s> y </s>``."""
    return (made["positions"] > first + 1).astype(np.int64)


def _index(label: Any, labels: Sequence[str]) -> int:
    if label is None:
        return -1
    if label not in labels:
        raise unknown("label", str(label), labels)
    return labels.index(label)


def _example(tokens: list[int], chosen: list[int], target: list[int]) -> Example:
    return {
        "tokens": np.array(tokens, dtype=np.int64),
        "positions": np.arange(len(tokens)),
        "chosen": np.array(chosen, dtype=np.int64),
        "target": np.array(target, dtype=np.int64),
    }
