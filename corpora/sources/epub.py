"""Source ``epub:GLOB``: electronic books."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from xling.corpora.common.packed_xml import epub_pages
from xling.corpora.sources.docx import packed
from xling.corpora.sources.source import SOURCES, SourceExample
from xling.corpora.sources.warc import html_text
from xling.corpora.sources.webpage import REASONS, text_of
from xling.corpora.sources.whole_file import WholeFiles
from xling.text.document import Ledger

LOCKED = "locked page"


@SOURCES.register("epub")
class Epub(WholeFiles):
    """One document a page of a book, which is mostly a chapter, in reading order."""

    endings = (".epub",)
    reasons = REASONS | {LOCKED: "a page of a book that is encrypted, or missing"}

    @classmethod
    def example(cls) -> SourceExample:
        """Return an example of one page."""
        text = "Mji mkuu wa nchi yetu uko karibu na bahari kubwa."
        items = '<manifest><item id="a" href="a.xhtml"/></manifest><spine><itemref idref="a"/></spine>'
        members = {
            "META-INF/container.xml": '<container><rootfiles><rootfile full-path="b/c.opf"/></rootfiles></container>',
            "b/c.opf": f"<package>{items}</package>",
            "b/a.xhtml": f"<html><body><p>{text}</p></body></html>",
        }
        return SourceExample("{folder}/a.epub", (text,), {"a.epub": packed(members)})

    def texts(self, path: Path, ledger: Ledger) -> Iterator[tuple[str, str]]:
        """Yield the text of each page."""
        for _, page in epub_pages(path):
            yield ("", LOCKED) if page is None else text_of(html_text(page, "", ledger), main=False)
