"""Source ``epub:GLOB``: electronic books."""

from collections.abc import Iterator
from pathlib import Path

from xling.corpora.common.packed_xml import epub_pages
from xling.corpora.sources.source import SOURCES
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

    def texts(self, path: Path, ledger: Ledger) -> Iterator[tuple[str, str]]:
        """Yield the text of each page."""
        for _, page in epub_pages(path, ledger):
            yield ("", LOCKED) if page is None else text_of(html_text(page, "", ledger), main=False)
