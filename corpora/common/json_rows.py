"""Rows of JSON lines, of monolingual and parallel sources."""

from __future__ import annotations

import json
from typing import Any

from xling.text.document import Ledger

COMMA_NOTE = "JSON rows with a comma at their end, read without it"
ARRAY_NOTE = "JSON rows with a mark of an array or a separator at them, read without it"


def read_json(line: str | bytes, ledger: Ledger) -> Any:
    """Return the value in a line of JSON, None for damage; marks of an array around it are counted."""
    value = _parsed(line)
    if value is not None:
        return value
    marks: Any = ("[", "]", "\x1e", ",") if isinstance(line, str) else (b"[", b"]", b"\x1e", b",")
    bare: Any = line.strip()
    bare = bare.removeprefix(marks[2]).removeprefix(marks[0]).removesuffix(marks[3])
    if bare.count(marks[0]) != bare.count(marks[1]):
        bare = bare.rstrip().removesuffix(marks[1])
    value = _parsed(bare)
    if isinstance(value, dict):
        has_comma = line.rstrip().endswith(marks[3])
        ledger.count_event(COMMA_NOTE if has_comma else ARRAY_NOTE)
        return value
    return None


def is_array_mark(line: str | bytes) -> bool:
    """Return whether a line holds only the begin or the end of an array."""
    return line.strip() in ("[", "]", b"[", b"]", b"],")


def _parsed(line: str | bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):  # a number of too many digits is a ValueError
        return None
