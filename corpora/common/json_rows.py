"""Rows of JSON lines, of monolingual and parallel sources."""

import json
from contextlib import suppress
from typing import Any

from xling.text.document import Ledger

_DECODER = json.JSONDecoder()
COMMA_NOTE = "JSON rows with a comma at their end, read without it"
JOINED_NOTE = "JSON rows on the line of another one, whose line end is missing"
ARRAY_NOTE = "JSON rows with a mark of an array or a separator at them, read without it"
TWICE_NOTE = "JSON rows with the same field twice, of which the last one counts"


def _note_twice(text: str, value: Any, ledger: Ledger) -> None:
    """Count a row that has a field twice; only where a name is in its text twice it is read again."""
    if isinstance(value, dict) and any(text.count(f'"{key}"') > 1 for key in value):
        fields = list[tuple[str, Any]]()

        def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            fields[:] = pairs  # at last those of the outermost object
            return dict(pairs)

        json.loads(text, object_pairs_hook=keep)
        if len(fields) > len(value):
            ledger.count_event(TWICE_NOTE)


def read_values(line: str | bytes, ledger: Ledger) -> list[Any]:
    """Return the value in a line of JSON, None for damage, or all objects of a line where line ends are missing.

    A blank line, and one with the begin or the end of an array, has none. Marks of an array around a row are counted.
    """
    try:
        text = line if isinstance(line, str) else line.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return [None]
    text = text.strip("\ufeff \t\r\n")
    if text in ("", "[", "]", "],"):
        return []
    with suppress(ValueError, RecursionError):  # a number of too many digits is a ValueError
        value = _DECODER.decode(text)
        _note_twice(text, value, ledger)
        return [value]
    bare = text.removeprefix("\x1e").removeprefix("[").removesuffix(",")
    if bare.count("[") != bare.count("]"):
        bare = bare.rstrip().removesuffix("]")
    values, place = list[Any](), 0
    with suppress(ValueError, RecursionError):
        while bare.startswith("{", place):
            value, place = _DECODER.raw_decode(bare, place)
            values.append(value)
            place += bare.startswith(" ", place)
    if len(values) > 1:
        ledger.count_event(JOINED_NOTE, len(values) - 1)
    elif values and place == len(bare):
        ledger.count_event(COMMA_NOTE if text.endswith(",") else ARRAY_NOTE)
    return values if values and place == len(bare) else [*values, None]
