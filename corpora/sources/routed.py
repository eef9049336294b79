"""Source ``routed:FOLDER``: one language of the output of `xling.corpora.mono.route`.

``routed:FOLDER#again``, and builds of several languages, read the documents of all its languages without what they
were identified as: after a change of the model of identification the sources need not be read again.
"""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.digests import identity
from xling.core.output.parts import read_json
from xling.corpora.common.shards import to_document
from xling.corpora.sources.source import SOURCES, STAGE, Context, Shard, Source
from xling.text.document import Document, Ledger

AGAIN = "again"
"""Behind ``#``: read all documents, to be identified again."""
INDEX_FILE, PARTS_FOLDER, PLAN_FILE = "index.json", "parts", "plan.json"
_BATCH_ROWS = 256
_ALL = "all"
_OF_LANG = ("lang_score", "langs")  # what identification has written
_CHARS_PER_BYTE = 2  # bytes per stored character, roughly; used to group parts


@SOURCES.register("routed")
class Routed(Source):
    """Documents of one language, of which only the row groups are read, or of all."""

    licence = "as the sources' own"

    def __init__(self, uri: str, rest: str, context: Context) -> None:
        super().__init__(uri, rest, context)
        folder, sign, word = rest.partition("#")
        if word != (AGAIN if sign else ""):
            raise UserError(f"{uri}: {word!r} behind the folder", f"nothing or #{AGAIN}")
        self._folder, self._lang = Path(folder), context.lang
        self.again = bool(sign) or "," in context.lang or context.lang == _ALL
        if not (self._folder / INDEX_FILE).is_file():
            raise UserError(
                f"{uri}: no routed crawl at {folder!r}", fix="build it with lang=sw,eu or lang=all"
            )

    def _index(self) -> dict[str, Any]:
        """Return part -> its row groups to read, characters and digest."""
        index: dict[str, Any] = self._read_json(INDEX_FILE)
        if not self.again:
            entry: dict[str, Any] = index.get(self._lang, {})
            return entry
        parts: dict[str, Any] = {}
        for of_lang in index.values():
            for part, entry in of_lang.items():
                whole = parts.setdefault(part, entry | {"groups": [], "characters": 0})
                whole["groups"] = sorted(whole["groups"] + entry["groups"])
                whole["characters"] += entry["characters"]
        return parts

    def _read_json(self, name: str) -> dict[str, Any]:
        """Return the values in a file of the folder, which is read again only if it has changed."""
        path = self._folder / name
        return _cached_json(path, identity(path))

    def settings(self) -> dict[str, dict[str, Any]]:
        """Return the settings of the stages with which the documents were routed."""
        settings: dict[str, dict[str, Any]] = self._read_json(manifest.FILE_NAME)["config"]["settings"]
        return settings

    def origins(self) -> list[dict[str, Any]]:
        """Return the sources that were read, as recorded in a build's plan."""
        sources: list[dict[str, Any]] = self._read_json(PLAN_FILE)["sources"]
        return sources

    def shards(self) -> list[Shard]:
        """Return one shard per routed part that contains the language.

        Raises:
            UserError: no part does.
        """
        index = self._index()
        if not index:
            there = sorted(self._read_json(INDEX_FILE))
            raise UserError(f"{self.uri} holds no document in {self._lang}", ", ".join(there))
        scopes = {
            f"{part:05d}": number
            for number, scope in enumerate(self._read_json(PLAN_FILE)["scopes"])
            for part in range(scope["first_part"], scope["first_part"] + scope["num_parts"])
        }
        return [
            Shard(
                f"routed-{part}",
                str(self._folder / PARTS_FOLDER / f"{part}.parquet"),
                self.uri,
                max(1, entry["characters"] // _CHARS_PER_BYTE),
                f"sha256:{entry['sha256']}",
                scopes[part],
            )
            for part, entry in sorted(index.items())
        ]

    def read(self, shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield the documents of the language in one part, as they were identified."""
        groups = self._index()[Path(shard.location).stem]["groups"]
        path = Path(shard.location)
        with pq.ParquetFile(path, metadata=_cached_footer(path, identity(path))) as file:
            for batch in file.iter_batches(_BATCH_ROWS, row_groups=groups):
                for row in batch.to_pylist():
                    doc = to_document(row)
                    doc.source = doc.source or self.uri
                    if self.again:
                        doc.lang = ""
                        doc.meta = {name: value for name, value in doc.meta.items() if name not in _OF_LANG}
                    ledger.count_seen(STAGE, doc)
                    yield doc


@lru_cache(maxsize=4)
def _cached_json(path: Path, stamp: tuple[int, ...]) -> dict[str, Any]:
    """Return the values in a file. Every part of every language reads it, so it is cached."""
    values: dict[str, Any] = read_json(path)
    return values


@lru_cache(maxsize=32)
def _cached_footer(path: Path, stamp: tuple[int, ...]) -> pq.FileMetaData:
    """Return the metadata of a routed file. Every language reads the same file, so it is cached."""
    return pq.read_metadata(path)
