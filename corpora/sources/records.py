"""WARC framing, forgiving: records are found again after a wrong length or a damaged stretch.

Library readers stop without a word at header lines that end in LF, at a truncated gzip member and at a
Content-Length that lies; crawls hold all three. Reference: ISO 28500:2017 (WARC 1.1), section 4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from xling.text.document import Ledger

_MAX_HEADER_BYTES = 1 << 16
_MAX_BODY_BYTES = 1 << 26
_START = b"WARC/1."
_BLANK = re.compile(rb"[\r\n]+")
_NESTED = re.compile(rb"(?:^|\n)(?=WARC/1\.\d\r?\n(?:[A-Za-z-]+:[^\n]*\n)*?WARC-Type:)")


@dataclass(slots=True)
class Record:
    """One WARC record.

    Attributes:
        number: position in the file, from 0.
        headers: WARC fields by lower-cased name.
        body: the content block.
        complete: False when the file ended inside it.
    """

    number: int
    headers: dict[str, str]
    body: bytes
    complete: bool = True


class _Buffer:
    """The bytes between the read position and the last chunk."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self.data, self.at = chunks, b"", 0

    def grow(self) -> bool:
        """Read one more chunk; False at the end of the file."""
        chunk = next(self._chunks, b"")
        self.data, self.at = self.data[self.at :] + chunk, 0
        return bool(chunk)

    def ensure(self, size: int) -> bool:
        """Have ``size`` bytes after the read position if the file has them."""
        while len(self.data) - self.at < size:
            if not self.grow():
                return False
        return True

    def skip_blank(self) -> bool:
        """Move over line ends; False at the end of the file."""
        while True:
            blank = _BLANK.match(self.data, self.at)
            self.at = blank.end() if blank else self.at
            if self.at < len(self.data):
                return True
            if not self.grow():
                return False

    def until_start(self) -> bytes:
        """Take everything up to the next line that starts a record, or up to the end of the file."""
        taken = []
        while (found := self.data.find(b"\n" + _START, self.at)) < 0:
            keep = min(len(self.data), max(self.at, len(self.data) - len(_START)))
            taken.append(self.data[self.at : keep])
            self.at = keep
            if not self.grow():
                taken.append(self.data[self.at :])
                self.at = len(self.data)
                return b"".join(taken)
        taken.append(self.data[self.at : found])
        self.at = found + 1
        return b"".join(taken)


def records(chunks: Iterator[bytes], ledger: Ledger) -> Iterator[Record]:
    """Yield the records of a decompressed WARC or WET file.

    Every repair is noted in the ledger: LF-only headers, a wrong or missing Content-Length, a record inside
    another one's block, bytes between records, a record cut off by the end of the file.
    """
    buffer, number = _Buffer(chunks), 0
    while buffer.skip_blank():
        buffer.ensure(len(_START))
        if not buffer.data.startswith(_START, buffer.at):
            ledger.note("bytes outside any WARC record", len(buffer.until_start()))
            continue
        headers = _headers(buffer, ledger)
        if headers is None:
            continue
        body, complete = _body(buffer, headers, ledger)
        yield Record(number, headers, body, complete)
        number += 1


def _headers(buffer: _Buffer, ledger: Ledger) -> dict[str, str] | None:
    while (end := _header_end(buffer)) < 0:
        if len(buffer.data) - buffer.at > _MAX_HEADER_BYTES:
            ledger.note("WARC header without an end")
            buffer.at += len(_START)
            return None
        if not buffer.grow():
            ledger.note("truncated WARC record")
            buffer.at = len(buffer.data)
            return None
    head = buffer.data[buffer.at : end].rstrip(b"\r\n")
    buffer.at = end
    if b"\r" not in head:
        ledger.note("WARC record with LF-only header lines")
    fields = [line.partition(":") for line in head.decode("utf-8", "replace").split("\n")]
    return {_lower(name): value.partition("\r")[0].strip() for name, colon, value in fields if colon}


def _header_end(buffer: _Buffer) -> int:
    """Where the block begins, behind the first empty line whatever its line ends; -1 while it is not there."""
    limit = buffer.at + _MAX_HEADER_BYTES
    found = buffer.data.find(b"\n\r\n", buffer.at, limit)
    lf_only = buffer.data.find(b"\n\n", buffer.at, limit if found < 0 else found + 1)
    return lf_only + 2 if lf_only >= 0 else found + 3 if found >= 0 else -1


@lru_cache(maxsize=256)
def _lower(name: str) -> str:
    return name.strip().lower()


def _body(buffer: _Buffer, headers: dict[str, str], ledger: Ledger) -> tuple[bytes, bool]:
    """The content block that starts at the read position, and whether it is whole."""
    length = headers.get("content-length", "")
    if not length.isdecimal():
        ledger.note("WARC record without a valid Content-Length")
        return buffer.until_start().rstrip(b"\r\n"), True
    size = int(length)
    if size > _MAX_BODY_BYTES:
        ledger.note("WARC record over 64 MiB, left out")
        left = size
        while left > 0 and buffer.ensure(1):
            step = min(left, len(buffer.data) - buffer.at)
            buffer.at, left = buffer.at + step, left - step
        return b"", left == 0
    complete = buffer.ensure(size)
    body = buffer.data[buffer.at : buffer.at + size]
    if _START in body and (nested := _NESTED.search(body)):
        ledger.note("WARC record inside another record's block")
        buffer.at += nested.end()
        return body[: nested.start()].rstrip(b"\r\n"), True
    buffer.at += len(body)
    if not complete:
        ledger.note("truncated WARC record")
        return body, False
    if buffer.skip_blank():
        buffer.ensure(len(_START))
        if not buffer.data.startswith(_START, buffer.at):
            ledger.note("WARC record longer than its Content-Length")
            body += buffer.until_start().rstrip(b"\r\n")
    return body, True
