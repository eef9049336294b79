"""``docx:FILE[#SRC+TGT]``: tables of a Word document, a pair a row."""

from collections.abc import Iterator
from pathlib import Path

from xling.corpora.common.packed_xml import docx_blocks
from xling.corpora.common.spreadsheets import Grid
from xling.corpora.parallel.sources import PAIR_SOURCES
from xling.corpora.parallel.sources.grids import GridFile


@PAIR_SOURCES.register("docx")
class Docx(GridFile):
    """All tables of one file."""

    kind = "docx"

    @staticmethod
    def grids(path: Path) -> Iterator[Grid]:
        """Yield the tables of the document."""
        return (block for block in docx_blocks(path) if not isinstance(block, str))
