"""Values of rows as text, names and dates: what is none of these is refused, never written as code."""

from __future__ import annotations

import datetime
import re
from email.utils import parsedate_to_datetime
from typing import Any

from xling.text.document import replace_surrogates

_ISO = re.compile(
    r"\d{4}(?:-\d\d(?:-\d\d(?:T\d\d(?::?\d\d(?::?\d\d(?:\.\d+)?)?)?(?:Z|[+-]\d\d(?::?\d\d)?)?)?)?)?"
)
_DIGITS = re.compile(r"(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d))?")
_MIN_SECONDS, _MAX_SECONDS = 10**8, 10**10  # of the Unix time: 1973 to 2286


def as_text(value: Any) -> str | None:
    """Return text as it is, bytes as UTF-8, and a list of texts as lines; None for everything else."""
    if isinstance(value, bytes):
        try:
            value = value.decode("utf-8")
        except UnicodeDecodeError:
            return None
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, list | tuple):
        lines = [as_text(item) for item in value if not isinstance(item, list | tuple)]
        return (
            "\n".join(line for line in lines if line)
            if None not in lines and len(lines) == len(value)
            else None
        )
    return None


def as_name(value: Any) -> str:
    """Return text, or the first of a list of texts; "" for everything else."""
    return (as_text(value) or "").partition("\n")[0]


def as_date(value: Any) -> str:
    """Return an ISO 8601 date or time; "" for what is none or can be read in two ways, such as 01/05/2024.

    It reads times as objects, seconds or milliseconds of the Unix time, YYYYMMDD[HHMMSS], and the form of HTTP.
    """
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, bytes):
        value = as_text(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value != value:
        return ""
    text = str(value).strip()
    try:
        if _ISO.fullmatch(text):
            _ = (
                datetime.datetime.fromisoformat(text)
                if len(text) > 7
                else datetime.date(*_year_month(text), 1)
            )
            return text
        if digits := _DIGITS.fullmatch(text):
            form = "%Y%m%d%H%M%S" if digits[4] else "%Y%m%d"
            time = datetime.datetime.strptime(text, form)
            return time.isoformat() if digits[4] else time.date().isoformat()
        if re.fullmatch(r"\d{9,13}(?:\.\d+)?", text):
            seconds = float(text) if float(text) < _MAX_SECONDS else float(text) / 1000
            time = datetime.datetime.fromtimestamp(seconds, datetime.UTC).replace(microsecond=0)
            return time.isoformat().replace("+00:00", "Z") if seconds >= _MIN_SECONDS else ""
        if text[:4].isdecimal():
            return datetime.datetime.fromisoformat(
                text.removesuffix(" UTC")
            ).isoformat() + "Z" * text.endswith("UTC")
        return parsedate_to_datetime(text).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError, TypeError, IndexError):
        return ""


def _year_month(text: str) -> tuple[int, int]:
    year, _, month = text.partition("-")
    return int(year), int(month or 1)
