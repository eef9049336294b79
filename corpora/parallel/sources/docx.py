"""``docx:FILE[#SRC+TGT]``: tables of a Word document, a pair a row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from xling.corpora.common.packed_xml import docx_blocks
from xling.corpora.parallel.sources import (
    PAIR_SOURCES,
    PairReader,
    PairSource,
    SourceContext,
)
from xling.corpora.parallel.sources.grids import Grid, grid_rows, named_columns


@PAIR_SOURCES.register("docx")
class Docx(PairReader):
    """All tables of one file."""

    @classmethod
    def open(cls, rest: str, context: SourceContext) -> list[PairSource]:
        """Return one source of one file."""
        path, names = named_columns("docx", rest)
        return [
            PairSource(
                f"docx:{rest}",
                (path,),
                lambda ledger: grid_rows(_tables(path), f"docx:{path}", names, context, ledger),
            )
        ]


def _tables(path: Path) -> Iterator[Grid]:
    return (block for block in docx_blocks(path) if not isinstance(block, str))
