"""Sentences with their translations, to be identified among all translations."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from xling.eval.kinds import nearest_neighbours
from xling.eval.kinds.base import Example, Kind, LabelSet, VectorQuestion, register

NUM_CANDIDATES = 30
"""Nearest rows among which words decide, if they are compared."""


@register
class Retrieval(Kind):
    """The answer is the number of the row whose ``text_b`` is nearest to ``text_a``."""

    name = "retrieval"
    fields: ClassVar[Mapping[str, type]] = {"text_a": str, "text_b": str}
    label = "index of the row's own translation"
    label_type = int
    answer = "the number of a row"
    metrics: ClassVar[tuple[str, ...]] = ("retrieval_accuracy",)
    with_intervals = "retrieval"
    analysed_as = "pairs"
    compares_words = True
    own_setting = "retrieval"
    own_columns: ClassVar[tuple[str, ...]] = ("text_a", "text_b")

    def row_of_cells(self, cells: Mapping[str, Any], number: int) -> tuple[dict[str, Any], Any]:
        """Return the two texts; the right answer is the row itself."""
        return dict(cells), number

    def is_answer(self, suite: LabelSet, row: Example, answer: Any) -> bool:
        """Return whether the value is a whole number."""
        return type(answer) is int

    def candidate_check(
        self, rows: Sequence[Example], training: Callable[[], Sequence[Example]]
    ) -> Callable[[Any], bool] | None:
        """Return whether the answer is the index of a row."""
        return range(len(rows)).__contains__

    def source_of(self, row: Example) -> str:
        """Return the sentence whose translation is looked for."""
        return str(row.fields["text_a"])

    def answer_text(self, answer: Any, row: Example, rows: Sequence[Example]) -> str:
        """Return the sentence that was found."""
        return str(rows[answer].fields["text_b"])

    def answers_by_vectors(self, question: VectorQuestion) -> list[Any]:
        """Return the nearest translation of each row."""
        texts = [[row.fields[name] for row in question.rows] for name in ("text_a", "text_b")]
        a, b = (question.embed(side, lang) for side, lang in zip(texts, question.langs, strict=True))
        if question.match is None:
            indices: list[int] = nearest_neighbours.nearest_rows(a, b, question.distance).tolist()
            return indices
        near, scores = nearest_neighbours.ranked(a, b, question.distance, NUM_CANDIDATES)
        best = (scores + question.match(texts[0], texts[1], near)).argmax(1)
        return [int(row[place]) for row, place in zip(near, best, strict=True)]
