"""``text:GLOB``: a paragraph a line, a blank line between documents; ``lines:GLOB``: a document a line."""

from __future__ import annotations

from collections.abc import Iterator

from corpora.document import Document, Ledger
from corpora.sources.source import Context, LocalFiles, Shard, admit, decode, paragraphs
from corpora.sources.stored import lines

MAX_DOC_BYTES = 1 << 20


class Text(LocalFiles):
    """Text in CC-100's format, plain or compressed.

    A text without blank lines for a megabyte is cut at the next line end, so that memory stays bounded.
    """

    licence = "as the files' own"

    def read(self, shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield one document a block of lines."""
        return read_text(self.context, shard, ledger)


class Lines(Text):
    """Text whose lines have nothing to do with each other, such as isolated sentences."""

    def read(self, shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield one document a line."""
        blocks = ([line] for line in lines(self.context.local(shard), ledger) if line.strip())
        return _documents(blocks, shard, ledger)


def read_text(context: Context, shard: Shard, ledger: Ledger) -> Iterator[Document]:
    """Yield the documents of one file in CC-100's format, fetched first if it is remote."""
    return _documents(_blocks(lines(context.local(shard), ledger), ledger), shard, ledger)


def _blocks(rows: Iterator[bytes], ledger: Ledger) -> Iterator[list[bytes]]:
    """The lines between blank lines, at most about `MAX_DOC_BYTES` at once."""
    block: list[bytes] = []
    size = 0
    for row in rows:
        if row.strip():
            block.append(row)
            size += len(row)
            if size < MAX_DOC_BYTES:
                continue
            ledger.note("text of a megabyte without a blank line, cut")
        if block:
            yield block
        block, size = [], 0
    if block:
        yield block


def _documents(blocks: Iterator[list[bytes]], shard: Shard, ledger: Ledger) -> Iterator[Document]:
    for number, block in enumerate(blocks):
        text = paragraphs(decode(b"\n".join(block), ledger).removeprefix("\ufeff"))
        if doc := admit(Document(f"{shard.name}/{number}", text, source=shard.source), ledger):
            yield doc
