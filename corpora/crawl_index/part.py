"""One Parquet file of Common Crawl's columnar index: rows of a language, and where their pages lie.

First the footer, the language column and the page indexes of the row groups with matches (`find`); then of each chosen
row group the other columns, or only the pages of the matching rows (`rows_of`). Both are kept on the disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from xling.array_types import Int8, Int64
from xling.core.errors import UserError
from xling.core.output import sealed
from xling.corpora.common.ranges import DamagedAnswerError, MissingError, RangeReader
from xling.corpora.crawl_index.joined import Piece, joined, read_pieces
from xling.corpora.crawl_index.parquet_pages import MAGIC, MAX_FOOTER_BYTES, TAIL_BYTES, Chunk, Footer, Pages
from xling.text.files.compressed import raise_if_of_machine

LANGUAGES = "content_languages"
DIGEST, HOST = "content_digest", "url_host_name"
SCHEMA: dict[str, Any] = {
    "warc_filename": pl.String,
    "warc_record_offset": pl.Int64,
    "warc_record_length": pl.Int64,
    "content_mime_detected": pl.String,
    "fetch_status": pl.Int64,
    DIGEST: pl.String,
    HOST: pl.String,
    "rank": pl.Int8,
}
"""Columns of the rows that match; ``rank`` is 0 where the language is the page's main one."""
_NEEDED = ("warc_filename", "warc_record_offset", "warc_record_length")
_GUESSED_FOOTER = 1 << 16
DAMAGE = (ValueError, OSError, MemoryError, pa.ArrowException, MissingError, DamagedAnswerError)


@dataclass(frozen=True)
class Wanted:
    """Rows that are wanted.

    Attributes:
        codes: their codes of languages, as in the column.
        unknown: whether rows without a language are wanted too, and the codes are only those of neighbours.
    """

    codes: tuple[str, ...]
    unknown: bool = False

    def ranks(self, values: pa.Array) -> Int8[np.ndarray, " values"]:
        """Return for each row the place of the first wanted language in its list; -1 without one."""
        if pa.types.is_null(values.type):
            return np.full(len(values), self._rank(None), np.int8)
        coded = values.cast(pa.string()).dictionary_encode(null_encoding="encode")
        ranks = np.array([self._rank(value) for value in coded.dictionary.to_pylist()] or [-1], np.int8)
        return ranks[coded.indices.to_numpy(zero_copy_only=False)]

    def _rank(self, value: str | None) -> int:
        if not value:
            return 1 if self.unknown else -1
        places = [place for place, code in enumerate(value.split(",")) if code.strip() in self.codes]
        return min(places[0], 9) if places else -1


@dataclass(frozen=True)
class Found:
    """Matches that the language column of a part names.

    Attributes:
        num_bytes: length of the part.
        footer_bytes: footer of the part; empty where it is damaged.
        groups: row group of each match, ascending, int64 (matches).
        rows: its row in the row group, int64 (matches).
        ranks: as of `Wanted.ranks`, int8 (matches).
        page_indexes: ``group.column`` -> the bytes of its page index.
        fault: why it has none, where the part cannot be read; such a part is not kept and is asked for again.
    """

    location: str
    num_bytes: int
    footer_bytes: bytes
    groups: Int64[np.ndarray, " matches"]
    rows: Int64[np.ndarray, " matches"]
    ranks: Int8[np.ndarray, " matches"]
    page_indexes: dict[str, bytes]
    fault: str = ""

    @cached_property
    def footer(self) -> Footer:
        """The footer; raises ValueError where it is damaged."""
        return Footer(self.footer_bytes, self.num_bytes)

    def matches(self) -> dict[int, int]:
        """Return row group -> number of matching rows."""
        numbers, counts = np.unique(self.groups, return_counts=True)
        return dict(zip(numbers.tolist(), counts.tolist(), strict=True))

    def rows_in(self, group: int) -> Int64[np.ndarray, " rows"]:
        """Return the matching rows of a row group."""
        return self.rows[self.groups == group]

    def needed(self, group: int, column: str) -> tuple[Chunk, Pages | None, list[Piece]]:
        """Return a column of a row group, its pages if they are known, and the pieces of the file to read.

        Raises:
            ValueError: the metadata is damaged.
        """
        chunk = self.footer.chunk(group, column)
        index = self.page_indexes.get(f"{group}.{column}")
        if index is None:
            return chunk, None, [(chunk.start, chunk.size)]
        pages = chunk.pages(index)
        numbers = pages.of_rows(self.rows_in(group))
        pieces = [(int(pages.starts[i]), int(pages.sizes[i])) for i in numbers]
        head = [(chunk.start, chunk.dictionary_bytes)] if chunk.dictionary_bytes else []
        return chunk, pages, [*head, *pieces]

    def cost(self, group: int, columns: tuple[str, ...]) -> int:
        """Return the bytes that reading ``columns`` of the matching rows of a row group takes."""
        pieces = [piece for column in columns for piece in self.needed(group, column)[2]]
        return sum(request.size for request in joined(pieces))

    def columns(self, with_digest: bool, with_host: bool) -> tuple[str, ...]:
        """Return the columns to read, of those that the part has."""
        left_out = {"rank", *(() if with_digest else (DIGEST,)), *(() if with_host else (HOST,))}
        return tuple(name for name in SCHEMA if name in self.footer.columns and name not in left_out)


