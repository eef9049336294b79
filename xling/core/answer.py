"""What a command answers: a text for people, and the same as values for programs (``--json``)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

# C0 and C1 controls but tab and line feed, and the marks that turn the direction of what follows.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""Text for a terminal, with what a terminal would obey shown as ``\x1b`` or ``\u202e``.

    Documents, logs and records hold text of others; printed as it is, an escape sequence in it could move the cursor,
    rename the window or hide what follows.
    """
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class Answer(str):
    """The text that a command prints, with its content as JSON-ready values.

    A stage whose ``run`` prints something returns this and no plain text, so that ``--json`` works for it.

    Args:
        text: what is printed without ``--json``.
        data: the same as mappings, lists, texts and numbers.
        exit_code: of the command.
    """

    data: Any
    exit_code: int

    def __new__(cls, text: str, data: Any, exit_code: int = 0) -> Answer:  # noqa: D102
        made = super().__new__(cls, text)
        made.data, made.exit_code = data, exit_code
        return made

    def __getnewargs__(self) -> tuple[str, Any, int]:  # type: ignore[override]
        """What pickling needs: an answer may come from another process."""
        return str(self), self.data, self.exit_code


class Rows:
    """A table that is printed row by row while it is made, for one that may not fit into memory.

    Args:
        head: names of the columns.
        rows: the cells of each row, as many as there are columns.
    """

    def __init__(self, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        self.head, self.rows = tuple(head), rows

    def lines(self) -> Iterator[str]:
        """Lines with tabs between the cells, the header first; None is an empty cell."""
        yield "\t".join(self.head)
        for row in self.rows:
            yield "\t".join("" if cell is None else str(cell) for cell in row)

    def json_lines(self) -> Iterator[str]:
        """The lines of one JSON list, an object a row."""
        opening = "["
        for row in self.rows:
            yield opening + json.dumps(dict(zip(self.head, row, strict=True)), ensure_ascii=False)
            opening = ","
        yield "]" if opening == "," else "[]"
