"""Source ``text:GLOB``: one paragraph per line, a blank line between documents."""

from __future__ import annotations

from collections.abc import Iterator

from xling.corpora.sources.source import (
    SOURCES,
    Context,
    LocalFiles,
    Shard,
    SourceExample,
    admit,
    decode,
    paragraphs,
)
from xling.text.document import Document, Ledger
from xling.text.files.compressed import read_lines

MAX_DOC_BYTES = 1 << 20


@SOURCES.register("text")
class Text(LocalFiles):
    """Text in CC-100's format, plain or compressed.

    A text without blank lines for a megabyte, or for ``max_chars`` bytes, is cut before the next line, so that memory
    stays bounded and no such text is too long.
    """

    @classmethod
    def example(cls) -> SourceExample:
        """Return an example of two documents."""
        texts = ("Habari za leo\nMji mkuu", "Mvua ilinyesha")
        return SourceExample("{folder}/a.txt", texts, {"a.txt": "\n\n".join(texts).encode()})

    def read(self, shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield one document a block of lines."""
        return read_text(self.context, shard, ledger)


def read_text(context: Context, shard: Shard, ledger: Ledger) -> Iterator[Document]:
    """Yield the documents of one file in CC-100's format, fetched first if it is remote."""
    max_bytes = min(MAX_DOC_BYTES, context.max_chars)
    return documents_of_blocks(
        _blocks(read_lines(context.local(shard), ledger), max_bytes, ledger), shard, ledger
    )


def _blocks(rows: Iterator[bytes], max_bytes: int, ledger: Ledger) -> Iterator[list[bytes]]:
    """Yield the lines between blank lines, at most ``max_bytes`` bytes at once if no single line is longer."""
    block: list[bytes] = []
    size = 0
    for row in rows:
        is_text = bool(row.strip())
        is_full = is_text and size + len(row) > max_bytes
        if block and (is_full or not is_text):
            if is_full:
                ledger.count_event("long text without a blank line, cut")
            yield block
            block, size = [], 0
        if is_text:
            block.append(row)
            size += len(row) + 1
    if block:
        yield block


def documents_of_blocks(blocks: Iterator[list[bytes]], shard: Shard, ledger: Ledger) -> Iterator[Document]:
    """Yield a document for each block of lines that holds text."""
    for number, block in enumerate(blocks):
        text = paragraphs(decode(b"\n".join(block), ledger).removeprefix("\ufeff"))
        if doc := admit(Document(f"{shard.name}/{number}", text, source=shard.source), ledger):
            yield doc
