"""Pairs of sentences with a degree of similarity."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from xling.eval.kinds import nearest_neighbours
from xling.eval.kinds.base import Example, Kind, LabelSet, VectorQuestion, register


@register
class Similarity(Kind):
    """The answer is a number, the higher the more alike the two texts are; its scale does not matter."""

    name = "similarity"
    fields: ClassVar[Mapping[str, type]] = {"text_a": str, "text_b": str}
    label = "a number"
    answer = "a number"
    metrics: ClassVar[tuple[str, ...]] = ("spearman", "pearson")
    pairs_languages = True
    with_intervals = "retrieval"

    def is_label(self, row: Example) -> bool:
        """Return whether the label is a finite number."""
        return _is_number(row.label)

    def is_answer(self, suite: LabelSet, row: Example, answer: Any) -> bool:
        """Return whether the answer is a finite number."""
        return _is_number(answer)

    def answers_by_vectors(self, question: VectorQuestion) -> list[Any]:
        """Return the cosine of the two vectors of each row, whatever the distance of retrieval is."""
        sides = zip(("text_a", "text_b"), question.langs, strict=True)
        a, b = (
            nearest_neighbours.normalise(question.embed([r.fields[name] for r in question.rows], lang))
            for name, lang in sides
        )
        cosines: list[float] = (a * b).sum(axis=1).tolist()
        return cosines


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)
