"""``cc100:``: the published CC-100 file of the language, over HTTPS, from a mirror or from a directory."""

from collections.abc import Iterator
from pathlib import Path

from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.sources.source import SOURCES, Context, Shard, Source, is_url
from xling.corpora.sources.text import read_text
from xling.text.document import Document, Ledger


@SOURCES.register("cc100")
class CC100(Source):
    """One xz file per language, in the format of `xling.corpora.sources.text`.

    ``cc100:NAME`` selects another file.
    """

    licence = "Common Crawl terms of use (CC-100 claims no rights of its own)"
    bare = True
    publisher = "https://data.statmt.org/cc-100/"

    def __init__(self, uri: str, rest: str, context: Context) -> None:
        super().__init__(uri, rest, context)
        if not rest:
            context.check_one_lang(uri)
        self._name = rest or languages.code_for(context.lang, "cc100")

    def shards(self) -> list[Shard]:
        """Return one shard: the language's file."""
        location = self.context.resolve("cc100", f"{self._name}.txt.xz")
        if is_url(location):
            return [Shard(f"cc100.{self._name}", location, self.uri)]
        if not Path(location).is_file():
            raise UserError(
                f"no file at {location}", fix="give the folder of the CC-100 files as base_urls.cc100"
            )
        return [Shard(f"cc100.{self._name}", location, self.uri, Path(location).stat().st_size)]

    def read(self, shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield the documents of the file."""
        return read_text(self.context, shard, ledger)
