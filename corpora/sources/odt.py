"""Source ``odt:GLOB``: OpenDocument texts, as LibreOffice writes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from xling.corpora.common.packed_xml import odt_paragraphs
from xling.corpora.sources.docx import packed
from xling.corpora.sources.source import SOURCES, SourceExample
from xling.corpora.sources.whole_file import WholeFiles
from xling.text.document import Ledger


@SOURCES.register("odt")
class Odt(WholeFiles):
    """The body of each file."""

    endings = (".odt",)

    @classmethod
    def example(cls) -> SourceExample:
        """Return an example of two paragraphs."""
        body = "<text:h>Habari za leo</text:h><text:p>Mji<text:s/>mkuu</text:p>"
        space = 'xmlns:o="urn:o" xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"'
        xml = f"<o:document-content {space}>{body}</o:document-content>"
        return SourceExample(
            "{folder}/a.odt", ("Habari za leo\nMji mkuu",), {"a.odt": packed({"content.xml": xml})}
        )

    def texts(self, path: Path, ledger: Ledger) -> Iterator[tuple[str, str]]:
        """Yield the text of the body."""
        yield "\n".join(odt_paragraphs(path)), ""
