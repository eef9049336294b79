"""Sentences with a tag for every word."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from xling.eval.kinds.base import Example, Kind, LabelSet, is_texts, register


@register
class Tag(Kind):
    """The answer is a tag for every word; with ``scheme`` the tags are spans in IOB2."""

    name = "tag"
    fields: ClassVar[Mapping[str, type]] = {"tokens": tuple}
    label = "list of tags, one per token"
    answer = "a list of tags, one for each word, null where a word was not seen"
    metrics: ClassVar[tuple[str, ...]] = ("span_f1",)
    task = "tag"
    closed = True
    own_setting = "tags"
    own_columns: ClassVar[tuple[str, ...]] = ("token", "tag")

    def row_of_cells(self, cells: Mapping[str, Any], number: int) -> tuple[dict[str, Any], Any]:
        """Return the words and their tags."""
        return {"tokens": cells["token"]}, cells.get("tag")

    def cells_of_answer(self, answer: Any) -> dict[str, Any]:
        """Return the tags."""
        return {"tags": list(answer)}

    def is_label(self, row: Example) -> bool:
        """Return whether the label has as many tags as there are words."""
        return is_texts(row.label) and len(row.label) == len(row.fields["tokens"])

    def closed_labels(self, suite: LabelSet, row: Example) -> Iterable[str]:
        """Yield the tags, or the types of the spans."""
        if not suite.scheme:
            return tuple(row.label)
        return (tag[2:] if tag[:2] in ("B-", "I-") else tag for tag in row.label if tag != "O")

    def tags(self, suite: LabelSet) -> tuple[str, ...]:
        """Return the tags; types of spans in their ``B-`` and ``I-`` forms."""
        if not suite.scheme:
            return suite.labels
        return ("O", *(f"{begin}-{label}" for label in suite.labels for begin in "BI"))

    def is_answer(self, suite: LabelSet, row: Example, answer: Any) -> bool:
        """Return whether the answer consists of tags of the suite, as many as words."""
        return are_tags(row, answer, {*self.tags(suite), None} if suite.labels else None)

    def right_answer(self, row: Example) -> Any:
        """Return the answer as a list for JSON."""
        return list(row.label)

    def classes(self, suite: LabelSet, row: Example) -> set[Hashable]:
        """Return the types of the row's spans, or its tags; a row without them has the class ``O``."""
        return {tag[2:] if suite.scheme else tag for tag in row.label if tag != "O"} or {"O"}

    def majority_label(self, train: Sequence[Example], most_frequent: Callable[[Iterable[Any]], Any]) -> Any:
        """Return the most frequent tag of the training rows."""
        return most_frequent(tag for row in train for tag in row.label)

    def majority_answer(self, majority_label: Any, row: Example) -> Any:
        """Return the tag for every word."""
        return [majority_label] * len(row.fields["tokens"])

    def class_and_tags(self, row: Example) -> tuple[list[str] | None, str | None, Sequence[str] | None]:
        """Return the tags of a row for the control ``ngram``."""
        return None, None, row.label


def are_tags(row: Example, answer: Any, known_tags: set[str | None] | None) -> bool:
    """Return whether an answer has a tag or None for every word, all of them known if required."""
    fits = isinstance(answer, list) and len(answer) == len(row.fields["tokens"])
    return fits and (
        all(isinstance(t, str | None) for t in answer)
        if known_tags is None
        else known_tags.issuperset(answer)
    )
