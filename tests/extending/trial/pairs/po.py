"""``po:FILE``: a message catalogue of gettext: a source of pairs added by this file alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from xling.corpora.parallel.sources import (
    PAIR_SOURCES,
    PairReader,
    PairSource,
    Row,
    SourceContext,
    existing_path,
)

_ENTRY = re.compile(r'^msgid "(.+)"\nmsgstr "(.*)"$', re.MULTILINE)


@PAIR_SOURCES.register("po")
class Po(PairReader):
    """Messages of one line and their translations."""

    @classmethod
    def open(cls, rest: str, context: SourceContext) -> list[PairSource]:
        """One source of one file."""
        path = existing_path(rest)
        return [PairSource(f"po:{rest}", (path,), lambda ledger: _rows(path))]


def _rows(path: Path) -> Iterator[Row]:
    for match in _ENTRY.finditer(path.read_text(encoding="utf-8")):
        yield match[1], match[2], ""
