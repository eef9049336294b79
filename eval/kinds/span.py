"""Questions whose answers are places in a passage."""

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from xling.eval.kinds.base import Example, Kind, register

_WORD = re.compile(r"\S+")


@register
class Span(Kind):
    """The answer is a text of the passage; the label is every accepted answer with its first character."""

    name = "span"
    fields: ClassVar[Mapping[str, type]] = {"context": str, "question": str}
    label = "list of [answer text, start character], at least one"
    answer = "a text"
    metrics: ClassVar[tuple[str, ...]] = ("squad_f1", "squad_em")
    task = "span"
    own_columns: ClassVar[tuple[str, ...]] = ("context", "question")

    def cells_of_answer(self, answer: Any) -> dict[str, Any]:
        """Return the text of the answer."""
        return {"answer": answer}

    def is_label(self, row: Example) -> bool:
        """At least one text with a whole number."""
        pairs = isinstance(row.label, tuple) and all(isinstance(p, tuple) and len(p) == 2 for p in row.label)
        return bool(row.label and pairs) and all(isinstance(t, str) and type(n) is int for t, n in row.label)

    def block(self, row: Example) -> Hashable:
        """Return the passage: answers to its questions depend on each other."""
        return row.fields["context"]

    def right_answer(self, row: Example) -> Any:
        """Return the first of the accepted answers as the right one."""
        return row.label[0][0]

    def majority_label(self, train: Sequence[Example], most_frequent: Callable[[Iterable[Any]], Any]) -> Any:
        """Return the position of the first answer: its first word and its number of words."""
        places = [_answer_position(row.fields["context"], *row.label[0]) for row in train if row.label]
        return most_frequent(places) if places else (0, 1)

    def majority_answer(self, majority_label: Any, row: Example) -> Any:
        """Return the words at the most frequent position."""
        context = row.fields["context"]
        words = [m.span() for m in _WORD.finditer(context)]
        if not words:
            return ""
        first = min(majority_label[0], len(words) - 1)
        last = min(first + majority_label[1], len(words)) - 1
        return context[words[first][0] : words[last][1]]


def _answer_position(context: str, answer: str, start: int) -> tuple[int, int]:
    """Return the index of an answer's first word in its passage, from 0, and its number of words."""
    words = [m.span() for m in _WORD.finditer(context)]
    inside = [i for i, (begin, end) in enumerate(words) if begin < start + len(answer) and end > start]
    return (inside[0], len(inside)) if inside else (0, 1)
