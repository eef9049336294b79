"""``cc100:``: the published CC-100 file of the language, over HTTPS, from a mirror or from a directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.sources.source import Context, Shard, is_url
from xling.corpora.sources.text import read_text
from xling.text.document import Document, Ledger


class CC100:
    """One xz file a language, in the format of `xling.corpora.sources.text`; ``cc100:NAME`` picks another file."""

    licence = "Common Crawl terms of use (CC-100 claims no rights of its own)"

    def __init__(self, uri: str, rest: str, context: Context) -> None:
        self.uri, self._context = uri, context
        self._name = rest or languages.code_for(context.lang, "cc100")

    def shards(self) -> list[Shard]:
        """One shard: the language's file."""
        location = self._context.resolve("cc100", f"{self._name}.txt.xz")
        if is_url(location):
            return [Shard(f"cc100.{self._name}", location, self.uri)]
        if not Path(location).is_file():
            raise UserError(f"no {location}", fix="give the folder of the CC-100 files as base_urls.cc100")
        return [Shard(f"cc100.{self._name}", location, self.uri, Path(location).stat().st_size)]

    def read(self, shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield the documents of the file."""
        return read_text(self._context, shard, ledger)
