"""Rows of Parquet files: only the wanted columns, and a damaged cell or row group costs no other row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from xling.core.errors import UserError
from xling.text.files.compressed import MAX_LINE_BYTES

DAMAGE = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError)
_BATCH_ROWS = 512


class DamagedCell:
    """Stands for the value of a cell that cannot be read."""


def read_rows(
    path: Path, pick: Callable[[Sequence[str]], Sequence[str]], max_bytes: int = MAX_LINE_BYTES
) -> Iterator[dict[str, Any] | None]:
    """Yield a row as name -> value, strings and bytes decoded as UTF-8; None for a row in a damaged row group.

    Args:
        path: the file.
        pick: takes the names of all columns and returns those to read.
        max_bytes: of a cell; a larger one is a `DamagedCell`.

    Raises:
        DAMAGE: one of these errors when the file cannot be opened.
        UserError: several columns have a name that is wanted.
    """
    with pq.ParquetFile(path) as table:
        names = list(dict.fromkeys(pick(table.schema_arrow.names)))
        if several := [name for name in names if table.schema_arrow.names.count(name) > 1]:
            raise UserError(
                f"{path} has several columns {', '.join(several)}",
                "one column of each name",
                "rename them, or name another one with #",
            )
        for group in range(table.num_row_groups):
            num_left = table.metadata.row_group(group).num_rows
            try:
                for batch in table.iter_batches(_BATCH_ROWS, row_groups=[group], columns=names):
                    columns = {name: _cells(batch.column(name), max_bytes) for name in names}
                    for index in range(batch.num_rows):
                        yield {name: cells[index] for name, cells in columns.items()}
                    num_left -= batch.num_rows
            except DAMAGE as error:
                if isinstance(error, OSError) and error.errno is not None:
                    raise
                for _ in range(num_left):
                    yield None


def _cells(array: pa.Array, max_bytes: int) -> list[Any]:
    kind = array.type
    if pa.types.is_dictionary(kind):  # decoded, a value of 4 MB in 512 rows would take 2 GB
        values = _cells(array.dictionary, max_bytes)
        return [None if place is None else values[place] for place in array.indices.to_pylist()]
    if pa.types.is_timestamp(kind):
        array = array.cast(pa.timestamp("us", kind.tz), safe=False)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        array = array.cast(pa.large_binary())  # its bytes are not yet known to be UTF-8
    return [_value(cell, max_bytes) for cell in array]


def _value(cell: pa.Scalar, max_bytes: int) -> Any:
    try:
        value = cell.as_py()
        if not isinstance(value, bytes):
            return value
        return value.decode("utf-8") if len(value) <= max_bytes else DamagedCell()
    except DAMAGE:
        return DamagedCell()
