"""Utterances with an intent and a slot tag for every word."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, ClassVar

from xling.eval.kinds.base import Example, LabelSet, is_texts, register
from xling.eval.kinds.character_ngrams import character_grams
from xling.eval.kinds.tag import Tag, are_tags


@register
class IntentSlots(Tag):
    """The answer is an intent of the suite with a list of tags, whose set is open."""

    name = "intent_slots"
    label = "[intent, list of slot tags, one per token]"
    answer = "an intent and a list of tags, one for each word"
    metrics: ClassVar[tuple[str, ...]] = ("slot_f1", "intent_accuracy", "fully_correct")
    task = "intent_slots"
    may_be_rare = True
    own_setting = ""

    def cells_of_answer(self, answer: Any) -> dict[str, Any]:
        """Return the intent and the tags."""
        return {"intent": answer[0], "tags": list(answer[1])}

    def is_label(self, row: Example) -> bool:
        """Return whether the label is an intent and as many tags as words."""
        label = row.label
        paired = isinstance(label, tuple) and len(label) == 2 and isinstance(label[0], str)
        return paired and is_texts(label[1]) and len(label[1]) == len(row.fields["tokens"])

    def closed_labels(self, suite: LabelSet, row: Example) -> Iterable[str]:
        """Return the intent of a row: its label from the closed list."""
        return (row.label[0],)

    def tags(self, suite: LabelSet) -> tuple[str, ...]:
        """Return the intents of the suite."""
        return suite.labels

    def is_answer(self, suite: LabelSet, row: Example, answer: Any) -> bool:
        """Return whether the answer is an intent of the suite and any tags."""
        shaped = isinstance(answer, list) and len(answer) == 2 and isinstance(answer[0], str)
        return shaped and answer[0] in suite.labels and are_tags(row, answer[1], None)

    def right_answer(self, row: Example) -> Any:
        """Return the answer as lists for JSON."""
        return [row.label[0], list(row.label[1])]

    def classes(self, suite: LabelSet, row: Example) -> set[Hashable]:
        """Return the classes that a row belongs to: its intent."""
        return {row.label[0]}

    def majority_label(self, train: Sequence[Example], most_frequent: Callable[[Iterable[Any]], Any]) -> Any:
        """Return the most frequent intent and the most frequent tag."""
        tag = most_frequent(tag for row in train for tag in row.label[1])
        return most_frequent(row.label[0] for row in train), tag

    def majority_answer(self, majority_label: Any, row: Example) -> Any:
        """Answer with the most frequent intent, and the most frequent tag for every word."""
        return [majority_label[0], [majority_label[1]] * len(row.fields["tokens"])]

    def class_and_tags(self, row: Example) -> tuple[list[str] | None, str | None, Sequence[str] | None]:
        """Return the n-grams of the utterance with its intent, and the tags."""
        return character_grams(" ".join(row.fields["tokens"])), row.label[0], row.label[1]

    def answer_from_tags(self, name: str | None, tags: list[str] | None) -> Any:
        """Build an answer from an intent and the tags of the words."""
        return [name, tags]
