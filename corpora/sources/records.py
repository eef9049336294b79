"""Fault-tolerant reading of WARC records: reading resumes after a wrong length or a damaged stretch.

Library readers stop silently at header lines that end in LF, at a truncated gzip member and at a wrong
Content-Length; crawls contain all three. Every byte is accounted for: framing, a record's block, or lost for
a reason. References: ISO 28500:2017 (WARC 1.1), section 4; the drafts 0.17 and 0.18 frame records in the same
way.
"""

from __future__ import annotations

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
_START = re.compile(_VERSION)
_NEXT = re.compile(rb"\n(?=" + _VERSION + rb")")
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
        self._chunks, self._ledger, self.data, self.at = chunks, ledger, b"", 0
        self.ended = self.damaged = False

    def grow(self) -> bool:
        """Read one more chunk; False at the end of the file and at damage."""
        if self.ended or self.damaged:
            return False
        chunk = next(self._chunks, None)
        self.ended = chunk is None
        self.damaged = isinstance(chunk, DamagedBytes)
        if chunk is None or self.damaged:
            return False
        self._ledger.count_bytes(UNPACKED, "in", len(chunk))
        self.data, self.at = self.data[self.at :] + chunk, 0
        return True

    def ensure(self, size: int) -> bool:
        """Have ``size`` bytes after the read position if there are so many."""
        while len(self.data) - self.at < size:
            if not self.grow():
                return False
        return True

    def starts_record(self) -> bool:
        """Return whether a record starts at the read position."""
        self.ensure(_MAX_VERSION_BYTES)
        return bool(_START.match(self.data, self.at))

    def take(self, size: int, name: str = "framing") -> None:
        """Account for ``size`` bytes and move behind them."""
        self.at += size
        self._ledger.count_bytes(UNPACKED, name, size)

    def skip_blank(self) -> bool:
        """Skip line ends; return False if nothing follows."""
        while True:
            if blank := _BLANK.match(self.data, self.at):
                self.take(blank.end() - self.at)
            if self.at < len(self.data):
                return True
            if not self.grow():
                return False

    def until_start(self, limit: int, most: int = 1 << 62) -> tuple[bytes, int]:
        """Skip to the start of the next record, reading at most ``most`` bytes.

        Returns:
            The first ``limit`` bytes of what was passed over, and how many bytes that was.
        """
        passed: list[bytes] = []
        num = 0
        while True:
            match = _NEXT.search(self.data, self.at)
            stopped = self.ended or self.damaged
            end = match.end() if match else len(self.data) - (0 if stopped else _MAX_VERSION_BYTES)
            end = min(max(end, self.at), self.at + most - num)
            passed.append(self.data[self.at : min(end, self.at + max(0, limit - num))])
            num += end - self.at
            self.at = end
            if match or stopped or num >= most:
                return b"".join(passed), num
            self.grow()


def records(chunks: Iterable[bytes], ledger: Ledger) -> Iterator[Record]:
    """Yield the records of a decompressed WARC or WET file.

    Every repair is noted in the ledger: LF-only headers, a wrong or missing Content-Length, a record inside
    another one's block, a record cut off by the end of the file. Memory is that of one record of 64 MiB.
    """
    pieces, number = iter(chunks), 0
    buffer = _Buffer(pieces, ledger)
    try:
        while not buffer.ended:
            buffer = _Buffer(pieces, ledger)
            while buffer.skip_blank():
                if (record := _record(buffer, number, ledger)) is not None:
                    yield record
                    number += 1
    except GeneratorExit:  # max_docs
        ledger.count_bytes(UNPACKED, "not wanted", len(buffer.data) - buffer.at)
        raise


def is_wanted(record: Record, kind: str, what: str, ledger: Ledger) -> bool:
    """Return whether the record is of the type ``kind``; records of other types are counted here."""
    record_type = record.headers.get("warc-type", "")
    if record_type == kind:
        return True
    if record_type in TYPES:
        ledger.count_event(f"WARC record of type {record_type}, no {what}")
        ledger.count_bytes(UNPACKED, OTHER, record.num_bytes)
    else:
        ledger.drop_bytes("record of an unknown type", record.num_bytes, UNPACKED)
    return False


