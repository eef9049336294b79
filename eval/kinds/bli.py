"""Words with their translations, to be identified among all target words of the dictionaries."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from xling.eval.kinds import nearest_neighbours
from xling.eval.kinds.base import Example, Kind, VectorQuestion, register


@register
class Dictionary(Kind):
    """The answer is a word; the label is every accepted translation."""

    name = "bli"
    fields: ClassVar[Mapping[str, type]] = {"word": str}
    label = "list of accepted translations"
    label_type = tuple
    answer = "a word"
    metrics: ClassVar[tuple[str, ...]] = ("bli_p1",)
    reads_training = True
    pairs_languages = True
    with_intervals = "retrieval"

    def candidate_check(
        self, rows: Sequence[Example], training: Callable[[], Sequence[Example]]
    ) -> Callable[[Any], bool] | None:
        """Return whether the answer is a target word of the dictionaries; None if the one to learn from is missing."""
        known = training()
        return {word for row in (*rows, *known) for word in row.label}.__contains__ if known else None

    def right_answer(self, row: Example) -> Any:
        """Return the first accepted translation."""
        return row.label[0]

    def passages(self, row: Example) -> dict[str, str]:
        """Return None: single words occur in any corpus."""
        return {"entry": f"{row.fields['word']} {row.label[0]}"}

    def source_of(self, row: Example) -> str:
        """Return the word to translate."""
        return str(row.fields["word"])

    def answers_by_vectors(self, question: VectorQuestion) -> list[Any]:
        """Return the nearest target word of the pair's dictionaries for each source word."""
        known = [*question.rows, *question.training()]
        candidates = sorted({word for row in known for word in row.label})
        source, target = question.langs
        a = question.embed([r.fields["word"] for r in question.rows], source)
        b = question.embed(candidates, target)
        return [candidates[i] for i in nearest_neighbours.nearest_rows(a, b, question.distance)]
