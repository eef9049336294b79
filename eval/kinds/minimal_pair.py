"""Pairs of sentences that differ in one thing, which makes one of them right and the other wrong."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from xling.eval.kinds.base import Example, Kind, LabelSet, register


@register
class MinimalPair(Kind):
    """The answer is the place of the sentence that a model finds likelier; the right one stands first.

    Where both are equally likely the answer is the second, which is wrong, so that a model without an opinion gets
    nothing for it.
    """

    name = "minimal_pair"
    fields: ClassVar[Mapping[str, type]] = {"choices": tuple}
    label = "0, the place of the right sentence"
    answer = "0 or 1"
    metrics: ClassVar[tuple[str, ...]] = ("choice_accuracy",)
    task = "likelier"
    is_tuned = False

    def is_label(self, row: Example) -> bool:
        """Return whether the label is the first place."""
        return type(row.label) is int and row.label == 0

    def is_answer(self, suite: LabelSet, row: Example, answer: Any) -> bool:
        """Return whether the answer is the first or the second place."""
        return type(answer) is int and answer in (0, 1)

    def answer_text(self, answer: Any, row: Example, rows: Sequence[Example]) -> str:
        """Return the sentence that the model prefers."""
        return str(row.fields["choices"][answer])

    def majority_answer(self, majority_label: Any, row: Example) -> Any:
        """Return the place of the shorter sentence, in characters."""
        right, wrong = map(len, row.fields["choices"])
        return int(right >= wrong)
