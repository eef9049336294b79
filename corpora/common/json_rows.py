"""Rows of JSON lines, of monolingual and parallel sources."""

from __future__ import annotations

import json
from typing import Any

from xling.text.document import Ledger

COMMA_NOTE = "JSON rows with a comma at their end, read without it"


def read_json(line: str | bytes, ledger: Ledger) -> Any:
    """Return the value in a line of JSON, None for damage; a comma after it, as between array elements, is counted."""
    value = _parsed(line)
    if value is not None or line.rstrip()[-1:] not in (",", b","):
        return value
    value = _parsed(line.rstrip()[:-1])
    if value is not None:
        ledger.count_event(COMMA_NOTE)
    return value


def _parsed(line: str | bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):  # a number of too many digits is a ValueError
        return None
