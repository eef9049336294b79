"""``po:FILE``: a message catalogue of gettext: a source of pairs added by this file alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from xling.corpora.parallel.sources import (
    EXAMPLE_ROWS,
    PAIR_SOURCES,
    PairReader,
    PairSource,
    PairSourceExample,
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

    @classmethod
    def example(cls) -> PairSourceExample:
        """Two messages."""
        content = "\n\n".join(f'msgid "{src}"\nmsgstr "{tgt}"' for src, tgt, _ in EXAMPLE_ROWS)
        return PairSourceExample("{folder}/sw.po", EXAMPLE_ROWS, {"sw.po": content.encode()})


def _rows(path: Path) -> Iterator[Row]:
    for match in _ENTRY.finditer(path.read_text(encoding="utf-8")):
        yield match[1], match[2], ""
