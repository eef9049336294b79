"""Texts with reference texts to be generated from them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from xling.eval.kinds.base import Example, Kind, register


@register
class Generation(Kind):
    """The answer is a text; an ``answer`` beside the source may say what it is about."""

    name = "generation"
    fields: ClassVar[Mapping[str, type]] = {"text": str}
    label = "reference text"
    answer = "a text"
    metrics: ClassVar[tuple[str, ...]] = ("rouge_l", "bleu", "in_language")
    task = "generation"
    is_slow = True
    with_intervals = "translation"

    def passages(self, row: Example) -> dict[str, str]:
        """Return the source and the reference."""
        return {**super().passages(row), "reference": row.label}

    def majority_label(self, train: Sequence[Example], most_frequent: Callable[[Iterable[Any]], Any]) -> Any:
        """Return None: this kind has no most frequent answer."""
        return None

    def majority_answer(self, majority_label: Any, row: Example) -> Any:
        """Answer with the text of the source: the control copies."""
        return row.fields["text"]
