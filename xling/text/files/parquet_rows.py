"""Rows of Parquet files: only the wanted columns; a damaged cell or column costs no other."""

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from xling.core.errors import UserError
from xling.text.files.compressed import CHUNK_BYTES, MAX_LINE_BYTES, raise_if_of_machine
from xling.text.files.parquet_pages import MAX_PAGE_BYTES, most_bytes

DAMAGE = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError)
_BATCH_ROWS = 64
_NUMBER_BYTES, _PAGE_BYTES = 5, 1024
"""Of a row and of a page's head, where a column keeps each value once."""
_LONG_BYTES = 1 << 18
"""Of a value: shorter ones are unpacked, which takes a third of the time, and a batch of them 16 MiB."""
_FRAME_BYTES = 64
"""Of a cell, beside its text: where it begins, and whether it is there."""


class DamagedCell:
    """Stands for the value of a cell that cannot be read."""


class LongCell(DamagedCell):
    """Stands for the value of a cell that is over the limit."""


class LostCell(DamagedCell):
    """Stands for the value of a cell in a stretch of its column that cannot be read."""


def read_rows(
    path: Path, pick: Callable[[Sequence[str]], Sequence[str]], max_bytes: int = MAX_LINE_BYTES
) -> Iterator[dict[str, Any] | None]:
    """Yield a row as name -> value, strings and bytes decoded as UTF-8; None for a row that is all damaged.

    Damage in one column leaves the others; a page over `parquet_pages.MAX_PAGE_BYTES` is damage. Of a group that says
    to have more rows than the file has bytes, no more are damaged.

    Args:
        pick: takes the names of all columns and returns those to read.
        max_bytes: of a cell; a larger one is a `LongCell`.

    Raises:
        DAMAGE: one of these errors when the file cannot be opened.
        UserError: several columns have a name that is wanted.
    """
    with pq.ParquetFile(path) as table:
        names, metadata = list(dict.fromkeys(pick(table.schema_arrow.names))), table.metadata
        if several := [name for name in names if table.schema_arrow.names.count(name) > 1]:
            raise UserError(
                f"{path} has several columns {', '.join(several)}",
                "one column of each name",
                "rename them, or name another one with #",
            )
    repeated = _repeated(metadata, names)
    with (
        path.open("rb") as file,
        pq.ParquetFile(path, metadata=metadata, buffer_size=CHUNK_BYTES) as table,
        pq.ParquetFile(path, metadata=metadata, buffer_size=CHUNK_BYTES, read_dictionary=repeated) as once,
    ):
        num_bytes = os.fstat(file.fileno()).st_size

        def rows_of(group: int, names: Sequence[str]) -> Iterator[dict[str, Any]]:
            of_names = [name for name in repeated if name in names]
            batch_rows = _batch_rows(file, metadata, group, names, of_names)
            reader = once if of_names and _has_long(once, group, of_names) else table
            for batch in reader.iter_batches(batch_rows, row_groups=[group], columns=names):
                cells = {name: _reader(batch.column(name), max_bytes) for name in names}
                for row in range(batch.num_rows):
                    yield {name: read(row) for name, read in cells.items()}

        for group in range(table.num_row_groups):
            num_rows, num_read = metadata.row_group(group).num_rows, 0
            try:
                for row in rows_of(group, names):
                    yield row
                    num_read += 1
            except DAMAGE as error:
                raise_if_of_machine(error)
                apart = zip(*(_cells_or_lost(rows_of(group, [name]), name) for name in names), strict=True)
                for cells in itertools.islice(apart, num_read, min(num_rows, num_read + num_bytes)):
                    is_lost = all(isinstance(cell, LostCell) for cell in cells)
                    yield None if is_lost else dict(zip(names, cells, strict=True))


def _cells_or_lost(rows: Iterator[dict[str, Any]], name: str) -> Iterator[Any]:
    """Yield the cells of a column up to its damage, and `LostCell` from there on without end."""
    try:
        for row in rows:
            yield row[name]
    except DAMAGE as error:
        raise_if_of_machine(error)
    while True:
        yield LostCell()


