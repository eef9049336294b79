"""Words that a report uses, explained before they are used: those that the page has."""

from __future__ import annotations

import html
import re

from xling.core.package_tables import load_table

_TABLE = load_table(__package__, "terms.yaml")
TERMS: dict[str, tuple[str, str]] = {term: (words, meaning) for term, (words, meaning) in _TABLE.items()}
"""Term -> the words on a page that mean it, as an expression, and its meaning."""


def glossary(page: str) -> str:
    """Return a folded list of the terms that occur in the HTML of a page; empty where none does."""
    text = re.sub(r"<(style|script).*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)
    used = [
        f"<dt>{html.escape(term)}</dt><dd>{html.escape(meaning)}</dd>"
        for term, (words, meaning) in TERMS.items()
        if re.search(rf"(?<!\w)(?:{words})(?!\w)", text, re.I)
    ]
    return f"<details><summary>Words used here</summary><dl>{''.join(used)}</dl></details>" if used else ""
