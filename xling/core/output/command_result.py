"""Answers of commands: a text for people and the same content as values for programs (``--json``)."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

# All C0 and C1 control characters except tab and line feed, and the marks that change the text direction. Halves of
# surrogate pairs stand for bytes of file names that are no UTF-8: they cannot be printed.
_CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""Escape characters that a terminal would interpret, for example as ``\x1b`` or ``\u202e``.

    Documents, logs and records hold untrusted text. Printed unescaped, a control sequence in it could move
    the cursor, rename the window or hide the text after it. Tab and line feed are kept.
    """
    return _CONTROL_CHARACTERS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def as_json(value: Any, indent: int | None = None) -> str:
    """Return ``value`` as JSON whose texts a terminal cannot interpret; it reads back unchanged."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return _CONTROL_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def tell(text: str) -> None:
    """Print a message on standard error at once, without characters that a terminal would interpret."""
    print(visible(text), file=sys.stderr, flush=True)
    note_shown(time.monotonic())


_shown_at = float("-inf")


def note_shown(now: float) -> None:
    """Note that the user sees something new at time ``now`` of the monotonic clock."""
    global _shown_at
    _shown_at = now


def last_shown_at() -> float:
    """Return when the user last saw something new, on the monotonic clock; minus infinity for never."""
    return _shown_at


class Answer(str):
    """The text that a command prints, with its content as JSON-ready values.

    A stage whose ``run`` prints something returns an `Answer` instead of plain text, so that ``--json`` works
    for it.

    Args:
        text: the text that is printed without ``--json``.
        data: the same content as mappings, lists, strings and numbers.
        exit_code: exit code of the command.
    """

    data: Any
    exit_code: int

    def __new__(cls, text: str, data: Any, exit_code: int = 0) -> Answer:  # noqa: D102
        answer = super().__new__(cls, text)
        answer.data, answer.exit_code = data, exit_code
        return answer

    def __getnewargs__(self) -> tuple[str, Any, int]:  # type: ignore[override]
        """Return the constructor's arguments for pickling: an answer may come from another process."""
        return str(self), self.data, self.exit_code


class JsonLines:
    """Rows that are printed as they are computed, one JSON object a line; they may not fit into memory.

    Args:
        columns: names of the columns.
        rows: the cells of each row, as many as there are columns.
    """

    def __init__(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        self.columns, self.rows = tuple(columns), rows

    def lines(self) -> Iterator[str]:
        """Yield one JSON object for each row."""
        for row in self.rows:
            yield as_json(dict(zip(self.columns, row, strict=True)))

    def json_lines(self) -> Iterator[str]:
        """Yield the lines of one JSON list with one object per row."""
        separator = "["
        for line in self.lines():
            yield separator + line
            separator = ","
        yield "]" if separator == "," else "[]"
