"""Words as the original files of WikiANN write them: ``en:Peter``, with the language before each word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from xling.core.output.command_result import tell
from xling.eval.kinds.base import Example

_MARK = re.compile(r"((?:[a-z]{2,3}(?:-[a-z]+)*|simple):)(?!//)")
"""A code of a Wikipedia and a colon, but not before an address."""


def without_language_marks(rows: Sequence[Example], path: Path) -> list[Example]:
    """Remove the language from the words of rows in which each word begins with the same one, and say so.

    A mark counts if it is before all words of a row of two words or more. Other rows stay as they are.

    Args:
        rows: rows with ``tokens``.
        path: their file, for the message.
    """
    marks = [_mark_of(row.fields["tokens"]) for row in rows]
    known = {mark for mark, row in zip(marks, rows, strict=True) if mark and len(row.fields["tokens"]) > 1}
    if not known:
        return list(rows)
    num_marked = sum(mark in known for mark in marks)
    tell_once(
        f"xling: {path}: in {num_marked:,} of {len(rows):,} sentences each word begins with {' '.join(sorted(known))} "
        "as in WikiANN's original files; it is left out"
    )
    return [_without(row, mark) if mark in known else row for row, mark in zip(rows, marks, strict=True)]


def _mark_of(tokens: Sequence[str]) -> str:
    """Return the mark before every one of the words; "" if there is none."""
    match = _MARK.match(tokens[0]) if tokens else None
    return match[1] if match and all(token.startswith(match[1]) for token in tokens) else ""


def _without(row: Example, mark: str) -> Example:
    tokens = tuple(token.removeprefix(mark) for token in row.fields["tokens"])
    return replace(row, fields={**row.fields, "tokens": tokens})


@cache
def tell_once(text: str) -> None:
    """Print a line, once in a process."""
    tell(text)
