"""Premises with alternatives, one of which is more plausible."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from xling.eval.kinds.base import Example, Kind, LabelSet, register


@register
class Choice(Kind):
    """The answer is the index of an alternative; ``question`` is ``cause`` or ``effect``."""

    name = "choice"
    fields: ClassVar[Mapping[str, type]] = {"premise": str, "question": str, "choices": tuple}
    label = "index of the right choice"
    label_type = int
    answer = "the number of a choice"
    metrics: ClassVar[tuple[str, ...]] = ("choice_accuracy",)
    task = "choice"
    texts: ClassVar[tuple[str, ...]] = ("premise", "choices")

    def is_answer(self, suite: LabelSet, row: Example, answer: Any) -> bool:
        """Return whether the answer is the index of a choice."""
        return type(answer) is int and 0 <= answer < len(row.fields["choices"])

    def passages(self, row: Example) -> dict[str, str]:
        """Return the premise with each alternative after it."""
        texts = {f"choice{i}": text for i, text in enumerate(row.fields["choices"])}
        return {"premise": row.fields["premise"], **texts}

    def answer_text(self, answer: Any, row: Example, rows: Sequence[Example]) -> str:
        """Return the text of the chosen alternative."""
        return str(row.fields["choices"][answer])

    def majority_label(self, train: Sequence[Example], most_frequent: Callable[[Iterable[Any]], Any]) -> Any:
        """Return the index that is right most often in the training rows."""
        return most_frequent(row.label for row in train)
