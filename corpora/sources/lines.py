"""Source ``lines:GLOB``: one document per line."""

from __future__ import annotations

from collections.abc import Iterator

from xling.corpora.sources.source import SOURCES, LocalFiles, Shard, SourceExample
from xling.corpora.sources.text import documents_of_blocks
from xling.text.document import Document, Ledger
from xling.text.files.compressed import read_lines


@SOURCES.register("lines")
class Lines(LocalFiles):
    """Text with unrelated lines, such as isolated sentences."""

    @classmethod
    def example(cls) -> SourceExample:
        """Return an example of two lines and an empty one."""
        content = b"Habari za leo\n\n Mji mkuu \n"
        return SourceExample("{folder}/a.txt", ("Habari za leo", "Mji mkuu"), {"a.txt": content})

    def read(self, shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield one document a line."""
        blocks = ([line] for line in read_lines(self.context.local(shard), ledger) if line.strip())
        return documents_of_blocks(blocks, shard, ledger)
