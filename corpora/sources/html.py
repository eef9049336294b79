"""Source ``html:FOLDER`` or ``html:GLOB``: web pages saved as files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from email import message_from_bytes
from pathlib import Path
from typing import Any

from xling.core.errors import UserError
from xling.corpora.sources.page_text import page_text
from xling.corpora.sources.source import SOURCES, Shard, local_shards
from xling.corpora.sources.warc import MAX_PAGE_BYTES, html_text, is_html
from xling.corpora.sources.webpage import REASONS
from xling.corpora.sources.whole_file import WholeFiles
from xling.text.document import Ledger
from xling.text.files.compressed import DAMAGE_ERRORS, read_whole_chunks
from xling.text.files.globs import matching_files

_ENDINGS = (".html", ".htm", ".xhtml", ".mht", ".mhtml")
# A page that a browser saved with its pictures: a message with attachments.
_ARCHIVE = re.compile(rb"(?:[\w-]+:.*\n(?:[ \t].*\n)*)*?Content-Type:\s*(?:multipart|text)/", re.IGNORECASE)


@SOURCES.register("html")
class Html(WholeFiles):
    """One document a page. Of a folder, all pages below it are read."""

    endings = _ENDINGS
    reasons = REASONS

    def shards(self) -> list[Shard]:
        """Return one shard per page, by name.

        Raises:
            UserError: no file matches.
        """
        folder = Path(self.rest)
        if not (self.rest and folder.is_dir()):
            return local_shards(self.uri, self.rest)
        paths = [path for path in matching_files(f"{folder}/**/*") if path.suffix.lower() in _ENDINGS]
        if not paths:
            raise UserError(f"{self.uri}: no page below {folder}", ", ".join(_ENDINGS), "check the path")
        return [
            replace(shard, name=str(path.relative_to(folder)), source=self.uri)
            for path in paths
            for shard in local_shards(self.uri, str(path))
        ]

    def texts(self, path: Path, ledger: Ledger) -> Iterator[tuple[str, str]]:
        """Yield the text of the page; the charset is its own, or a guess from the bytes."""
        page: Any = b""
        with suppress(EOFError, *DAMAGE_ERRORS):  # what comes before a cut is read, as browsers do
            for chunk in read_whole_chunks(path):
                page += chunk
                if len(page) > MAX_PAGE_BYTES:
                    break
        if _ARCHIVE.match(page):  # the page comes before its pictures
            parts = message_from_bytes(page).walk()
            texts = [part.get_payload(decode=True) for part in parts if part.get_content_subtype() == "html"]
            page = texts[0] if texts else b""
        if len(page) > MAX_PAGE_BYTES:
            yield "", "page over 16 MiB"
        elif not is_html(page):
            yield "", "not HTML"
        else:
            yield page_text(html_text(page, "", ledger), self.context, ledger)
