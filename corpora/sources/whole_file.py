"""Base of sources whose files are written by programs for people: a damaged file costs itself and no other."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

from xling.core.errors import UserError
from xling.corpora.sources.jsonl import count_refused
from xling.corpora.sources.source import LocalFiles, Shard, admit, paragraphs
from xling.text.document import Document, Ledger
from xling.text.files.around_text import body_text

DAMAGED = "damaged file"


class WholeFiles(LocalFiles, ABC):
    """One document or several a file; a file that cannot be read is dropped, and the first ones are named."""

    @abstractmethod
    def texts(self, path: Path, ledger: Ledger) -> Iterator[tuple[str, str]]:
        """Yield the texts of a file, each with "" or the reason why it is dropped.

        Raises:
            UserError: the file is damaged.
        """

    def read(self, shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield the documents of one file."""
        try:
            for number, (text, reason) in enumerate(self.texts(self.context.local(shard), ledger)):
                own = body_text(paragraphs(text), ledger)
                doc = Document(f"{shard.name}/{number}", own, source=shard.source)
                if kept := admit(doc, ledger, reason):
                    yield kept
        except UserError as error:
            ledger.count_event(f"{DAMAGED}: {error.given[:200]}")
            count_refused(shard.name, shard.source, DAMAGED, ledger)
