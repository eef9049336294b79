"""Fault-tolerant reading of WARC records: reading resumes after a wrong length or a damaged stretch.

Library readers stop silently at header lines that end in LF, at a truncated gzip member and at a wrong
Content-Length; crawls contain all three. Every byte is accounted for: framing, a record's block, or lost for
a reason. References: ISO 28500:2017 (WARC 1.1), section 4; the drafts 0.17 and 0.18 frame records in the same
way.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from xling.text.document import UNPACKED, Ledger
from xling.text.files.compressed import DamagedBytes

KEPT, DROPPED, OTHER = "pages kept", "pages dropped", "records of other types"
"""What the blocks of records count as."""
TYPES = frozenset(
    {"warcinfo", "response", "resource", "request", "metadata", "revisit", "conversion", "continuation"}
)
_MAX_HEADER_BYTES = 1 << 16
_MAX_BODY_BYTES = 1 << 26
_VERSION = rb"WARC/[01]\.\d{1,2}[ \t]*\r?\n"
_MAX_VERSION_BYTES = 32
_RECORD_START = re.compile(_VERSION)
_NEXT_RECORD = re.compile(rb"\n(?=" + _VERSION + rb")")
_HEADER_END = re.compile(rb"\n\r?\n|\n(?=" + _VERSION + rb")")
_TERMINATOR = re.compile(rb"\r?\n\r?\n")
_BLANK = re.compile(rb"[\r\n]+")
_LENGTH = re.compile("[0-9]{1,18}")
_NESTED = re.compile(rb"(?:^|\n)(?=" + _VERSION + rb"(?:[A-Za-z-]+:[^\n]*\n)*?WARC-Type:)")


@dataclass(slots=True)
class Record:
    """One WARC record.

    Attributes:
        number: position in the file, from 0.
        headers: WARC fields by lower-cased name.
        body: the content block.
        complete: False when the file, or what of it is not damaged, ended inside it.
        num_bytes: of the file in the block; who takes the record accounts for them.
    """

    number: int
    headers: dict[str, str]
    body: bytes
    complete: bool = True
    num_bytes: int = 0


class _Buffer:
    """The bytes between the read position and the last chunk before the end, or before damage."""

    def __init__(self, chunks: Iterator[bytes], ledger: Ledger) -> None:
        self._chunks, self._ledger, self.data, self.position = chunks, ledger, b"", 0
        self.at_end = self.is_damaged = False

    def read_chunk(self) -> bool:
        """Read one more chunk; False at the end of the file and at damage."""
        if self.at_end or self.is_damaged:
            return False
        chunk = next(self._chunks, None)
        self.at_end = chunk is None
        self.is_damaged = isinstance(chunk, DamagedBytes)
        if chunk is None or self.is_damaged:
            return False
        self._ledger.count_bytes(UNPACKED, "in", len(chunk))
        self.data, self.position = self.data[self.position :] + chunk, 0
        return True

    def read_until(self, size: int) -> bool:
        """Have ``size`` bytes after the read position if there are so many."""
        while len(self.data) - self.position < size:
            if not self.read_chunk():
                return False
        return True

    def starts_record(self) -> bool:
        """Return whether a record starts at the read position."""
        self.read_until(_MAX_VERSION_BYTES)
        return bool(_RECORD_START.match(self.data, self.position))

    def skip(self, size: int, name: str = "framing") -> None:
        """Account for ``size`` bytes and move behind them."""
        self.position += size
        self._ledger.count_bytes(UNPACKED, name, size)

    def skip_blank(self) -> bool:
        """Skip line ends; return False if nothing follows."""
        while True:
            if blank := _BLANK.match(self.data, self.position):
                self.skip(blank.end() - self.position)
            if self.position < len(self.data):
                return True
            if not self.read_chunk():
                return False

    def skip_to_record(self, limit: int, max_bytes: int = 1 << 62) -> tuple[bytes, int]:
        """Skip to the start of the next record, reading at most ``max_bytes`` bytes.

        Returns:
            The first ``limit`` bytes of what was passed over, and how many bytes that was.
        """
        skipped: list[bytes] = []
        num = 0
        while True:
            match = _NEXT_RECORD.search(self.data, self.position)
            stopped = self.at_end or self.is_damaged
            end = match.end() if match else len(self.data) - (0 if stopped else _MAX_VERSION_BYTES)
            end = min(max(end, self.position), self.position + max_bytes - num)
            skipped.append(self.data[self.position : min(end, self.position + max(0, limit - num))])
            num += end - self.position
            self.position = end
            if match or stopped or num >= max_bytes:
                return b"".join(skipped), num
            self.read_chunk()


def records(chunks: Iterable[bytes], ledger: Ledger) -> Iterator[Record]:
    """Yield the records of a decompressed WARC or WET file.

    Every repair is noted in the ledger: LF-only headers, a wrong or missing Content-Length, a record inside
    another one's block, a record cut off by the end of the file. Memory is that of one record of 64 MiB.
    """
    pieces, number = iter(chunks), 0
    buffer = _Buffer(pieces, ledger)
    try:
        while not buffer.at_end:
            buffer = _Buffer(pieces, ledger)
            while buffer.skip_blank():
                if (record := _read_record(buffer, number, ledger)) is not None:
                    yield record
                    number += 1
    except GeneratorExit:  # max_docs
        ledger.count_bytes(UNPACKED, "not wanted", len(buffer.data) - buffer.position)
        raise


def is_wanted(record: Record, kind: str, counter_name: str, ledger: Ledger) -> bool:
    """Return whether the record is of the type ``kind``; records of other types are counted here."""
    record_type = record.headers.get("warc-type", "")
    if record_type == kind:
        return True
    if record_type in TYPES:
        ledger.count_event(f"WARC record of type {record_type}, no {counter_name}")
        ledger.count_bytes(UNPACKED, OTHER, record.num_bytes)
    else:
        ledger.drop_bytes("record of an unknown type", record.num_bytes, UNPACKED)
    return False


def _read_record(buffer: _Buffer, number: int, ledger: Ledger) -> Record | None:
    """Read the record at the read position; without one return None and count the bytes as lost."""
    if not buffer.starts_record():
        _, num = buffer.skip_to_record(0)
        ledger.drop_bytes("bytes outside any record", num, UNPACKED)
        return None
    headers = _read_headers(buffer, ledger)
    if headers is None:
        _, num = buffer.skip_to_record(0)
        ledger.drop_bytes("damaged record", num, UNPACKED)
        return None
    return _read_body(buffer, Record(number, headers, b""), ledger)


def _read_headers(buffer: _Buffer, ledger: Ledger) -> dict[str, str] | None:
    """Return the header fields of a record; None, reading nothing, if the next record starts before its end."""
    while (
        end := _HEADER_END.search(buffer.data, buffer.position + 1, buffer.position + _MAX_HEADER_BYTES)
    ) is None:
        if len(buffer.data) - buffer.position > _MAX_HEADER_BYTES or not buffer.read_chunk():
            return None
    if end.end() == end.start() + 1:
        return None
    head = buffer.data[buffer.position : end.end()]
    buffer.skip(len(head))
    if b"\r" not in head:
        ledger.count_event("WARC record with LF-only header lines")
    fields = [line.partition(":") for line in head.decode("utf-8", "replace").split("\n")]
    return {_lower_name(name): value.partition("\r")[0].strip() for name, colon, value in fields if colon}


@lru_cache(maxsize=256)
def _lower_name(name: str) -> str:
    return name.strip().lower()


def _read_body(buffer: _Buffer, record: Record, ledger: Ledger) -> Record | None:
    """Return the record with the content block at the read position; None, counting a loss, if it is too long."""
    length = record.headers.get("content-length", "")
    size = int(length) if _LENGTH.fullmatch(length) else -1
    if size > _MAX_BODY_BYTES:  # or a wrong length: read only up to the next record
        _, num = buffer.skip_to_record(0, size)
        ledger.drop_bytes("record over 64 MiB", num, UNPACKED)
        return None
    if size < 0:
        ledger.count_event("WARC record without a valid Content-Length")
        size = 0
    elif _is_complete(buffer, size):
        return _take_body(buffer, record, size, size)
    body = buffer.data[buffer.position : buffer.position + size]
    if nested := _NESTED.search(body):
        ledger.count_event("WARC record inside another record's block")
        return _take_body(buffer, record, nested.start(), nested.end())
    # The following record is damaged, not this one.
    if size and _TERMINATOR.match(buffer.data, buffer.position + size):
        return _take_body(buffer, record, size, size)
    if len(body) < size:
        ledger.count_event("truncated WARC record")
        record.complete = False
    elif size:
        ledger.count_event("WARC record longer than its Content-Length")
    record.body, num = buffer.skip_to_record(_MAX_BODY_BYTES)
    if num > _MAX_BODY_BYTES:
        ledger.drop_bytes("record over 64 MiB", num, UNPACKED)
        return None
    record.body, record.num_bytes = record.body.rstrip(b"\r\n"), num
    return record


def _is_complete(buffer: _Buffer, size: int) -> bool:
    """Return whether a block of ``size`` bytes is followed by a record or by nothing."""
    if not buffer.read_until(size + 2 * _MAX_VERSION_BYTES) and len(buffer.data) - buffer.position < size:
        return False
    end = buffer.position + size
    blank = _BLANK.match(buffer.data, end)
    end = blank.end() if blank else end
    return end == len(buffer.data) or _RECORD_START.match(buffer.data, end) is not None


def _take_body(buffer: _Buffer, record: Record, size: int, num_bytes: int) -> Record:
    """Return the record with a block of ``size`` bytes, ``num_bytes`` after the read position."""
    record.body = buffer.data[buffer.position : buffer.position + size]
    if num_bytes > size:
        record.body = record.body.rstrip(b"\r\n")
    record.num_bytes = num_bytes
    buffer.position += num_bytes
    return record
