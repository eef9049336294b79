"""``tsv:``, ``csv:``, ``jsonl:`` and ``parquet:FILE[#SRC+TGT[+DOC]]``: tables with a pair a row.

Columns are named after ``#``; those of tsv and csv can also be numbered from 1. Without ``#``, the columns are those
called by the codes of the languages, ``src`` and ``tgt``, ``source`` and ``target``, or a mapping ``translation`` by
language. A tsv or csv file without such a header has the source in column 1 and the target in column 2.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from xling.core.errors import UserError
from xling.corpora.parallel.sources import (
    EXAMPLE_ROWS,
    PAIR_SOURCES,
    PairReader,
    PairSource,
    PairSourceExample,
    Row,
    SourceContext,
    codes_of,
    drop_row,
    existing_path,
)
from xling.text.document import Ledger, replace_surrogates
from xling.text.files import corpus_reader

_TEXT_COLUMNS = (("src", "source", "sentence1", "text_a"), ("tgt", "target", "sentence2", "text_b"))
_DOC_COLUMNS = ("doc", "doc_id", "document")
_MAX_FIELD_CHARS = 1 << 22
_FIRST_ROWS = 100


class _Table(PairReader):
    """One file whose columns are named or guessed."""

    kind: ClassVar[str]

    @classmethod
    def open(cls, rest: str, context: SourceContext) -> list[PairSource]:
        """Return one source of one file."""
        uri = f"{cls.kind}:{rest}"
        file_name, _, columns = rest.partition("#")
        column_names = [c for c in columns.split("+") if c]
        if len(column_names) not in (0, 2, 3):
            raise UserError(
                f"source {uri!r} names {len(column_names)} columns",
                f"two or three: {cls.kind}:FILE#SRC+TGT or {cls.kind}:FILE#SRC+TGT+DOC",
            )
        path = existing_path(file_name)
        return [PairSource(uri, (path,), lambda ledger: cls.rows(path, column_names, context, ledger))]

    @classmethod
    def rows(
        cls, path: Path, column_names: list[str], context: SourceContext, ledger: Ledger
    ) -> Iterator[Row]:
        """Yield the pairs of a file."""
        raise NotImplementedError(f"{cls.__name__} has no rows")

    @classmethod
    def example(cls) -> PairSourceExample:
        """Return two rows below the names of the columns."""
        name = f"a.{cls.kind}"
        return PairSourceExample(f"{{folder}}/{name}", EXAMPLE_ROWS, {name: cls.example_content()})

    @classmethod
    def example_content(cls) -> bytes:
        """Return the file of the example, as fields between tabs."""
        return "".join(f"{src}\t{tgt}\n" for src, tgt, _ in (("en", "sw", ""), *EXAMPLE_ROWS)).encode()


@PAIR_SOURCES.register("tsv")
class Tsv(_Table):
    """Source ``tsv:``: a pair a line, fields between tabs."""

    kind = "tsv"

    @classmethod
    def rows(
        cls, path: Path, column_names: list[str], context: SourceContext, ledger: Ledger
    ) -> Iterator[Row]:
        """Yield the pairs of a file."""
        fields = (line.split("\t") for line in corpus_reader.read_lines(path))
        yield from _split_rows(path, fields, column_names, context, ledger)


@PAIR_SOURCES.register("csv")
class Csv(_Table):
    """Fields between commas, in quotation marks where needed."""

    kind = "csv"

    @classmethod
    def rows(
        cls, path: Path, column_names: list[str], context: SourceContext, ledger: Ledger
    ) -> Iterator[Row]:
        """Yield the pairs of a file."""
        csv.field_size_limit(_MAX_FIELD_CHARS)
        fields = csv.reader(line + "\n" for line in corpus_reader.read_lines(path))
        yield from _split_rows(path, fields, column_names, context, ledger)

    @classmethod
    def example_content(cls) -> bytes:
        """Return the example of this format as the bytes of a file."""
        return super().example_content().replace(b"\t", b",")


@PAIR_SOURCES.register("jsonl")
class Jsonl(_Table):
    """Source ``jsonl:``: a pair a line, as a JSON object."""

    kind = "jsonl"

    @classmethod
    def rows(
        cls, path: Path, column_names: list[str], context: SourceContext, ledger: Ledger
    ) -> Iterator[Row]:
        """Yield the pairs of a file."""
        for number, line in enumerate(corpus_reader.read_lines(path)):
            try:
                record = json.loads(line)
            except (json.JSONDecodeError, RecursionError):
                record = None
            row = from_record(record, column_names, context) if isinstance(record, dict) else None
            if row is None:
                drop_row(ledger, "malformed", f"{path}/{number}", line)
            else:
                yield row

    @classmethod
    def example_content(cls) -> bytes:
        """Return the example of this format as the bytes of a file."""
        return "".join(json.dumps({"en": src, "sw": tgt}) + "\n" for src, tgt, _ in EXAMPLE_ROWS).encode()


@PAIR_SOURCES.register("parquet")
class Parquet(_Table):
    """Source ``parquet:``: a pair a row, a column for each side."""

    kind = "parquet"

    @classmethod
    def rows(
        cls, path: Path, column_names: list[str], context: SourceContext, ledger: Ledger
    ) -> Iterator[Row]:
        """Yield the pairs of a file."""
        number = 0
        try:
            with pq.ParquetFile(path) as table:
                for batch in table.iter_batches(batch_size=4096):
                    for record in batch.to_pylist():
                        if row := from_record(record, column_names, context):
                            yield row
                        else:
                            drop_row(ledger, "malformed", f"{path}/{number}", json.dumps(record, default=str))
                        number += 1
        except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
            raise UserError(
                f"{path} is not a complete Parquet file: {' '.join(str(error).split())[:200]}",
                fix="get the file again",
            ) from None

    @classmethod
    def example_content(cls) -> bytes:
        """Return the example of this format as the bytes of a file."""
        file = io.BytesIO()
        src, tgt, _ = zip(*EXAMPLE_ROWS, strict=True)
        pq.write_table(pa.table({"en": src, "sw": tgt}), file)
        return file.getvalue()


def _split_rows(
    path: Path, rows: Iterable[Sequence[str]], column_names: list[str], context: SourceContext, ledger: Ledger
) -> Iterator[Row]:
    try:
        rows = iter(rows)
        first_rows = list(islice(rows, _FIRST_ROWS))
        if not first_rows:
            return
        positions, is_header = _column_positions(list(first_rows[0]), column_names, context, path)
        # Without a header, the most frequent number of fields counts; of two equally frequent ones, the smaller.
        counts = Counter(len(fields) for fields in first_rows if len(fields) > max(positions))
        width = (
            len(first_rows[0]) if is_header else min(counts, key=lambda num: (-counts[num], num), default=0)
        )
        for number, fields in enumerate(chain(first_rows[is_header:], rows), int(is_header)):
            # A row with more fields has a tab or a comma inside a text, which would be cut there.
            if not max(positions) < len(fields) <= width:
                drop_row(ledger, "malformed", f"{path}/{number}", " | ".join(fields))
                continue
            src, tgt, *doc = (fields[place] for place in positions)
            yield src, tgt, doc[0] if doc else ""
    except csv.Error as error:
        raise UserError(
            f"{path} cannot be read as CSV: {error}",
            "cells in closed quotes",
            "close the quotes, or give a tab-separated file as tsv:",
        ) from None


def _column_positions(
    header: list[str], column_names: list[str], context: SourceContext, path: Path
) -> tuple[list[int], bool]:
    """Return where the columns are, and whether the first row is a header."""
    if column_names and all(name.isdecimal() and name not in header for name in column_names):
        if min(map(int, column_names)) < 1:
            raise UserError(f"{path}: column numbers {', '.join(column_names)}", "whole numbers from 1")
        return [int(name) - 1 for name in column_names], False
    columns = _check_columns(
        [name.strip().lower() for name in header], [name.lower() for name in column_names], context
    )
    if columns:
        lowered = [name.strip().lower() for name in header]
        return [lowered.index(name) for name in columns], True
    if column_names:
        raise UserError(
            f"{path} has no columns {', '.join(column_names)}", f"columns {', '.join(header)}"[:300]
        )
    return [0, 1], False


def _check_columns(header: Sequence[str], column_names: Sequence[str], context: SourceContext) -> list[str]:
    """Return the names of the source, target and perhaps document column; none when a side is not found."""
    if column_names:
        return list(column_names) if set(column_names) <= set(header) else []
    sides = []
    for names, lang in zip(_TEXT_COLUMNS, (context.src, context.tgt), strict=True):
        wanted = [*(code.lower() for code in codes_of(lang)), *names]
        sides += [next((name for name in wanted if name in header), "")]
    return [*sides, *[name for name in _DOC_COLUMNS if name in header][:1]] if all(sides) else []


def from_record(record: dict[str, Any], column_names: list[str], context: SourceContext) -> Row | None:
    """Return the pair in a record of named fields, None where a side is missing or no text."""
    if not column_names and isinstance(record.get("translation"), dict):
        record = record["translation"]
    lowered = {key.lower(): value for key, value in record.items()}
    columns = _check_columns(list(lowered), [name.lower() for name in column_names], context)
    values = [lowered[name] for name in columns]
    if len(values) < 2 or not all(isinstance(value, str) for value in values[:2]):
        return None
    doc = str(values[2] or "") if len(values) > 2 else ""
    return replace_surrogates(values[0]), replace_surrogates(values[1]), replace_surrogates(doc)
