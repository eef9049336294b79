"""Encoding of texts as token arrays: words as sub-tokens, texts and pairs as sequences, windows for long sentences.

`xling.transfer.tasks` combines these functions to the tasks that a model is fine-tuned on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from xling.array_types import Float32, Int
from xling.core.errors import unknown
from xling.text.tokenizers import pre_split

if TYPE_CHECKING:
    from xling.data.packing import Example

BOS, EOS, UNK = 0, 2, 3
IGNORED = ...
"""In place of the tag of a word from which nothing is learned."""
PROBABILITIES_FIELD = "probabilities"
"""Optional field of a text with one class that a teacher has labelled: class name -> probability."""


class LabelledRow(Protocol):
    """A labelled row; `xling.eval.rows.suite.Example` is one.

    ============  =============================================  ============================================
    kind          ``fields``                                     ``label``
    ============  =============================================  ============================================
    classify      text; optional: probabilities (`target_shares`)    class name
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


@dataclass(frozen=True)
class UnlabelledRow:
    """A `LabelledRow` without a label, for prediction."""

    fields: Mapping[str, Any]
    label: Any = None
    id: str = "row"


def encode_pieces(processor: Any, text: str) -> list[int]:
    """Return the ids of the sub-tokens of a text in fairseq's numbering."""
    return _number_pieces(processor.encode(text))


def encode_words(processor: Any, words: Sequence[str]) -> list[list[int]]:
    """Return the ids of the sub-tokens of each word as the running text has them, in fairseq's numbering."""
    return [_number_pieces(pieces) for pieces in pre_split.encode_words(processor, words)]


def _number_pieces(pieces: Sequence[int]) -> list[int]:
    return [UNK if piece == 0 else piece + 1 for piece in pieces]


def encode_pair(processor: Any, first_text: str, second_text: str, target: int, max_length: int) -> Example:
    """Encode a pair as ``<s> first </s></s> second </s>``.

    ``sides`` and ``segments`` give the text of each sub-token.
    """
    first_pieces, second_pieces = truncate_pair(
        encode_pieces(processor, first_text), encode_pieces(processor, second_text), max_length - 4
    )
    encoded = make_example([BOS, *first_pieces, EOS, EOS, *second_pieces, EOS], [0], [target])
    encoded["sides"] = np.repeat([0, 1, 0, 2, 0], [1, len(first_pieces), 2, len(second_pieces), 1])
    encoded["segments"] = segment_ids(encoded, len(first_pieces))
    return encoded


def truncate_pair(
    first_pieces: list[int], second_pieces: list[int], max_pieces: int
) -> tuple[list[int], list[int]]:
    """Cut the longer side, or both to halves, until they fit into ``max_pieces``."""
    num_first = max(max_pieces - len(second_pieces), (max_pieces + 1) // 2)
    first_pieces = first_pieces[:num_first]
    return first_pieces, second_pieces[: max_pieces - len(first_pieces)]


def encode_tagged(
    processor: Any, name: str, tokens: Sequence[str], tags: Any, labels: Sequence[str], max_length: int
) -> list[Example]:
    """Encode a sentence as windows, with the first sub-token of each word chosen.

    A word with `IGNORED` in place of a tag is not chosen.
    """
    words = [pieces[: max_length - 2] or [UNK] for pieces in encode_words(processor, tokens)]
    targets = [label_index(None if tag is IGNORED else tag, labels) for tag in tags or [None] * len(words)]
    assert len(targets) == len(words), f"row {name}: {len(words)} words but {len(targets)} tags"
    windows: list[Example] = []
    sequence, chosen_positions, chosen_targets = [BOS], [], []  # type: ignore[var-annotated]
    for index, (word, target) in enumerate(zip(words, targets, strict=True)):
        if len(sequence) + len(word) + 1 > max_length:
            windows.append(make_example([*sequence, EOS], chosen_positions, chosen_targets))
            sequence, chosen_positions, chosen_targets = [BOS], [], []
        if not tags or tags[index] is not IGNORED:
            chosen_positions.append(len(sequence))
            chosen_targets.append(target)
        sequence += word
    windows.append(make_example([*sequence, EOS], chosen_positions, chosen_targets))
    return windows


def segment_ids(sequence: Example, num_first: int) -> Int[np.ndarray, " length"]:
    """Return 0 in ``<s> x </s>`` with ``num_first`` sub-tokens, 1 in ``</s> y </s>``."""
    return (sequence["positions"] > num_first + 1).astype(np.int64)


def label_index(label: Any, labels: Sequence[str]) -> int:
    """Return the index of a label in the closed list; -1 without a label.

    Raises:
        UserError: a label that is not in the list.
    """
    if label is None:
        return -1
    if label not in labels:
        raise unknown("label", str(label), labels)
    return labels.index(label)


def target_shares(row: LabelledRow, labels: Sequence[str]) -> Float32[np.ndarray, " labels"]:
    """Return the target of a row with one class: the probabilities that a teacher gave, or 1 for its label.

    Raises:
        UserError: a class that is not in the closed list.
    """
    shares = np.zeros(len(labels), dtype=np.float32)
    for name, share in row.fields.get(PROBABILITIES_FIELD, {row.label: 1.0}).items():
        shares[label_index(name, labels)] = share
    return shares


def has_probabilities(row: LabelledRow) -> bool:
    """Return whether a teacher gave the row probabilities beside its label."""
    return PROBABILITIES_FIELD in row.fields


def make_example(tokens: list[int], chosen: list[int], target: list[int]) -> Example:
    """Build the arrays of one sequence: tokens, positions, chosen tokens and their targets."""
    return {
        "tokens": np.array(tokens, dtype=np.int64),
        "positions": np.arange(len(tokens)),
        "chosen": np.array(chosen, dtype=np.int64),
        "target": np.array(target, dtype=np.int64),
    }
