"""XStoryCloze: which of two endings a story has, in eleven languages."""

from collections.abc import Iterator
from pathlib import Path

from xling.core.errors import UserError
from xling.eval.rows.readers import cells_of
from xling.eval.rows.suite import Example, Row

_COLUMNS = ["InputStoryid", *(f"InputSentence{n}" for n in (1, 2, 3, 4))]
_COLUMNS += ["RandomFifthSentenceQuiz1", "RandomFifthSentenceQuiz2", "AnswerRightEnding"]
"""Columns of the file by its authors; a copy has other names, as story_id, in the same order."""


def stories(paths: tuple[Path, ...]) -> Iterator[Row]:
    """Read a story id, four sentences, two endings and the number of the right one per line, after a header.

    Columns behind these, which some copies have, are not read.

    Raises:
        UserError: too few columns, or a number of an ending other than 1 and 2.
    """
    (path,) = paths
    for number, whole_row in cells_of(path):
        cells = whole_row[: len(_COLUMNS)]
        is_good = len(cells) == len(_COLUMNS) and (number == 1 or cells[7] in ("1", "2"))
        if not is_good or (number == 1 and "story" not in cells[0].lower()):
            raise UserError(
                f"{path}:{number}: {whole_row!r}"[:100], f"a header and rows of {', '.join(_COLUMNS)}"
            )
        if number > 1:
            fields = {"premise": " ".join(cells[1:5]), "question": "effect", "choices": tuple(cells[5:7])}
            yield path, number, Example(cells[0], fields, int(cells[7]) - 1)
