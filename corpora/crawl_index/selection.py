"""Which rows of the index are fetched, and in which batches.

A row is left out with a reason: no HTML page, a copy of another by its digest, a host without the language, more than
``size=`` allows. Batches are cut from one order, so that a larger size begins with those of a smaller one.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import polars as pl
import xxhash

from xling.corpora.crawl_index.joined import joined
from xling.corpora.crawl_index.part import DIGEST

HTML_TYPES = ("text/html", "application/xhtml+xml")
_MAX_RECORD_BYTES = 1 << 26
_BATCH_BYTES, _BATCH_RECORDS = 1 << 25, 5_000
_PATH = re.compile(r"(?!.*(?:^|/)\.\.?(?:/|$))[A-Za-z0-9._=-]{1,255}(?:/[A-Za-z0-9._=-]{1,255}){0,9}")
NOT_HTML, NOT_OK, COPY = "not HTML", "HTTP status other than 200", "copies by content_digest"
MALFORMED, OVER_SIZE = "malformed rows", "over size="


@dataclass(frozen=True)
class Request:
    """One range of a WARC file with one record or several.

    Attributes:
        path: of the file, as in the index.
        start: position of its first byte.
        size: its bytes.
        records: position in the range and size of each record.
    """

    path: str
    start: int
    size: int
    records: tuple[tuple[int, int], ...]


@dataclass
class Selection:
    """The rows to fetch.

    Attributes:
        batches: of requests, each sorted by file and position.
        num_records: in them.
        num_bytes: that they bring.
        left_out: reason -> rows.
    """

    batches: list[list[Request]] = field(default_factory=list)
    num_records: int = 0
    num_bytes: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


def drawn(text: str, seed: int = 0) -> int:
    """Return a number of 64 bits that is drawn by a seed and is the same for the same text."""
    return xxhash.xxh3_64_intdigest(text.encode(), seed % (1 << 64))


def cleaned(table: pl.DataFrame, left_out: Counter[str]) -> pl.DataFrame:
    """Return the rows of HTML pages with a record, each digest once; what is left out is counted.

    Of copies the one stays whose dump is the first in the table's order of dumps, then the first by file and position.
    """
    paths = table["warc_filename"].unique().drop_nulls().to_list()
    good_paths = [path for path in paths if _PATH.fullmatch(path)]
    keep = {
        MALFORMED: pl.col("warc_filename").is_in(good_paths)
        & pl.col("warc_record_offset").is_between(0, (1 << 48))
        & pl.col("warc_record_length").is_between(1, _MAX_RECORD_BYTES),
        NOT_OK: pl.col("fetch_status").is_null() | (pl.col("fetch_status") == 200),
        NOT_HTML: pl.col("content_mime_detected").is_null()
        | pl.col("content_mime_detected").is_in(HTML_TYPES),
    }
    for reason, condition in keep.items():
        kept = table.filter(condition.fill_null(False))
        left_out[reason] += len(table) - len(kept)
        table = kept
    table = table.sort("dump_order", "warc_filename", "warc_record_offset")
    first = pl.col(DIGEST).is_null() | pl.col(DIGEST).is_first_distinct()
    record = pl.struct("warc_filename", "warc_record_offset").is_first_distinct()
    kept = table.filter(first & record)
    left_out[COPY] += len(table) - len(kept)
    return kept


def select(table: pl.DataFrame, num_bytes: int, seed: int, left_out: Counter[str]) -> Selection:
    """Return as many rows as ``num_bytes`` allow, 0 for all, by ``tier`` and then files in an order drawn by ``seed``.

    Args:
        table: cleaned rows, with ``tier``: lower ones come first.
        left_out: reasons and rows so far; what is over the size is added.
    """
    numbers = {path: drawn(path, seed) for path in table["warc_filename"].unique().to_list()}
    order = pl.col("warc_filename").replace_strict(numbers, return_dtype=pl.UInt64) if numbers else pl.lit(0)
    table = table.with_columns(drawn=order).sort("tier", "drawn", "warc_filename", "warc_record_offset")
    chosen = Selection(left_out=left_out)
    batch: list[Request] = []
    size = count = 0
    for request in _requests(table):
        if num_bytes and chosen.num_bytes + request.size > num_bytes:
            break
        batch.append(request)
        chosen.num_bytes += request.size
        chosen.num_records += len(request.records)
        size, count = size + request.size, count + len(request.records)
        if size >= _BATCH_BYTES or count >= _BATCH_RECORDS:
            chosen.batches.append(_in_order(batch))
            batch, size, count = [], 0, 0
    if batch:
        chosen.batches.append(_in_order(batch))
    left_out[OVER_SIZE] += len(table) - chosen.num_records
    return chosen


def _in_order(batch: list[Request]) -> list[Request]:
    return sorted(batch, key=lambda request: (request.path, request.start))


def _requests(table: pl.DataFrame) -> Iterator[Request]:
    """Yield the requests for rows in the table's order, in which those of a file follow each other."""
    columns = ("warc_filename", "warc_record_offset", "warc_record_length")
    for group in table.group_by("tier", "drawn", "warc_filename", maintain_order=True):
        path = group[1]["warc_filename"][0]
        pieces = list(group[1].select(columns[1:]).iter_rows())
        for request in joined(pieces):
            records = tuple((pieces[i][0] - request.start, pieces[i][1]) for i in request.pieces)
            yield Request(path, request.start, request.size, records)


def name_of(batch: list[Request]) -> str:
    """Return a name that no other batch has."""
    text = "".join(f"{request.path} {request.start} {request.records}\n" for request in batch)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