class PartReader:
    """Reads parts of the index.

    Args:
        folder: keeps what was read.
    """

    def __init__(self, reader: RangeReader, folder: Path, wanted: Wanted) -> None:
        self._reader, self._folder, self._wanted = reader, folder, wanted

    def find(self, name: str, location: str) -> Found:
        """Return the matches of a part, and keep them.

        Raises:
            SpentError: a limit is reached.
            UserError: the index has no language column; the server refuses, cannot be reached, or answers no ranges.
        """
        path = self._folder / f"{name}.npz"
        if sealed.is_good(path):
            with np.load(path) as saved:
                return _from_arrays(location, dict(saved))
        try:
            hits = self._find(location)
        except DAMAGE as error:  # a part of many: its rows are lost, and that is said
            raise_if_of_machine(error)
            empty = np.zeros(0, np.int64)
            fault = f"{location}: {error if isinstance(error, MissingError) else 'damaged'}"
            return Found(location, 0, b"", empty, empty, empty.astype(np.int8), {}, fault)
        with sealed.writing(path) as file:
            np.savez(file, **_to_arrays(hits))
        return hits

    def _find(self, location: str) -> Found:
        footer_bytes, num_bytes = self._footer(location)
        footer = Footer(footer_bytes, num_bytes)
        if missing := [name for name in (LANGUAGES, *_NEEDED) if name not in footer.columns]:
            raise UserError(
                f"{location} has no column {', '.join(missing)}",
                "a dump from CC-MAIN-2018-39 on, whose index names languages",
                "give such a dump",
            )
        chunks = [footer.chunk(group, LANGUAGES) for group in range(len(footer.num_rows))]
        groups, rows, ranks = [], [], []
        for group, chunk in enumerate(chunks):  # one at a time: a column is up to some megabytes
            (data,) = read_pieces(self._reader, location, [(chunk.start, chunk.size)])
            rank = self._wanted.ranks(chunk.values(data, chunk.num_rows))
            matches = np.flatnonzero(rank >= 0)
            groups.append(np.full(len(matches), group))
            rows.append(matches)
            ranks.append(rank[matches])
        hits = Found(
            location,
            num_bytes,
            footer_bytes,
            np.concatenate([np.zeros(0, np.int64), *groups]).astype(np.int64),
            np.concatenate([np.zeros(0, np.int64), *rows]).astype(np.int64),
            np.concatenate([np.zeros(0, np.int8), *ranks]).astype(np.int8),
            {},
        )
        hits.page_indexes.update(self._page_indexes(hits))
        return hits

    def _footer(self, location: str) -> tuple[bytes, int]:
        """Return footer and length of a file; its length comes with its first bytes."""
        _, num_bytes = self._reader.read(location, 0, len(MAGIC))
        size = min(num_bytes, _GUESSED_FOOTER)
        tail, _ = self._reader.read(location, num_bytes - size, size)
        length = int.from_bytes(tail[-TAIL_BYTES:-4], "little")
        if tail[-4:] != MAGIC or not 0 < length <= min(num_bytes - TAIL_BYTES, MAX_FOOTER_BYTES):
            raise ValueError("no Parquet file")
        if length + TAIL_BYTES > size:
            rest = length + TAIL_BYTES - size
            tail = self._reader.read(location, num_bytes - size - rest, rest)[0] + tail
        return tail[-TAIL_BYTES - length : -TAIL_BYTES], num_bytes

    def _page_indexes(self, hits: Found) -> dict[str, bytes]:
        """Return the page indexes of the row groups with matches, of the columns with one."""
        columns = hits.columns(True, True)
        chunks = {f"{g}.{name}": hits.footer.chunk(g, name) for g in hits.matches() for name in columns}
        indexed = {key: chunk for key, chunk in chunks.items() if chunk.index_start and chunk.index_size}
        pieces = [(chunk.index_start, chunk.index_size) for chunk in indexed.values()]
        return dict(zip(indexed, read_pieces(self._reader, hits.location, pieces), strict=True))

    def rows_of(self, name: str, hits: Found, group: int, columns: tuple[str, ...]) -> pl.DataFrame:
        """Return the matching rows of a row group by `SCHEMA`, and keep them; columns not read are null.

        Raises:
            SpentError: a limit is reached.
            UserError: the server refuses, cannot be reached, or answers no ranges.
            DAMAGE: the file is gone, or its bytes are damaged.
        """
        path = self._folder / f"{name}.{group:05d}.{'-'.join(_short(c) for c in columns)}.parquet"
        if sealed.is_good(path):
            return pl.read_parquet(sealed.content(path))
        needed = {column: hits.needed(group, column) for column in columns}
        pieces = [piece for _, _, pieces in needed.values() for piece in pieces]
        read = iter(read_pieces(self._reader, hits.location, pieces))
        rows = hits.rows_in(group)
        values: dict[str, Any] = {"rank": hits.ranks[hits.groups == group]}
        for column, (chunk, pages, of_column) in needed.items():
            data = b"".join(next(read) for _ in of_column)
            there = np.arange(chunk.num_rows) if pages is None else pages.rows(pages.of_rows(rows))
            array = chunk.values(data, len(there)).take(pa.array(np.searchsorted(there, rows)))
            values[column] = pl.from_arrow(array)
        empty = [pl.lit(None, kind).alias(column) for column, kind in SCHEMA.items() if column not in values]
        table = pl.DataFrame(values).with_columns(empty).select(pl.col(c).cast(k) for c, k in SCHEMA.items())
        with sealed.writing(path) as file:
            table.write_parquet(file)
        return table


