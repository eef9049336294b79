"""Stored bytes: plain, gzip, xz, zstd and bzip2 files read in bounded memory, whatever state they are in."""

from __future__ import annotations

import bz2
import lzma
import os
import re
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import zstandard
from isal import isal_zlib
from isal.igzip_lib import IsalError

from xling.text.document import STORED, UNPACKED, Ledger

CHUNK_BYTES = 1 << 20
DAMAGED: Any = (OSError, IsalError, lzma.LZMAError, zstandard.ZstdError)
_MAGIC: dict[bytes, str] = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
}
_ENDINGS = {".gz": "gzip", ".xz": "xz", ".zst": "zstd", ".bz2": "bzip2"}
_MEMBER = {
    "gzip": re.compile(rb"\x1f\x8b\x08[\x00-\x1f]"),
    "xz": re.compile(rb"\xfd7zXZ\x00"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd"),
    "bzip2": re.compile(rb"BZh[1-9](?:1AY&SY|\x17\x72\x45\x38\x50\x90)"),
}
_INPUT_BYTES = 1 << 14  # what a member leaves over is copied: little, since crawls have a member a record
_OUTPUT_BYTES = 1 << 18
_TRIAL_BYTES = 1 << 16
_MEMORY_BYTES = 1 << 28  # of a decompressor; the largest presets take about 100 MB


def compression(head: bytes) -> str:
    """How a file that starts with ``head`` is compressed, or "" for not at all; bytes do not lie."""
    return next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "")


class Damaged(bytes):
    """What a damaged member of a compressed file gave last; bytes of the file are missing behind it.

    They may be wrong, since the checksum behind them does not hold.
    """


def chunks(path: Path, ledger: Ledger) -> Iterator[bytes]:
    """Yield the decompressed bytes of ``path`` in pieces of about a megabyte at most.

    A damaged stretch costs the members that it touches. A `Damaged` piece stands for it, and reading goes on at the
    next member. The ledger's ``stored`` bytes balance: those of the file are those read and those lost.
    """
    with path.open("rb") as raw:
        size = os.fstat(raw.fileno()).st_size
        ledger.account(STORED, "in", size)
        kind, start = _find_kind(raw, path)
        if start:
            ledger.lose(f"damaged {kind} member", start, STORED)
        members = _Members(raw, kind, start) if kind else None
        lost = start
        try:
            if members is None:
                while chunk := raw.read(CHUNK_BYTES):
                    yield chunk
                ledger.account(STORED, "read", raw.tell())
                return
            while reason := (yield from _until_damage(members, ledger)):
                sound, suspect, num = members.skip_damage(size)
                lost += num
                if num:
                    ledger.lose(reason, num, STORED)
                if sound:
                    yield sound
                yield Damaged(suspect)
            ledger.account(STORED, "read", members.num_read)
        except GeneratorExit:  # max_docs
            num_read = members.num_read if members else raw.tell()
            ledger.account(STORED, "read", num_read)
            ledger.account(STORED, "not wanted", size - lost - num_read)
            raise


def _until_damage(members: _Members, ledger: Ledger) -> Generator[bytes, None, str]:
    """Yield pieces up to the end of the file or up to damage; return what the damage is, or ""."""
    try:
        yield from members.read()
    except EOFError:
        ledger.note(f"truncated {members.kind} file")
        return f"truncated {members.kind} member"
    except DAMAGED as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk failed, not the format
        return f"damaged {members.kind} member"
    return ""


def _find_kind(raw: BinaryIO, path: Path) -> tuple[str, int]:
    """How a file is compressed, and where its first member starts: where the head is damaged, the name decides."""
    kind = compression(raw.read(6))
    named = _ENDINGS.get(path.suffix, "")
    found = -1 if kind or not named else _Members(raw, named, 0).next_member(0, CHUNK_BYTES)
    raw.seek(0)
    return (kind, 0) if found < 0 else (named, found)


