"""Columns of a Parquet file that lies elsewhere: which bytes hold them, and their values from these bytes alone.

A column chunk, or some of its pages, becomes a Parquet file of one column in memory: its bytes as they are, and a
footer that says where they lie now. pyarrow reads that. Source: apache/parquet-format, ``parquet.thrift``.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from xling.array_types import Int64
from xling.text.files import thrift
from xling.text.files.parquet_pages import MAX_LISTS_BYTES, most_bytes
from xling.text.files.thrift import Struct, get

MAGIC = b"PAR1"
TAIL_BYTES = 8
"""Length of the footer and `MAGIC` at the end of a file."""
MAX_FOOTER_BYTES = 1 << 26
_REPEATED = 2
P = ParamSpec("P")
T = TypeVar("T")


def _damage_is_told(function: Callable[P, T]) -> Callable[P, T]:
    """Make a ValueError of what happens where a field of the metadata is of another type than it should be."""

    @functools.wraps(function)
    def told(*args: P.args, **named: P.kwargs) -> T:
        try:
            return function(*args, **named)
        except (AttributeError, IndexError, KeyError, OverflowError, TypeError) as error:
            raise ValueError(f"damaged metadata: {error}") from None

    return told


@dataclass(frozen=True)
class Pages:
    """Pages of a column chunk.

    Attributes:
        starts: position of each in the file, int64 (pages).
        sizes: bytes of each, int64 (pages).
        first_rows: number of its first row in the row group, int64 (pages).
        num_rows: rows of the row group.
    """

    starts: Int64[np.ndarray, " pages"]
    sizes: Int64[np.ndarray, " pages"]
    first_rows: Int64[np.ndarray, " pages"]
    num_rows: int

    def of_rows(self, rows: Int64[np.ndarray, " rows"]) -> Int64[np.ndarray, " chosen"]:
        """Return the numbers of the pages that hold ``rows``, ascending."""
        return np.unique(np.searchsorted(self.first_rows, rows, side="right") - 1)

    def rows(self, numbers: Int64[np.ndarray, " chosen"]) -> Int64[np.ndarray, " rows"]:
        """Return the rows in the pages ``numbers``, in order."""
        ends = np.append(self.first_rows[1:], self.num_rows)
        return np.concatenate([np.arange(self.first_rows[i], ends[i]) for i in numbers])


@dataclass(frozen=True)
class Chunk:
    """A column of a row group.

    Attributes:
        start: position of its first byte in the file.
        size: its bytes.
        dictionary_bytes: of these, the ones before its first page of values.
        index_start: position of its page index; 0 for none.
        index_size: bytes of the page index.
        num_rows: rows of the row group.
        schema: its element of the schema.
    """

    start: int
    size: int
    dictionary_bytes: int
    index_start: int
    index_size: int
    num_rows: int
    schema: Struct
    meta: Struct

    @_damage_is_told
    def pages(self, index: bytes) -> Pages:
        """Return its pages, from the bytes of its page index.

        Raises:
            ValueError: it is damaged.
        """
        places = get(thrift.read_struct(index)[0], 1, [])
        table = np.array([[get(place, i, 0) for i in (1, 2, 3)] for place in places], np.int64).reshape(-1, 3)
        starts, sizes, first_rows = table.T
        if (
            not len(places)
            or first_rows[0]
            or np.any(np.diff(first_rows) <= 0)
            or first_rows[-1] >= self.num_rows
            or np.any(sizes <= 0)
            or np.any(starts < self.start)
            or np.any(starts + sizes > self.start + self.size)
        ):
            raise ValueError("the page index does not fit to its column")
        return Pages(starts, sizes, first_rows, self.num_rows)

    def values(self, data: bytes, num_rows: int) -> pa.Array:
        """Return the values in ``data``: the dictionary, if there is one, and pages of ``num_rows`` rows.

        Raises:
            ValueError, OSError: damaged bytes, or other rows.
        """
        names = (1, 2, 3, 4, 6)  # type, encodings, path, codec, unpacked size
        meta: Struct = {i: self.meta[i] for i in names if i in self.meta}
        meta[5] = (thrift.I64, num_rows)
        meta[7] = (thrift.I64, len(data))
        meta[9] = (thrift.I64, len(MAGIC) + self.dictionary_bytes)
        if self.dictionary_bytes:
            meta[11] = (thrift.I64, len(MAGIC))
        root: Struct = {4: (thrift.BINARY, b"schema"), 5: (thrift.I32, 1)}
        column: Struct = {2: (thrift.I64, len(MAGIC)), 3: (thrift.STRUCT, meta)}
        group: Struct = {
            1: (thrift.LIST, (thrift.STRUCT, [column])),
            2: (thrift.I64, len(data)),
            3: (thrift.I64, num_rows),
        }
        footer = thrift.written(
            {
                1: (thrift.I32, 2),
                2: (thrift.LIST, (thrift.STRUCT, [root, self.schema])),
                3: (thrift.I64, num_rows),
                4: (thrift.LIST, (thrift.STRUCT, [group])),
            }
        )
        whole = io.BytesIO(MAGIC + data + footer + len(footer).to_bytes(4, "little") + MAGIC)
        most_bytes(whole, (len(MAGIC), len(data), num_rows), 1)  # no page is too large
        name = get(self.schema, 4).decode()
        cells = pq.ParquetFile(whole, read_dictionary=[name]).read().column(0)
        if pa.types.is_dictionary(cells.type):  # a long value may stand in every row
            lengths = (pc.sum(pc.binary_length(each.dictionary).take(each.indices)) for each in cells.chunks)
            if sum(length.as_py() or 0 for length in lengths) > MAX_LISTS_BYTES:
                raise ValueError(f"more than {MAX_LISTS_BYTES:,} bytes in {num_rows:,} rows")
            cells = cells.cast(cells.type.value_type)
        values = cells.combine_chunks()
        if len(values) != num_rows:
            raise ValueError(f"{len(values)} rows where {num_rows} should be")
        return values


class Footer:
    """The footer of a Parquet file: its row groups, and where their columns lie.

    Args:
        data: its bytes, without its length and `MAGIC`.
        num_bytes: of the whole file.

    Raises:
        ValueError: it is damaged.
    """

    def __init__(self, data: bytes, num_bytes: int) -> None:
        self._num_bytes = num_bytes
        self._read(data)

    @_damage_is_told
    def _read(self, data: bytes) -> None:
        file = thrift.read_struct(data)[0]
        schema, self._groups = get(file, 2, []), get(file, 4, [])
        self._schema = {get(each, 4, b"").decode("utf-8", "replace"): each for each in schema[1:]}
        self.num_rows: Sequence[int] = [int(get(group, 3, 0)) for group in self._groups]
        """Rows of each row group."""

    @property
    def columns(self) -> frozenset[str]:
        """Names of all columns."""
        return frozenset(self._schema)

    @_damage_is_told
    def chunk(self, group: int, name: str) -> Chunk:
        """Return a column of a row group.

        Raises:
            ValueError: there is none, or it lies outside of the file.
        """
        path = [name.encode()]
        for column in get(self._groups[group], 1, []):
            meta = get(column, 3)
            if meta is None or get(meta, 3) != path:
                continue
            schema, data_at, dictionary_at = self._schema[name], get(meta, 9, 0), get(meta, 11, 0)
            start = dictionary_at if 0 < dictionary_at < data_at else data_at
            chunk = Chunk(
                start=start,
                size=get(meta, 7, 0),
                dictionary_bytes=data_at - start,
                index_start=get(column, 4, 0),
                index_size=get(column, 5, 0),
                num_rows=self.num_rows[group],
                schema=schema,
                meta=meta,
            )
            inside = chunk.start >= len(MAGIC) and 0 < chunk.size <= self._num_bytes - chunk.start
            has_index = 0 <= chunk.index_start <= self._num_bytes - chunk.index_size and chunk.index_size >= 0
            if (
                not inside
                or not has_index
                or get(schema, 3) == _REPEATED
                or chunk.dictionary_bytes > chunk.size
            ):
                raise ValueError(f"column {name} lies outside of the file, or has several values a row")
            return chunk
        raise ValueError(f"no column {name}")
