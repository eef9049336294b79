"""Source ``docx:GLOB``: Word documents."""

from collections.abc import Iterator
from pathlib import Path

from xling.corpora.common.packed_xml import docx_blocks
from xling.corpora.sources.source import SOURCES
from xling.corpora.sources.whole_file import WholeFiles
from xling.text.document import Ledger


@SOURCES.register("docx")
class Docx(WholeFiles):
    """The body of each file; a row of a table is a paragraph."""

    endings = (".docx",)

    def texts(self, path: Path, ledger: Ledger) -> Iterator[tuple[str, str]]:
        """Yield the text of the body."""
        lines = []
        for block in docx_blocks(path):
            lines += [block] if isinstance(block, str) else [" ".join(filter(None, row)) for row in block]
        yield "\n".join(lines), ""
