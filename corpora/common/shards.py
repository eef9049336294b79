"""Corpus shards: documents in zstd-compressed Parquet, one schema from the first part to the published corpus.

Readable with ``datasets.load_dataset("parquet", data_files=...)`` and ``polars.scan_parquet``; ``docs/corpora.md``
documents the columns. The same documents give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.text.document import Document

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("url", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("date", pa.string(), nullable=False),
        pa.field("lang", pa.string(), nullable=False),
        pa.field("lang_score", pa.float32()),
        pa.field("perplexity", pa.float32()),
        pa.field("bucket", pa.string(), nullable=False),
        pa.field("meta", pa.string(), nullable=False),
    ]
)
REJECT_SCHEMA = pa.schema([(name, pa.string()) for name in ("id", "stage", "reason", "url", "lang", "text")])

FORM = "form"
"""Key of `Document.form` in the column ``meta``."""
_UNIQUE_COLUMNS = ("id", "text", "url")
_OWN_COLUMNS = ("lang_score", "perplexity", "bucket")
_GROUP_CHARS = 1 << 23
_GROUP_ROWS = 1 << 14
_BATCH_ROWS = 256


def open_table(path: Path, schema: pa.Schema, temporary: bool) -> pq.ParquetWriter:
    """Return a writer of tables; ``temporary`` as in `TableWriter`."""
    if not temporary:
        return pq.ParquetWriter(path, schema, compression="zstd", compression_level=3)
    recurring = [name for name in schema.names if name not in _UNIQUE_COLUMNS]
    return pq.ParquetWriter(path, schema, compression="zstd", compression_level=1, use_dictionary=recurring)


class TableWriter:
    """Writer of rows into one Parquet file in bounded memory; a context manager.

    Args:
        path: the file to make; its folder exists.
        temporary: whether only a later phase reads the file: it takes less time and a tenth more space.
    """

    def __init__(self, path: Path, schema: pa.Schema, temporary: bool = False) -> None:
        self._schema, self._rows, self._chars = schema, [], 0  # type: tuple[Any, list[dict[str, Any]], int]
        self._file = open_table(path, schema, temporary)

    def add(self, row: dict[str, Any]) -> None:
        """Add one row; its ``text`` counts toward the size of a row group."""
        self._rows.append(row)
        self._chars += len(row["text"])
        if self._chars >= _GROUP_CHARS or len(self._rows) >= _GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._file.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
        self._rows, self._chars = [], 0

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._flush()
        self._file.close()


def to_row(doc: Document) -> dict[str, Any]:
    """Return ``doc`` as a row of `SCHEMA`."""
    meta = {key: value for key, value in doc.meta.items() if key not in _OWN_COLUMNS}
    if doc.form:
        meta[FORM] = doc.form
    return {
        "id": doc.id,
        "text": doc.text,
        "url": doc.url,
        "source": doc.source,
        "date": doc.date,
        "lang": doc.lang,
        "lang_score": doc.meta.get("lang_score"),
        "perplexity": doc.meta.get("perplexity"),
        "bucket": doc.meta.get("bucket", ""),
        "meta": json.dumps(meta, ensure_ascii=False, sort_keys=True) if meta else "",
    }


def to_document(row: dict[str, Any]) -> Document:
    """Return the document in a row of `SCHEMA`."""
    meta = json.loads(row["meta"]) if row["meta"] else {}
    form = meta.pop(FORM, "")
    meta |= {key: row[key] for key in _OWN_COLUMNS if row[key] not in (None, "")}
    return Document(row["id"], row["text"], row["url"], row["source"], row["date"], row["lang"], meta, form)


def write_documents(path: Path, docs: Iterable[Document]) -> None:
    """Write ``docs`` to one file."""
    with TableWriter(path, SCHEMA) as table:
        for doc in docs:
            table.add(to_row(doc))


def read_documents(path: Path) -> Iterator[Document]:
    """Yield the documents of one file in order, a few hundred in memory at a time."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_BATCH_ROWS):
            yield from map(to_document, batch.to_pylist())


def source_uris(path: Path) -> list[str]:
    """Return the different source URIs of the documents of one file, without reading their texts."""
    uris: list[str] = pq.read_table(path, columns=["source"])["source"].unique().to_pylist()
    return uris


def corpus_shards(corpus: Path) -> list[Path]:
    """Return the Parquet shards of a published corpus, in order.

    Raises:
        UserError: there is no corpus, or it was changed since it was published.
    """
    manifest.check_as_published(corpus)
    shards = sorted((corpus / "shards").glob("*.parquet"))
    if not shards:
        raise UserError(f"no corpus in {corpus}", "a folder that xling corpus mono made", "build it first")
    return shards


def read_corpus(corpus: Path) -> Iterator[Document]:
    """Yield every document of a published corpus in order.

    Raises:
        UserError: there is no corpus.
    """
    for path in corpus_shards(corpus):
        yield from read_documents(path)
