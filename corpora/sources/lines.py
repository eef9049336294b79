"""Source ``lines:GLOB``: one document per line."""

from collections.abc import Iterator

from xling.corpora.sources.source import SOURCES, LocalFiles, Shard
from xling.corpora.sources.text import announced_lines, decoded_lines, documents_of
from xling.text.document import LONE, Document, Ledger


@SOURCES.register("lines")
class Lines(LocalFiles):
    """Text with unrelated lines, such as isolated sentences: no line is too short, and none is a paragraph."""

    def read(self, shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield one document a line."""
        lines = announced_lines(decoded_lines(self.context, shard, ledger), ledger)
        return documents_of(lines, shard, ledger, LONE)
