"""Raised digits of markup: ``10<sup>6</sup>`` is 10⁶, not 106."""

from __future__ import annotations

import re

_RAISED = re.compile(r"(?<=[\w)\]°])\s?<sup\b[^<>]{0,200}>\s*([+\-−–]?\d{1,4})\s*</sup\s*>", re.IGNORECASE)
_DIGITS = str.maketrans("0123456789+-−–", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻")


def raised(text: str) -> str:
    """Return digits and signs as the characters that stand above the line; other text as it is."""
    return text.translate(_DIGITS) if text.lstrip("+-−–").isdecimal() else text


def keep_raised_digits(markup: str) -> str:
    """Return HTML or wikitext with numbers in ``sup`` as raised characters."""
    return (
        _RAISED.sub(lambda match: raised(match[1]), markup) if "sup" in markup or "SUP" in markup else markup
    )