def text_rows(
    path: Path, fields: Sequence[str], more: Sequence[str] = ()
) -> Iterator[tuple[str | None, list[Any]]]:
    """Yield the text of each row, from the first of ``fields`` that is a column, and its values of ``more``.

    Raises:
        UserError: the file is damaged, has none of ``fields``, or a row holds something else or an overlong text.
    """

    def pick(names: Sequence[str]) -> list[str]:
        if not (there := [name for name in fields if name in names]):
            given = f"{path} has the columns {', '.join(names)}"[:300]
            raise UserError(given, f"a column {' or '.join(fields)}", "name the column of the texts so")
        return [there[0], *(name for name in more if name in names)]

    try:
        for number, row in enumerate(read_rows(path, pick)):
            text, *values = (row or {"": DamagedCell()}).values()
            if not isinstance(text, str | None):
                raise UserError(
                    f"{path}: row {number:,} is damaged, no text, or has more than {MAX_LINE_BYTES:,} bytes",
                    "documents of text",
                    "get the file again, or take this row out",
                )
            yield text, values
    except DAMAGE as error:
        raise_if_of_machine(error)
        said = " ".join(str(error).split())[:200]
        raise UserError(f"{path}: {said}", "a whole Parquet file", "get the file again") from None


def _batch_rows(
    file: BinaryIO, metadata: pq.FileMetaData, group: int, names: Sequence[str], repeated: Sequence[str]
) -> int:
    """Return how many rows of a row group are read at once; one where more may need too much memory.

    Raises:
        ValueError: the head of a page is damaged, or a page too large.
    """
    total, columns = 0, metadata.row_group(group)
    for number in range(columns.num_columns):
        column, path = columns.column(number), columns.column(number).path_in_schema
        if not any(path == name or path.startswith(f"{name}.") for name in names):
            continue
        starts = (column.data_page_offset, column.dictionary_page_offset)
        place = min(filter(None, starts), default=0), column.total_compressed_size, column.num_values
        is_list = metadata.schema.column(number).max_repetition_level > 0
        total += most_bytes(file, place, _BATCH_ROWS, is_list, path in repeated)
    return _BATCH_ROWS if total <= MAX_PAGE_BYTES else 1


def _repeated(metadata: pq.FileMetaData, names: Sequence[str]) -> list[str]:
    """Return the columns of text that keep each value once: unpacked, 4 MB in 64 rows take 256 MB.

    Their pages hold numbers of at most four bytes. Where texts follow, keeping them once takes four times as long.
    """
    with_dictionary = {}
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            if column.physical_type == "BYTE_ARRAY" and column.has_dictionary_page:
                values = column.data_page_offset - column.dictionary_page_offset
                of_rows = column.total_compressed_size - values
                if of_rows <= _NUMBER_BYTES * column.num_values + _PAGE_BYTES:
                    with_dictionary[column.path_in_schema] = True
    return [path for path in with_dictionary if path in names]


def _has_long(once: pq.ParquetFile, group: int, repeated: list[str]) -> bool:
    """Return whether a value of these columns is so long that a batch must not repeat it."""
    for first in once.iter_batches(1, row_groups=[group], columns=repeated):
        kept = [column.dictionary for column in first.columns if pa.types.is_dictionary(column.type)]
        return any((pc.max(pc.binary_length(values)).as_py() or 0) > _LONG_BYTES for values in kept)
    return False


def _reader(array: pa.Array, max_bytes: int) -> Callable[[int], Any]:
    """Return what reads a cell by its row, so that the cells of a batch do not lie in memory at once."""
    kind = array.type
    if kind in (pa.string(), pa.large_string()) and array.nbytes <= min(max_bytes, _BATCH_ROWS * _LONG_BYTES):
        with contextlib.suppress(*DAMAGE):  # all at once takes half the time
            return array.to_pylist().__getitem__
    if pa.types.is_dictionary(kind):
        places, read_value = array.indices.to_pylist(), lru_cache(None)(_reader(array.dictionary, max_bytes))
        return lambda row: None if places[row] is None else read_value(places[row])
    if pa.types.is_timestamp(kind):
        array = array.cast(pa.timestamp("us", kind.tz), safe=False)
    if pa.types.is_string(kind):  # its bytes are not yet known to be UTF-8
        array = array.cast(pa.binary())
    if pa.types.is_large_string(kind):
        array = array.cast(pa.large_binary())
    return lambda row: _value(array, row, max_bytes)


def _value(array: pa.Array, row: int, max_bytes: int) -> Any:
    try:
        if array.slice(row, 1).nbytes > max_bytes + _FRAME_BYTES:  # told before a copy of it is made
            return LongCell()
        value = array[row].as_py()
        if not isinstance(value, bytes):
            return value
        return value.decode("utf-8") if len(value) <= max_bytes else LongCell()
    except DAMAGE:
        return DamagedCell()