def whole_chunks(path: Path) -> Iterator[bytes]:
    """Yield the decompressed bytes of ``path``, all of them.

    Raises:
        EOFError: it is cut off, after what could be read.
        DAMAGED: one of these errors: it is damaged.
    """
    with path.open("rb") as raw:
        kind = compression(raw.read(6))
        raw.seek(0)
        if not kind:
            while chunk := raw.read(CHUNK_BYTES):
                yield chunk
            return
        members = _Members(raw, kind, 0)
        try:
            yield from members.read()
        except (EOFError, *DAMAGED):
            if held := members.take_held():
                yield held
            raise


def whole_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of ``path`` without line feeds; raises what `whole_chunks` raises."""
    rest = b""
    for chunk in whole_chunks(path):
        first, *others = chunk.split(b"\n")
        rest += first
        if others:
            yield rest
            yield from others[:-1]
            rest = others[-1]
    if rest:
        yield rest


def lines(path: Path, ledger: Ledger, max_bytes: int = 1 << 26) -> Iterator[bytes]:
    """Yield the lines of ``path`` without line ends; one over ``max_bytes`` and one cut by damage are lost.

    The ledger's ``unpacked`` bytes balance, as those of `chunks` do.
    """
    line, num_skipped = b"", 0
    for chunk in chunks(path, ledger):
        ledger.account(UNPACKED, "in", len(chunk))
        before = len(line) + num_skipped
        first, *others = chunk.split(b"\n")
        line += first
        if others:
            lost = ledger.lose("line too long", num_skipped + len(line), UNPACKED) if num_skipped else 0
            ledger.account(UNPACKED, "read", before + len(chunk) - len(others[-1]) - lost)
            if not num_skipped:
                yield line.removesuffix(b"\r")
            for whole in others[:-1]:
                yield whole.removesuffix(b"\r")
            line, num_skipped = others[-1], 0
        if (isinstance(chunk, Damaged) and line) or len(line) > max_bytes:
            num_skipped += len(line)
            line = b""
        if isinstance(chunk, Damaged) and num_skipped:
            ledger.lose("line cut by damage", num_skipped, UNPACKED)
            num_skipped = 0
    if num_skipped:
        ledger.lose("line too long", num_skipped + len(line), UNPACKED)
    elif line:
        ledger.account(UNPACKED, "read", len(line))
        yield line.removesuffix(b"\r")


class _Members:
    """The members of a compressed file, from ``start`` on.

    Library file objects lose what they have read of a truncated file, do not tell it from a whole one, or stop at
    the first damaged byte; this yields every byte that can be had, then raises, then goes on.

    Attributes:
        num_read: bytes of the file that were decompressed without an error.
    """

    def __init__(self, raw: BinaryIO, kind: str, start: int) -> None:
        self.kind, self.num_read, self._num_whole = kind, 0, 0
        self._raw, self._make = raw, _FRAMES[kind]
        self._move(start)

    def _move(self, offset: int) -> None:
        self._raw.seek(offset)
        self._at = self._start = self._released = offset
        self._rest, self._hungry = b"", True
        self._held: list[bytes] = []

    def read(self) -> Iterator[bytes]:
        """Yield pieces of whole members, or of a large one; a small member is held until its checksum is right.

        Raises:
            EOFError: the file ends inside a member.
            DAMAGED: one of these errors.
        """
        done: list[bytes] = []
        num_done = 0
        while self._starts():
            frame, num_held = self._make(), 0
            try:
                while not frame.eof:
                    made = self._step(frame)
                    self._held.append(made)
                    num_held += len(made)
                    if num_held > CHUNK_BYTES:
                        yield b"".join([*done, *self._release()])
                        done, num_done, num_held = [], 0, 0
            except (EOFError, *DAMAGED):
                if done:
                    yield b"".join(done)
                raise
            done += self._release()
            num_done += num_held
            self._num_whole += 1
            if num_done >= _OUTPUT_BYTES:
                yield b"".join(done)
                done, num_done = [], 0
        if any(done):
            yield b"".join(done)

    def _starts(self) -> bool:
        """Move to the next member, over padding; False at the end of the file."""
        while True:
            if not self._rest:
                self._rest = self._raw.read(_INPUT_BYTES)
                if not self._rest:
                    return False
            padded = len(self._rest)
            self._rest = self._rest.lstrip(b"\0")
            self.num_read += padded - len(self._rest)
            self._at += padded - len(self._rest)
            if self._rest:
                self._start = self._released = self._at
                return True

    def _step(self, frame: Any) -> bytes:
        if not self._rest and self._hungry:
            self._rest = self._raw.read(_INPUT_BYTES)
            if not self._rest:
                last: bytes = frame.decompress(b"", _OUTPUT_BYTES)
                if not last and not frame.eof:
                    raise EOFError("the last member is not complete")
                return last
        made: bytes = frame.decompress(self._rest, _OUTPUT_BYTES)
        if frame.eof:
            self._rest, self._hungry = frame.unused_data, True
        else:
            self._rest = getattr(frame, "unconsumed_tail", b"")
            self._hungry = getattr(frame, "needs_input", True)
        self._at = self._raw.tell() - len(self._rest)
        return made

    def _release(self) -> list[bytes]:
        held, self._held = self._held, []
        self.num_read += self._at - self._released
        self._released = self._at
        return held

    def take_held(self) -> bytes:
        """What the member that raised gave and was not yielded."""
        held, self._held = b"".join(self._held), []
        return held

    def skip_damage(self, size: int) -> tuple[bytes, bytes, int]:
        """Move to the member behind the one that raised, or to the end of the file, which has ``size`` bytes.

        Returns:
            What was held of the member, if it is the only one; what was held of one among several, which may be wrong;
            and how many bytes of the file are lost.
        """
        held, since, at = self.take_held(), self._released, self._at
        found = self.next_member(max(since, self._start + 1))
        self._move(size if found < 0 else found)
        if found < 0 and not self._num_whole:
            self.num_read += at - since
            return held, b"", size - at
        return b"", held, self._at - since

    def next_member(self, offset: int, limit: int = 1 << 62) -> int:
        """Where a member starts at or behind ``offset``; -1 if none does within ``limit`` bytes."""
        data, at = b"", offset
        while at - offset < limit:
            self._raw.seek(at)
            chunk = self._raw.read(CHUNK_BYTES)
            if not chunk:
                break
            first = at - len(data)
            data += chunk
            for found in _MEMBER[self.kind].finditer(data):
                if self._is_member(first + found.start()):
                    return first + found.start()
            at += len(chunk)
            data = data[-15:]  # of which no whole signature was in sight
        return -1

    def _is_member(self, offset: int) -> bool:
        """Whether decompression works from ``offset`` on."""
        self._raw.seek(offset)
        frame = self._make()
        try:
            made = frame.decompress(self._raw.read(_TRIAL_BYTES), _TRIAL_BYTES)
        except DAMAGED:
            return False
        return (
            bool(made) or frame.eof or self.kind != "gzip"
        )  # the others have signatures of 32 bits and more


class _ZstdFrame:
    """One zstd frame with the methods of the standard library's decompressors."""

    # The library has no bound on its output. 256 bytes are at most 85 blocks of 128 kB.
    _STEP = 256

    def __init__(self) -> None:
        self._frame = zstandard.ZstdDecompressor(max_window_size=_MEMORY_BYTES).decompressobj()
        self.unconsumed_tail = b""

    def decompress(self, data: bytes, size: int) -> bytes:
        """About ``size`` bytes of what is in ``data``; the rest is `unconsumed_tail`."""
        made: list[bytes] = []
        at = num_made = 0
        while at < len(data) and num_made < size and not self._frame.eof:
            made.append(self._frame.decompress(data[at : at + self._STEP]))
            num_made += len(made[-1])
            at += self._STEP
        self.unconsumed_tail = data[at:]
        return b"".join(made)

    @property
    def eof(self) -> bool:
        """Whether the frame is complete."""
        return self._frame.eof

    @property
    def unused_data(self) -> bytes:
        """What follows the frame."""
        return self._frame.unused_data + self.unconsumed_tail


_FRAMES: dict[str, Callable[[], Any]] = {
    "gzip": lambda: isal_zlib.decompressobj(31),
    "xz": lambda: lzma.LZMADecompressor(memlimit=_MEMORY_BYTES),
    "bzip2": bz2.BZ2Decompressor,
    "zstd": _ZstdFrame,
}
