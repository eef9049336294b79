"""Questions and candidates of any languages in one pool: every question ranks the candidates."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from xling.eval.kinds import nearest_neighbours
from xling.eval.kinds.base import Example, VectorQuestion, register
from xling.eval.kinds.mining import Mining
from xling.eval.kinds.nearest_neighbours import Vectors

RANKING_DEPTH = 20
"""Candidates in an answer, which is as far as XTREME-R looks."""


@register
class Ranking(Mining):
    """Kind of suite whose answer to a question is a ranking of candidates.

    Questions are rows with ``side`` = ``src``; their answer is the ids of rows with ``side`` = ``tgt``, the best first.
    Candidates have no answer. ``lang`` is the language of the text, since the candidates are in many.
    """

    name = "ranking"
    fields: ClassVar[Mapping[str, type]] = {"text": str, "side": str, "lang": str}
    label = "list of ids of the right candidates"
    answer = "a list of ids of candidates, the best first"
    metrics: ClassVar[tuple[str, ...]] = ("map_at_20",)
    reads_training = False

    def answers_by_vectors(self, question: VectorQuestion) -> list[Any]:
        """Return the nearest candidates of each question."""
        sides = [[row for row in question.rows if row.fields["side"] == side] for side in ("src", "tgt")]
        asked, pool = (_vectors(question, part) for part in sides)
        best, _ = nearest_neighbours.ranked(asked, pool, question.distance, RANKING_DEPTH)
        names = [row.id for row in sides[1]]
        answers = iter([[names[i] for i in row] for row in best.tolist()])
        return [next(answers) if row.fields["side"] == "src" else [] for row in question.rows]


def _vectors(question: VectorQuestion, rows: Sequence[Example]) -> Vectors:
    """Return vectors of rows in their order, float32 (num_rows, dim), each text in its own language."""
    combined: Vectors | None = None
    for lang in dict.fromkeys(row.fields["lang"] for row in rows):
        places = [i for i, row in enumerate(rows) if row.fields["lang"] == lang]
        part = question.embed([rows[i].fields["text"] for i in places], lang)
        combined = np.zeros((len(rows), part.shape[1]), dtype=np.float32) if combined is None else combined
        combined[places] = part
    return np.zeros((0, 1), dtype=np.float32) if combined is None else combined
