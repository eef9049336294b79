"""Source ``odt:GLOB``: OpenDocument texts, as LibreOffice writes them."""

from collections.abc import Iterator
from pathlib import Path

from xling.corpora.common.packed_xml import odt_paragraphs
from xling.corpora.sources.source import SOURCES
from xling.corpora.sources.whole_file import WholeFiles
from xling.text.document import Ledger


@SOURCES.register("odt")
class Odt(WholeFiles):
    """The body of each file."""

    endings = (".odt", ".fodt")

    def texts(self, path: Path, ledger: Ledger) -> Iterator[tuple[str, str]]:
        """Yield the text of the body."""
        yield "\n".join(odt_paragraphs(path)), ""
