"""Rows that a program has in memory, in place of own files: a ``datasets.Dataset``, a polars frame, or mappings.

They are read as JSON lines would be (`xling.eval.rows.own_formats`), with the same names of columns. Neither datasets
nor polars is imported here: whoever has such a table has imported them.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from xling.core.errors import UserError
from xling.core.output.manifest import write_atomic
from xling.eval.rows.own_columns import LABEL, TAG, guessed_columns
from xling.text.document import replace_surrogates

KINDS = {"tags": ("token", TAG), "pairs": ("text_a", "text_b", LABEL), "classes": ("text", LABEL)}
"""Setting of own files -> the columns of its rows."""
VALID = "a datasets.Dataset, a polars DataFrame, or a list of mappings such as {'text': ..., 'label': ...}"


def is_table(value: Any) -> bool:
    """Return whether a value is a table of datasets or polars.

    Example:
        >>> import polars
        >>> is_table(polars.DataFrame({"text": ["Habari."]})), is_table(["Habari."])
        (True, False)
    """
    kind = type(value)
    return kind.__module__.partition(".")[0] in ("datasets", "polars") and kind.__name__ in (
        "Dataset",
        "DataFrame",
    )


def texts_of(texts: Any, call: str, others: bool = False) -> list[Any]:
    """Return what a function was given as texts; half of a character becomes U+FFFD.

    Args:
        texts: of one of the kinds below.
        call: name of the function, for messages.
        others: whether an item may be something else than a text, such as a pair.

    Raises:
        UserError: a single text, an item that is not a text, or what does not yield its texts: a frame or a mapping
            yields its names, and a set no order.
    """
    if isinstance(texts, str):
        raise UserError("texts is one string", "a list of texts", f"{call}([text])")
    is_single = isinstance(texts, bytes) or getattr(texts, "ndim", 1) == 0  # an array without a dimension
    if (
        not isinstance(texts, Iterable)
        or isinstance(texts, (Mapping, Set))
        or hasattr(texts, "columns")
        or is_single
    ):
        valid = "a list of texts, a datasets.Dataset or a polars DataFrame"
        raise UserError(
            f"texts of the type {type(texts).__name__}", valid, "name the column or the split: texts[NAME]"
        )
    items = [replace_surrogates(text) if isinstance(text, str) else text for text in texts]
    if bad := [] if others else [item for item in items if not isinstance(item, str)]:
        raise UserError(f"{bad[0]!r}"[:80], "texts", "leave it out, or give the empty text")
    return items


def names_of(table: Any) -> list[str]:
    """Return the names of the columns of a table."""
    return list(getattr(table, "column_names", None) or table.columns)


def records_of(rows: Any) -> list[dict[str, Any]]:
    """Return rows as mappings; numbers of classes of a data set become their names.

    Raises:
        UserError: the rows are none of the kinds that are read, or there are none.
    """
    rows = list(rows) if isinstance(rows, Iterator) else rows
    if is_table(rows):
        columns = {name: _values(rows, name) for name in names_of(rows)}
        records = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    elif isinstance(rows, Sequence) and all(isinstance(row, Mapping) for row in rows):
        records = [{str(name): value for name, value in row.items()} for row in rows]
    else:
        of = f" of {type(rows[0]).__name__}" if isinstance(rows, Sequence) and rows else ""
        raise UserError(
            f"rows of the type {type(rows).__name__}{of}", VALID, "polars.from_pandas(FRAME) converts pandas'"
        )
    if not records:
        raise UserError("rows has no rows", VALID)
    return records


def _values(table: Any, name: str) -> list[Any]:
    feature = getattr(table, "features", {}).get(name)
    feature_of_item = getattr(feature, "feature", feature)
    names = getattr(feature_of_item, "names", None)
    table = (
        table.with_format(None) if hasattr(table, "with_format") else table
    )  # whatever its values were shown as
    column = table[name]
    values = column.to_list() if hasattr(column, "to_list") else list(column)
    return [_named(value, names) for value in values] if names else values


def _named(value: Any, names: Sequence[str]) -> Any:
    """Return the name of a class in place of its number, also in a list; a missing label is -1 or None."""
    if isinstance(value, Sequence):
        return [_named(each, names) for each in value]
    return names[value] if value is not None and value >= 0 else None


def kind_of(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the setting of own files that fits the columns of rows.

    Example:
        >>> kind_of([{"tweet": "mechi kubwa", "topic": "sport"}])
        'classes'
        >>> kind_of([{"tokens": ["Amina", "alifika"], "ner_tags": ["B-PER", "O"]}])
        'tags'

    Raises:
        UserError: no kind fits.
    """
    names = list(records[0])
    for kind, columns in KINDS.items():
        name_of = guessed_columns(names, columns, ())
        if set(columns) == set(name_of) and (
            kind != "tags" or not isinstance(records[0][name_of["token"]], str)
        ):
            return kind
    if len(names) == len(KINDS["classes"]) and guessed_columns(names, (LABEL,), ()):
        return "classes"
    valid = "; ".join(f"{kind}: {', '.join(columns)}" for kind, columns in KINDS.items())
    raise UserError(f"rows with the columns {', '.join(names)}", valid, "rename the columns")


def write(rows: Any, path: Path) -> str:
    """Write rows as JSON lines and return the setting of own files that reads them.

    Raises:
        UserError: as `records_of` and `kind_of`.
    """
    records = records_of(rows)
    kind = kind_of(records)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(record, ensure_ascii=False, default=_plain) for record in records]
    write_atomic(path, replace_surrogates("".join(f"{line}\n" for line in lines)))
    return kind


def _plain(value: Any) -> Any:
    """Return a value of numpy or torch as Python's, and others as text; raise UserError for bytes."""
    if isinstance(value, bytes):
        raise UserError(f"{value!r}"[:80], "texts", "decode it: value.decode('utf-8')")
    return value.tolist() if hasattr(value, "tolist") else str(value)


def cells_of(table: Any, wanted: Sequence[str]) -> list[dict[str, Any]]:
    """Return the wanted columns of each row of a table, found by their usual names; one of text alone by any name.

    Raises:
        UserError: a column is not there.
    """
    names = names_of(table)
    name_of = guessed_columns(names, wanted, ())
    if len(names) == len(wanted) == 1 and all(isinstance(each, str) for each in _values(table, names[0])):
        name_of = {wanted[0]: names[0]}
    if missing := [column for column in wanted if column not in name_of]:
        raise UserError(
            f"no column {missing[0]} among {', '.join(names)}", ", ".join(wanted), "rename a column"
        )
    columns = [_values(table, name_of[column]) for column in wanted]
    return [dict(zip(wanted, row, strict=True)) for row in zip(*columns, strict=True)]


def with_column(table: Any, name: str, values: Sequence[Any]) -> Any:
    """Return a table with one more column.

    Raises:
        UserError: it has a column of the name.
    """
    if name in names_of(table):
        raise UserError(
            f"the rows have a column {name}", "another name", f"rename it: its place is that of the {name}"
        )
    if hasattr(table, "add_column"):
        return table.add_column(name, list(values))
    import polars as pl

    return table.with_columns(pl.Series(name, list(values)))