def _record(buffer: _Buffer, number: int, ledger: Ledger) -> Record | None:
    """Read the record at the read position; without one return None and count the bytes as lost."""
    if not buffer.starts_record():
        _, num = buffer.until_start(0)
        ledger.drop_bytes("bytes outside any record", num, UNPACKED)
        return None
    headers = _headers(buffer, ledger)
    if headers is None:
        _, num = buffer.until_start(0)
        ledger.drop_bytes("damaged record", num, UNPACKED)
        return None
    return _with_body(buffer, Record(number, headers, b""), ledger)


def _headers(buffer: _Buffer, ledger: Ledger) -> dict[str, str] | None:
    """Return the header fields of a record; None, reading nothing, if the next record starts before its end."""
    while (end := _HEADER_END.search(buffer.data, buffer.at + 1, buffer.at + _MAX_HEADER_BYTES)) is None:
        if len(buffer.data) - buffer.at > _MAX_HEADER_BYTES or not buffer.grow():
            return None
    if end.end() == end.start() + 1:
        return None
    head = buffer.data[buffer.at : end.end()]
    buffer.take(len(head))
    if b"\r" not in head:
        ledger.count_event("WARC record with LF-only header lines")
    fields = [line.partition(":") for line in head.decode("utf-8", "replace").split("\n")]
    return {_lower(name): value.partition("\r")[0].strip() for name, colon, value in fields if colon}


@lru_cache(maxsize=256)
def _lower(name: str) -> str:
    return name.strip().lower()


def _with_body(buffer: _Buffer, record: Record, ledger: Ledger) -> Record | None:
    """Return the record with the content block at the read position; None, counting a loss, if it is too long."""
    length = record.headers.get("content-length", "")
    size = int(length) if _LENGTH.fullmatch(length) else -1
    if size > _MAX_BODY_BYTES:  # or a wrong length: read only up to the next record
        _, num = buffer.until_start(0, size)
        ledger.drop_bytes("record over 64 MiB", num, UNPACKED)
        return None
    if size < 0:
        ledger.count_event("WARC record without a valid Content-Length")
        size = 0
    elif _is_whole(buffer, size):
        return _taken(buffer, record, size, size)
    body = buffer.data[buffer.at : buffer.at + size]
    if nested := _NESTED.search(body):
        ledger.count_event("WARC record inside another record's block")
        return _taken(buffer, record, nested.start(), nested.end())
    if size and _TERMINATOR.match(
        buffer.data, buffer.at + size
    ):  # the following record is damaged, not this one
        return _taken(buffer, record, size, size)
    if len(body) < size:
        ledger.count_event("truncated WARC record")
        record.complete = False
    elif size:
        ledger.count_event("WARC record longer than its Content-Length")
    record.body, num = buffer.until_start(_MAX_BODY_BYTES)
    if num > _MAX_BODY_BYTES:
        ledger.drop_bytes("record over 64 MiB", num, UNPACKED)
        return None
    record.body, record.num_bytes = record.body.rstrip(b"\r\n"), num
    return record


def _is_whole(buffer: _Buffer, size: int) -> bool:
    """Return whether a block of ``size`` bytes is followed by a record or by nothing."""
    if not buffer.ensure(size + 2 * _MAX_VERSION_BYTES) and len(buffer.data) - buffer.at < size:
        return False
    end = buffer.at + size
    blank = _BLANK.match(buffer.data, end)
    end = blank.end() if blank else end
    return end == len(buffer.data) or _START.match(buffer.data, end) is not None


def _taken(buffer: _Buffer, record: Record, size: int, num_bytes: int) -> Record:
    """Return the record with a block of ``size`` bytes, ``num_bytes`` after the read position."""
    record.body = buffer.data[buffer.at : buffer.at + size]
    if num_bytes > size:
        record.body = record.body.rstrip(b"\r\n")
    record.num_bytes = num_bytes
    buffer.at += num_bytes
    return record
