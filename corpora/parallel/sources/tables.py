"""``tsv:``, ``csv:``, ``jsonl:`` and ``parquet:FILE[#SRC+TGT[+DOC]]``: tables with a pair a row.

Columns are named after ``#``; those of tsv and csv can also be numbered from 1. Without ``#``, the columns are those
called by the codes or names of the languages (``en-US``, ``Swahili``, ``Kiswahili``, ``text_sw``), ``src`` and ``tgt``,
``source`` and ``target``, or a mapping ``translation`` by language. A row whose ``src_lang`` and ``tgt_lang`` are the
other way round is turned, and one in other languages is dropped. A tsv or csv file without such a header has the
source in column 1 and the target in column 2; where that is not clear, an error asks for the names.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from xling.core.errors import UserError
from xling.core.language_tags import fit, language_of
from xling.core.languages import Language
from xling.corpora.common import columns
from xling.corpora.common.json_rows import read_values
from xling.corpora.parallel.sources import (
    PAIR_SOURCES,
    READ_STAGE,
    PairReader,
    PairSource,
    Row,
    SourceContext,
    codes_of,
    drop_row,
    existing_path,
)
from xling.corpora.sources.jsonl import as_text
from xling.text.document import Ledger, replace_surrogates
from xling.text.files import corpus_reader
from xling.text.files.compressed import MAX_CELL_BYTES
from xling.text.files.globs import path_and_field
from xling.text.files.parquet_rows import DAMAGE, read_rows

_TEXT_COLUMNS = (
    ("src", "source", "sentence1", "text_a", "source text", "source_text", "source string", "source_string"),
    ("tgt", "target", "sentence2", "text_b", "target text", "target_text", "target string", "translation"),
)
_LANG_COLUMNS = tuple(
    tuple(f"{side}_{word}" for side in sides for word in ("lang", "language"))
    for sides in (("src", "source"), ("tgt", "target"))
)
FIRST_ROW = "malformed: the first such row "
_ARRAY = "is an array: jq -c '.[]' makes rows of it"
_DOC_COLUMNS = ("doc", "doc_id", "document")
_TRANSLATION = "translation"


class TableFile(PairReader):
    """Base of sources of one file whose columns are named or guessed.

    Attributes:
        kind: scheme of the URI.
    """

    kind: ClassVar[str]

    @classmethod
    def open(cls, rest: str, context: SourceContext) -> list[PairSource]:
        """Return one source of one file."""
        uri = f"{cls.kind}:{rest}"
        file_name, columns = path_and_field(rest)
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


class _Delimited(TableFile):
    """A pair a line."""

    delimiter: ClassVar[str]

    @classmethod
    def rows(
        cls, path: Path, column_names: list[str], context: SourceContext, ledger: Ledger
    ) -> Iterator[Row]:
        """Yield the pairs of a file."""
        lines = corpus_reader.read_lines(path, MAX_CELL_BYTES, keep_bad=True)
        uri, langs = f"{cls.kind}:{path}", (context.src, context.tgt)
        rows = columns.open_rows(lines, uri, cls.delimiter, column_names, guess_for(context), (0, 1), langs)
        for number, row in enumerate(rows):
            if row.cells is None:
                drop_row(ledger, "malformed", f"{path}/{number}", row.text)
                continue
            if pair := in_order(row.cells, context):
                yield pair
            else:
                drop_row(ledger, "malformed", f"{path}/{number}", row.text)


@PAIR_SOURCES.register("tsv")
class Tsv(_Delimited):
    """Source ``tsv:``: cells between tabs."""

    kind, delimiter = "tsv", "\t"


@PAIR_SOURCES.register("csv")
class Csv(_Delimited):
    """Cells between commas, semicolons, tabs or bars, whichever the file has, in quotation marks where needed."""

    kind, delimiter = "csv", ""


@PAIR_SOURCES.register("jsonl")
class Jsonl(TableFile):
    """Source ``jsonl:``: a pair a line, as a JSON object."""

    kind = "jsonl"

    @classmethod
    def rows(
        cls, path: Path, column_names: list[str], context: SourceContext, ledger: Ledger
    ) -> Iterator[Row]:
        """Yield the pairs of a file."""
        lines = corpus_reader.read_lines(path, MAX_CELL_BYTES, keep_bad=True, every_cr=True)
        for number, line in enumerate(lines):
            for record in read_values(line, ledger):
                row = from_record(record, column_names, context) if isinstance(record, dict) else None
                if row is None:
                    if (READ_STAGE, "malformed") not in ledger.dropped and isinstance(record, dict | list):
                        fields = f"has {', '.join(record)}" if isinstance(record, dict) else _ARRAY
                        ledger.count_event(f"{FIRST_ROW}{fields}"[:200])
                    drop_row(ledger, "malformed", f"{path}/{number}", line)
                else:
                    yield row


@PAIR_SOURCES.register("parquet")
class Parquet(TableFile):
    """Source ``parquet:``: a pair a row, a column for each side."""

    kind = "parquet"

    @classmethod
    def rows(
        cls, path: Path, column_names: list[str], context: SourceContext, ledger: Ledger
    ) -> Iterator[Row]:
        """Yield the pairs of a file."""

        def pick(names: Sequence[str]) -> list[str]:
            chosen = _wanted(names, column_names, context)
            if not chosen and not (_TRANSLATION in names and not column_names):
                wanted = ", ".join(column_names) or f"{context.src.code} and {context.tgt.code}"
                raise UserError(
                    f"{path} has no columns {wanted}",
                    f"columns {', '.join(names)}"[:300],
                    f"name two of them: parquet:{path}#SRC+TGT",
                )
            return chosen or [_TRANSLATION]

        try:
            for number, record in enumerate(read_rows(path, pick, MAX_CELL_BYTES)):
                if row := from_record(record or {}, column_names, context):
                    yield row
                else:
                    drop_row(ledger, "malformed", f"{path}/{number}", str(record)[:1000])
        except DAMAGE as error:
            raise UserError(
                f"{path} is not a complete Parquet file: {' '.join(str(error).split())[:200]}",
                fix="get the file again",
            ) from None


def guess_for(context: SourceContext) -> columns.Guess:
    """Return `guess_columns` for the two languages of a source."""
    return lambda header: guess_columns(tuple(header), (context.src, context.tgt))


@lru_cache(maxsize=1024)
def guess_columns(header: tuple[str, ...], langs: tuple[Language, Language]) -> list[int]:
    """Return the positions of the source, the target, perhaps the document and perhaps the languages of a row.

    [] when a side is not found. Columns named by a language say nothing else of it.
    """
    sides = [
        columns.find_language(header, lang, codes_of(lang), names)
        for names, lang in zip(_TEXT_COLUMNS, langs, strict=True)
    ]
    lowered = [name.strip().lower() for name in header]
    docs = [lowered.index(name) for name in _DOC_COLUMNS if name in lowered]
    if min(sides) < 0 or sides[0] == sides[1]:
        return []
    of_row = [[lowered.index(name) for name in names if name in lowered][:1] for names in _LANG_COLUMNS]
    is_neutral = all(of_row) and all(
        lowered[side] in names for side, names in zip(sides, _TEXT_COLUMNS, strict=True)
    )
    return [*sides, *docs[:1], *(of_row[0] + of_row[1] if is_neutral else [])]


def in_order(cells: Sequence[str], context: SourceContext) -> Row | None:
    """Return the pair in the cells that `guess_columns` finds, None where the row is in other languages."""
    src, tgt, *more = cells
    doc, tags = more[0] if len(more) % 2 else "", more[-2:] if len(more) > 1 else []
    langs = [context.src, context.tgt]
    for lang, tag in zip(langs, tags, strict=False):
        if language_of(tag) and not fit(tag, lang):
            is_turned = all(fit(tag, lang) for tag, lang in zip(tags, reversed(langs), strict=True))
            return (tgt, src, doc) if is_turned else None
    return src, tgt, doc


def _wanted(names: Sequence[str], column_names: Sequence[str], context: SourceContext) -> list[str]:
    """Return the names of the source, target and perhaps document field; none when a side is not found."""
    if not column_names:
        return [names[place] for place in guess_for(context)(names)]
    by_key = {name.lower(): name for name in reversed(names)}
    chosen = [by_key.get(name.lower(), "") for name in column_names]
    return chosen if all(chosen) else []


def from_record(record: dict[str, Any], column_names: list[str], context: SourceContext) -> Row | None:
    """Return the pair in a record of named fields, None where a side is missing, too long or no text."""
    if not column_names and isinstance(record.get(_TRANSLATION), dict):
        record = record[_TRANSLATION]
    values = [record[name] for name in _wanted(list(record), column_names, context)]
    texts: list[Any] = [as_text(value) if isinstance(value, bytes) else value for value in values]
    if len(texts) < 2 or not all(isinstance(text, str) and len(text) <= MAX_CELL_BYTES for text in texts[:2]):
        return None
    more = [str(text) if isinstance(text, str | int) else "" for text in texts[2:]]
    return in_order([replace_surrogates(text) for text in (*texts[:2], *more)], context)
