"""Two texts with some translations of each other's sentences, to be identified with a threshold."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from xling.eval.kinds import nearest_neighbours
from xling.eval.kinds.base import Example, Kind, LabelSet, VectorQuestion, register


@register
class Mining(Kind):
    """The answer to a row whose ``side`` is ``src`` is the ids of the rows mined with it; ``tgt`` rows have none."""

    name = "mining"
    fields: ClassVar[Mapping[str, type]] = {"text": str, "side": str}
    label = "list of ids"
    label_type = tuple
    answer = "a list of ids"
    metrics: ClassVar[tuple[str, ...]] = ("mining_f1",)
    reads_training = True
    with_intervals = "retrieval"

    def is_answer(self, suite: LabelSet, row: Example, answer: Any) -> bool:
        """Return whether the answer is a list of texts."""
        return isinstance(answer, list) and all(isinstance(name, str) for name in answer)

    def candidate_check(
        self, rows: Sequence[Example], training: Callable[[], Sequence[Example]]
    ) -> Callable[[Any], bool] | None:
        """Return whether the answer consists of ids of rows of the other side."""
        return {row.id for row in rows if row.fields["side"] == "tgt"}.issuperset

    def passages(self, row: Example) -> dict[str, str]:
        """Return the sentence of a row under the name of its side."""
        return {row.fields["side"]: row.fields["text"]}

    def right_answer(self, row: Example) -> Any:
        """Return the answer as a list for JSON."""
        return list(row.label)

    def answers_by_vectors(self, question: VectorQuestion) -> list[Any]:
        """Return the ids mined for each row; the threshold is chosen on the training rows only.

        A control that finds no right pair there mines nothing.
        """
        pairs, source, target = _candidates(question, question.training())
        place = {row.id: i for i, row in enumerate(target)}
        gold = {(i, place[t]) for i, row in enumerate(source) for t in row.label}
        hopeless = question.is_control and not any((p.src, p.tgt) in gold for p in pairs)
        threshold = float("inf") if hopeless else nearest_neighbours.fit_threshold(pairs, gold)[0]
        pairs, source, target = _candidates(question, question.rows)
        mined = {source[p.src].id: [target[p.tgt].id] for p in pairs if p.score >= threshold}
        return [mined.get(row.id, []) if row.fields["side"] == "src" else [] for row in question.rows]


def _candidates(
    question: VectorQuestion, rows: Sequence[Example]
) -> tuple[list[nearest_neighbours.Candidate], list[Example], list[Example]]:
    source, target = ([r for r in rows if r.fields["side"] == side] for side in ("src", "tgt"))
    a, b = (
        question.embed([r.fields["text"] for r in part], lang)
        for part, lang in zip((source, target), question.langs, strict=True)
    )
    return nearest_neighbours.mine_pairs(a, b, question.distance), source, target
