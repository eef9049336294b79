"""Texts with a class."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from xling.eval.kinds.base import Analysed, Example, Kind, LabelSet, register
from xling.eval.kinds.character_ngrams import character_grams
from xling.transfer.encode import PROBABILITIES_FIELD


@register
class Classify(Kind):
    """The answer is the name of a class."""

    name = "classify"
    fields: ClassVar[Mapping[str, type]] = {"text": str}
    label = "class name"
    answer = "a class name"
    metrics: ClassVar[tuple[str, ...]] = ("accuracy",)
    task = "classify"
    closed = True
    analysed_as: ClassVar[Analysed] = "classes"
    texts: ClassVar[tuple[str, ...]] = ("text",)
    own_setting = "classes"
    own_columns: ClassVar[tuple[str, ...]] = ("text", "label")

    def label_mismatch(self, row: Example) -> tuple[str, str] | None:
        """Return what is wrong with the probabilities that a teacher gave, and what would be right."""
        if PROBABILITIES_FIELD not in row.fields:
            return None
        probabilities = row.fields[PROBABILITIES_FIELD]
        shares = [*probabilities.values()] if isinstance(probabilities, Mapping) else []
        if not all(isinstance(share, (int, float)) and 0 <= share <= 1 for share in shares):
            shares = []
        if not 0.99 < sum(shares) < 1.01:
            return f"field {PROBABILITIES_FIELD!r} is {probabilities!r}"[
                :80
            ], "a share from 0 to 1 of each class, of sum 1"
        return None

    def closed_labels(self, suite: LabelSet, row: Example) -> Iterable[str]:
        """Return the class of a row and those that a teacher gave probabilities, all from the closed list."""
        return (row.label, *row.fields.get(PROBABILITIES_FIELD, ()))

    def is_answer(self, suite: LabelSet, row: Example, answer: Any) -> bool:
        """Return whether the answer is a class of the suite, or empty: what a model wrote was none."""
        return isinstance(answer, str) and (answer in ("", *suite.labels) or not suite.labels)

    def majority_label(self, train: Sequence[Example], most_frequent: Callable[[Iterable[Any]], Any]) -> Any:
        """Return the most frequent class of the training rows."""
        return most_frequent(row.label for row in train)

    def class_and_tags(self, row: Example) -> tuple[list[str] | None, str | None, Sequence[str] | None]:
        """Return the n-grams of the text."""
        return character_grams(row.fields["text"]), row.label, None
