"""``srt:GLOB``: subtitles, a file a document: a source added by this file alone."""

from __future__ import annotations

from collections.abc import Iterator

from xling.corpora.sources.source import (
    SOURCES,
    LocalFiles,
    Shard,
    admit,
    decode,
    paragraphs,
)
from xling.text.document import Document, Ledger


@SOURCES.register("srt")
class Srt(LocalFiles):
    """Subtitles without their numbers and times."""

    endings = (".srt",)

    def read(self, shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield the document of one file."""
        lines = decode(self.context.local(shard).read_bytes(), ledger).splitlines()
        text = "\n".join(line for line in lines if not line.isdecimal() and " --> " not in line)
        if doc := admit(Document(f"{shard.name}/0", paragraphs(text), source=shard.source), ledger):
            yield doc
