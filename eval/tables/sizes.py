"""Corpus sizes by language, and their rank correlation with scores."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from xling.core import languages
from xling.core.errors import UserError


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Rank correlation, ties at their mean rank; 0 when one side is constant."""
    if len(set(a)) < 2 or len(set(b)) < 2:
        return 0.0
    return statistics.correlation(_ranks(a), _ranks(b))


def _ranks(values: Sequence[float]) -> list[float]:
    return [sum(w < v for w in values) + (sum(w == v for w in values) - 1) / 2 for v in values]


def read_sizes(path: Path) -> dict[str, float]:
    """Corpus sizes from lines ``language<TAB>size``.

    Raises:
        UserError: the file is missing, or a line does not hold a language and a number.
    """
    if not path.is_file():
        raise UserError(f"no corpus sizes at {path}", "lines of language, tab, size")
    sizes = {}
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
        lang, _, size = line.partition("\t")
        if not size.replace(".", "", 1).isdigit():
            raise UserError(f"{path}:{number}: {line[:40]!r}", "a language and a number with a tab between")
        sizes[languages.get(lang).code] = float(size)
    return sizes
