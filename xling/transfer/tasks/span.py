"""Task of finding the answer to a question in a passage: two pointers to sub-tokens of the passage."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np

from xling.array_types import Float, Int
from xling.data.packing import Example
from xling.transfer.encode import BOS, EOS, UNK, LabelledRow, encode_pieces, make_example, segment_ids
from xling.transfer.task import TASKS, ScoredWindows, Task

MAX_QUESTION_PIECES = 64
"""Maximum sub-tokens of a question (Devlin et al. 2019, their code); at most half of the sequence."""
MAX_ANSWER_PIECES = 30
"""Maximum sub-tokens of an answer (Devlin et al. 2019, their code)."""
_JOINERS = "\u200c\u200d"  # zero-width non-joiner and joiner
_JOINED_LETTERS = re.compile("[\u1160-\u11ff\ud7b0-\ud7fb\uff9e\uff9f]")
"""Vowels and finals of decomposed Hangul, half-width sound marks: NFC or NFKC joins them to the letter before."""
_WITHOUT_WIDTH = "\u200b\u2060\ufeff"  # stand between words of Khmer and Thai, and are no part of them


class Span(Task):
    """Span task: an answer is the text between two sub-tokens of the passage."""

    name = "span"
    pointers = True

    def encode(
        self, processor: Any, row: LabelledRow, labels: Sequence[str], max_length: int, labelled: bool = True
    ) -> list[Example]:
        """Encode windows with ``offsets`` (M, 2): the character range of the passage for each chosen sub-token.

        ``target`` is 1 at the first sub-token of the answer, 2 at the last, 3 at both.
        """
        return _encode_span(processor, row, row.label if labelled else None, max_length)

    def decode(self, labels: Sequence[str], row: LabelledRow, windows: ScoredWindows) -> Any:
        """Return the answer's text."""
        return best_span(row.fields["context"], windows)

    def num_outputs(self, labels: Sequence[str]) -> int:
        """Return 2: first and last sub-token."""
        return 2


def _encode_span(processor: Any, row: LabelledRow, label: Any, max_length: int) -> list[Example]:
    """Encode windows over the passage after the question; each starts half a window after the previous one.

    ``<s>`` is a chosen token too, to which a window without the whole answer points, as in BERT (Devlin et
    al. 2019, section 4.3).
    """
    context = row.fields["context"]
    question = encode_pieces(processor, row.fields["question"])[
        : min(MAX_QUESTION_PIECES, (max_length - 4) // 2)
    ]
    encoded = processor.encode(context, return_type="offset_mapping")
    tokens = [UNK if piece == 0 else piece + 1 for piece in encoded["ids"]]
    offsets = _cover_marks(context, np.array(encoded["offsets"], dtype=np.int64).reshape(-1, 2))
    first_piece = last_piece = -1  # sub-tokens that share a character with the first answer
    if label:
        text, start = label[0]
        (shared,) = np.nonzero((offsets[:, 0] < start + len(text)) & (offsets[:, 1] > start))
        first_piece, last_piece = (int(shared[0]), int(shared[-1])) if len(shared) else (-1, -1)
    max_passage_pieces = max_length - 4 - len(question)
    windows = []
    for start in range(
        0, max(1, len(tokens) - max_passage_pieces + max_passage_pieces // 2), max(1, max_passage_pieces // 2)
    ):
        passage_part = tokens[start : start + max_passage_pieces]
        target = np.full(len(passage_part) + 1, -1 if label is None else 0)
        if label is not None:
            has_answer = start <= first_piece and last_piece < start + len(passage_part)
            for bit, token in ((1, first_piece), (2, last_piece)):
                target[token - start + 1 if has_answer else 0] |= bit
        chosen = [0, *range(len(question) + 3, len(question) + 3 + len(passage_part))]
        window = make_example([BOS, *question, EOS, EOS, *passage_part, EOS], chosen, target.tolist())
        window["segments"] = segment_ids(window, len(question))
        window["offsets"] = np.concatenate([[[0, 0]], offsets[start : start + max_passage_pieces]])
        windows.append(window)
    return windows


def _cover_marks(text: str, offsets: Int[np.ndarray, "pieces 2"]) -> Int[np.ndarray, "pieces 2"]:
    """Extend the range of each piece over the marks behind it that no piece covers.

    A tokenizer that strips accents drops combining marks: those of decomposed letters, and the signs of Indic vowels.
    One that composes letters counts only the first of those that it joins.
    Without this an answer would end before the last of them.
    """
    covered = offsets.copy()
    for index, end in enumerate(offsets[:, 1].tolist()):
        next_begin = int(offsets[index + 1, 0]) if index + 1 < len(offsets) else len(text)
        while 0 < end < next_begin and _joins(text[end]):
            end += 1
        covered[index, 1] = end
    return covered


def _joins(letter: str) -> bool:
    """Return whether a letter may become one with that before it."""
    is_mark = letter in _JOINERS or unicodedata.category(letter)[0] == "M"
    return is_mark or bool(_JOINED_LETTERS.match(letter))


def best_span(context: str, windows: Sequence[tuple[Example, Float[np.ndarray, "_ 2"]]]) -> str:
    """Return the most probable answer over all windows, as written in the passage; "" for an empty passage.

    A window's distributions are over its own sub-tokens and ``<s>``. So a window that points to ``<s>``,
    which means no answer, loses against a window with an answer.
    """
    answer, best_score = "", -np.inf
    for window, scores in windows:
        if len(scores) < 2:
            continue
        log_probabilities = scores - np.logaddexp.reduce(scores, axis=0)
        pair_scores = log_probabilities[1:, :1] + log_probabilities[None, 1:, 1]
        is_possible = np.tril(np.triu(np.ones(pair_scores.shape, dtype=bool)), MAX_ANSWER_PIECES - 1)
        pair_scores = np.where(is_possible, pair_scores, -np.inf)
        first, last = np.unravel_index(int(pair_scores.argmax()), pair_scores.shape)
        if pair_scores[first, last] > best_score:
            begin, end = window["offsets"][first + 1, 0], window["offsets"][last + 1, 1]
            answer, best_score = _stripped(context[begin:end]), float(pair_scores[first, last])
    return answer


def _stripped(text: str) -> str:
    """Return a text without white space and letters without width at its ends."""
    while text != (shorter := text.strip().strip(_WITHOUT_WIDTH)):
        text = shorter
    return text


TASKS.add(Span.name, Span())
