"""Source ``docx:GLOB``: Word documents."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

from xling.corpora.common.packed_xml import docx_blocks
from xling.corpora.sources.source import SOURCES, SourceExample
from xling.corpora.sources.whole_file import WholeFiles
from xling.text.document import Ledger


@SOURCES.register("docx")
class Docx(WholeFiles):
    """The body of each file; a row of a table is a paragraph."""

    endings = (".docx",)

    @classmethod
    def example(cls) -> SourceExample:
        """Return an example of two paragraphs."""
        body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in ("Habari za leo", "Mji mkuu"))
        space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
        xml = f"<w:document {space}><w:body>{body}</w:body></w:document>"
        return SourceExample(
            "{folder}/a.docx", ("Habari za leo\nMji mkuu",), {"a.docx": packed({"word/document.xml": xml})}
        )

    def texts(self, path: Path, ledger: Ledger) -> Iterator[tuple[str, str]]:
        """Yield the text of the body."""
        lines = []
        for block in docx_blocks(path):
            lines += [block] if isinstance(block, str) else [" ".join(filter(None, row)) for row in block]
        yield "\n".join(lines), ""


def packed(members: dict[str, str]) -> bytes:
    """Return a zip archive with these members: examples of formats that are one."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in members.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return data.getvalue()
