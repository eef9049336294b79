"""Rows with a placeholder in place of a text, such as ``NS`` of PAWS-X where a sentence was not translated."""

from collections.abc import Sequence
from pathlib import Path

from xling.eval.rows.suite import Example, Suite, load


def has_placeholder(suite: Suite, row: Example) -> bool:
    """Return whether one of the texts of a row is the suite's placeholder."""
    return any(isinstance(text, str) and text.strip() == suite.placeholder for text in row.fields.values())


def count_placeholders(suite: Suite, lang: str, split: str, data: Path) -> tuple[int, int]:
    """Return how many rows of a language and split have a placeholder, and how many rows there are."""
    rows = load(suite, lang, split, data)
    return sum(has_placeholder(suite, row) for row in rows), len(rows)


def placeholder_text(suite: Suite, counts: Sequence[tuple[str, str, int, int]]) -> str:
    """Say in which (language, split) how many of how many rows have a placeholder; "" if none has."""
    parts = [f"{num:,} of {total:,} {split} rows in {lang}" for lang, split, num, total in counts if num]
    return f"{suite.placeholder} stands in place of a text in {', '.join(parts)}" if parts else ""
