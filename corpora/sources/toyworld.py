"""Source ``toyworld``: synthetic documents of `xling.corpora.toyworld`; ``toyworld:NUM`` sets their number."""

from collections.abc import Iterator

from xling.core.errors import UserError, unknown
from xling.corpora.sources.source import SOURCES, Context, Shard, Source, admit, paragraphs
from xling.corpora.toyworld import LANGS, mono
from xling.text.document import Document, Ledger

_NUM_DOCS = 4000


@SOURCES.register("toyworld")
class Toyworld(Source):
    """Seeded text of a closed world, for trying things out; never a measure of quality."""

    licence = "synthetic, MIT"
    bare = True

    def __init__(self, uri: str, rest: str, context: Context) -> None:
        if rest and not rest.isdecimal():
            raise UserError(
                f"source {uri!r}: {rest!r} is not a number", "toyworld or toyworld:NUMBER_OF_DOCUMENTS"
            )
        if context.lang not in LANGS:
            raise unknown("toyworld language", context.lang, LANGS)
        super().__init__(uri, rest, context)
        self._num_docs = int(rest or _NUM_DOCS)

    def shards(self) -> list[Shard]:
        """Return one shard."""
        return [Shard(f"toyworld.{self.context.lang}", self.uri, self.uri)]

    def read(self, shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield the documents; each depends on its number and the seed alone."""
        for number, text in enumerate(mono(self.context.lang, self._num_docs, self.context.seed)):
            doc = Document(f"{shard.name}/{number}", paragraphs(text), source=shard.source)
            if kept := admit(doc, ledger):
                yield kept
