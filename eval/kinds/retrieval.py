"""Sentences with their translations, to be identified among all translations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from xling.eval import retrieval
from xling.eval.kinds.base import KINDS, Example, Kind, LabelSet, VectorQuestion


class Retrieval(Kind):
    """The answer is the number of the row whose ``text_b`` is nearest to ``text_a``."""

    name = "retrieval"
    fields: ClassVar[Mapping[str, type]] = {"text_a": str, "text_b": str}
    label = "index of the row's own translation"
    answer = "the number of a row"
    metrics: ClassVar[tuple[str, ...]] = ("retrieval_accuracy",)
    with_intervals = "retrieval"
    analysed = "pairs"

    def is_label(self, row: Example) -> bool:
        """Return whether the value is a whole number."""
        return type(row.label) is int

    def is_answer(self, suite: LabelSet, row: Example, answer: Any) -> bool:
        """Return whether the value is a whole number."""
        return type(answer) is int

    def among(
        self, rows: Sequence[Example], training: Callable[[], Sequence[Example]]
    ) -> Callable[[Any], bool] | None:
        """Return whether the answer is the index of a row."""
        return range(len(rows)).__contains__

    def source_of(self, row: Example) -> str:
        """Return the sentence whose translation is looked for."""
        return str(row.fields["text_a"])

    def shown(self, answer: Any, row: Example, rows: Sequence[Example]) -> str:
        """Return the sentence that was found."""
        return str(rows[answer].fields["text_b"])

    def by_vectors(self, question: VectorQuestion) -> list[Any]:
        """Return the nearest translation of each row."""
        sides = zip(("text_a", "text_b"), question.langs, strict=True)
        a, b = (question.embed([r.fields[name] for r in question.rows], lang) for name, lang in sides)
        indices: list[int] = retrieval.nearest(a, b, question.distance).tolist()
        return indices


KINDS.add(Retrieval.name, Retrieval())
