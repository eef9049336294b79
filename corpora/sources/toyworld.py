"""``toyworld``: synthetic documents of `corpora.toyworld`; ``toyworld:NUM`` says how many."""

from __future__ import annotations

from collections.abc import Iterator

from corpora.document import Document, Ledger
from corpora.sources.source import Context, Shard, admit, paragraphs
from corpora.toyworld import LANGS, mono
from xling.core.errors import UserError, unknown

_NUM_DOCS = 4000
_DOCS_PER_SHARD = 1000


class Toyworld:
    """Seeded text of a closed world, for trying things out; never a measure of quality."""

    licence = "synthetic, MIT"

    def __init__(self, uri: str, rest: str, context: Context) -> None:
        if rest and not rest.isdecimal():
            raise UserError(f"{uri!r}", "toyworld or toyworld:NUMBER_OF_DOCUMENTS")
        if context.lang not in LANGS:
            raise unknown("toyworld language", context.lang, LANGS)
        self.uri, self._context = uri, context
        self._num_docs = int(rest or _NUM_DOCS)

    def shards(self) -> list[Shard]:
        """A thousand documents a shard."""
        starts = range(0, self._num_docs, _DOCS_PER_SHARD)
        return [
            Shard(f"toyworld.{self._context.lang}.{i}", str(start), self.uri)
            for i, start in enumerate(starts)
        ]

    def read(self, shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield the documents of one shard; each depends on its number and the seed alone."""
        start = int(shard.location)
        stop = min(start + _DOCS_PER_SHARD, self._num_docs)
        for number, text in enumerate(mono(self._context.lang, stop, self._context.seed)):
            if number < start:
                continue
            doc = Document(f"{shard.name}/{number - start}", paragraphs(text), source=shard.source)
            if kept := admit(doc, ledger):
                yield kept
