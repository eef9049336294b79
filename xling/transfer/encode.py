"""Labelled rows into token arrays: words into sub-tokens, texts and pairs into sequences, windows for long ones.

Every example says which of its tokens carry a prediction (``chosen``) and what is right there (``target``): for
tagging the first sub-token of each word, for classification the ``<s>`` in front.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from xling.core.errors import unknown
from xling.data.packing import Example

BOS, EOS, UNK = 0, 2, 3
Kind = Literal["pair", "classify", "tag"]
KINDS: tuple[Kind, ...] = ("pair", "classify", "tag")


class Row(Protocol):
    """A labelled row; `eval.suite.Example` is one.

    ``fields`` holds ``text`` (classify), ``text_a`` and ``text_b`` (pair) or ``tokens``, a tuple of words (tag);
    ``label`` a class name or a tuple of tags.
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


def encode_row(processor: Any, kind: Kind, row: Row, labels: Sequence[str], max_length: int) -> list[Example]:
    """The windows of a row: one, or several where a tagged sentence is longer than ``max_length`` sub-tokens.

    Returns:
        Examples with ``tokens`` (length,), ``positions`` (length,), ``chosen`` (M,) and ``target`` (M,) indices
        into ``labels``, -1 where the label is unknown (prediction only). Over all windows of a tagged row there is
        exactly one chosen position per word, in order. Pairs also have ``segments`` (length,): 1 and 2 at the
        sub-tokens of the two texts, 0 at specials.

    Raises:
        UserError: a label that is not in ``labels``.
    """
    if kind == "tag":
        return _encode_tagged(processor, row, labels, max_length)
    if kind == "classify":
        body = [*pieces(processor, row.fields["text"])[: max_length - 2], EOS]
    else:
        first, second = _fit_pair(
            pieces(processor, row.fields["text_a"]), pieces(processor, row.fields["text_b"]), max_length - 4
        )
        body = [*first, EOS, EOS, *second, EOS]
    made = _example([BOS, *body], [0], [_index(row.label, labels)])
    if kind == "pair":
        made["segments"] = np.repeat([0, 1, 0, 2, 0], [1, len(first), 2, len(second), 1])
    return [made]


def _fit_pair(first: list[int], second: list[int], room: int) -> tuple[list[int], list[int]]:
    """Cut the longer side, or both to halves, until they fit into ``room``."""
    keep = max(room - len(second), (room + 1) // 2)
    first = first[:keep]
    return first, second[: room - len(first)]


def _encode_tagged(processor: Any, row: Row, labels: Sequence[str], max_length: int) -> list[Example]:
    words = [pieces(processor, word)[: max_length - 2] or [UNK] for word in row.fields["tokens"]]
    targets = [_index(tag, labels) for tag in row.label] if row.label else [-1] * len(words)
    assert len(targets) == len(words), f"row {row.id}: {len(words)} words but {len(targets)} tags"
    windows: list[Example] = []
    tokens, chosen, wanted = [BOS], [], []  # type: ignore[var-annotated]
    for word, target in zip(words, targets, strict=True):
        if len(tokens) + len(word) + 1 > max_length:
            windows.append(_example([*tokens, EOS], chosen, wanted))
            tokens, chosen, wanted = [BOS], [], []
        chosen.append(len(tokens))
        wanted.append(target)
        tokens += word
    windows.append(_example([*tokens, EOS], chosen, wanted))
    return windows


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
