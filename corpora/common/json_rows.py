"""Rows of JSON lines, of monolingual and parallel sources."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from xling.text.document import Ledger

_DECODER = json.JSONDecoder(strict=False)
COMMA_NOTE = "JSON rows with a comma at their end, read without it"
JOINED_NOTE = "JSON rows on the line of another one, whose line end is missing"
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


def read_values(line: str | bytes, ledger: Ledger) -> list[Any]:
    """Return the value in a line of JSON, None for damage; all objects of a line where line ends are missing."""
    if (value := read_json(line, ledger)) is not None:
        return [value]
    values, text, place = list[Any](), "", 0
    with suppress(ValueError, RecursionError):
        text = (line if isinstance(line, str) else line.decode("utf-8")).strip()
        while text.startswith("{", place):
            value, place = _DECODER.raw_decode(text, place)
            values.append(value)
            place += text.startswith(" ", place)
    if len(values) > 1:
        ledger.count_event(JOINED_NOTE, len(values) - 1)
    return values if values and place == len(text) else [*values, None]


def is_array_mark(line: str | bytes) -> bool:
    """Return whether a line holds only the begin or the end of an array."""
    return line.strip() in ("[", "]", b"[", b"]", b"],")


def _parsed(line: str | bytes) -> Any:
    try:
        return json.loads(line, strict=False)  # a tab or a line feed in a text is no damage
    except (ValueError, RecursionError):  # a number of too many digits is a ValueError
        return None