def refuse_if_none(asked: Sequence[Found]) -> None:
    """Raise UserError if no part of the index could be read: the dump or the server is another than was meant."""
    if asked and all(each.fault for each in asked):
        raise UserError(
            f"{asked[0].fault}; none of {len(asked)} parts of the index can be read",
            fix="check the dump and base_urls.cc, or run the command again",
        )


def _short(column: str) -> str:
    return "".join(word[0] for word in column.split("_"))


def _to_arrays(hits: Found) -> dict[str, Any]:
    arrays: dict[str, Any] = {f"page.{key}": _octets(data) for key, data in hits.page_indexes.items()}
    arrays |= {"groups": hits.groups, "rows": hits.rows.astype(np.uint32), "ranks": hits.ranks}
    return arrays | {"footer": _octets(hits.footer_bytes), "num_bytes": np.array(hits.num_bytes)}


def _octets(data: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


def _from_arrays(location: str, arrays: dict[str, Any]) -> Found:
    indexes = {key[5:]: data.tobytes() for key, data in arrays.items() if key.startswith("page.")}
    rows = arrays["rows"].astype(np.int64)
    footer, num_bytes = arrays["footer"].tobytes(), int(arrays["num_bytes"])
    return Found(location, num_bytes, footer, arrays["groups"], rows, arrays["ranks"], indexes)
