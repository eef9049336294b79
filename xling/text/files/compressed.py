"""Robust reading of plain, gzip, xz, zstd and bzip2 files in bounded memory, even if they are damaged."""

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
_INPUT_BYTES = (
    1 << 14
)  # small, since the rest of each member is copied, and crawls have one member per record
_OUTPUT_BYTES = 1 << 18
_TRIAL_BYTES = 1 << 16
_MEMORY_BYTES = 1 << 28  # memory limit of a decompressor; the largest presets take about 100 MB


def compression(head: bytes) -> str:
    """Detect the compression from the first bytes of a file; "" if it is not compressed."""
    return next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "")


class Damaged(bytes):
    """The last output of a damaged member of a compressed file; bytes of the file are missing after it.

    These bytes may be wrong, since the member's checksum fails.
    """


def chunks(path: Path, ledger: Ledger) -> Iterator[bytes]:
    """Yield the decompressed bytes of ``path`` in pieces of about a megabyte at most.

    A damaged stretch loses only the members that it touches. A `Damaged` piece marks it, and reading
    continues at the next member. The ledger's ``stored`` bytes balance: the file's bytes equal those read
    plus those lost.
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
        except GeneratorExit:  # max_docs was reached
            num_read = members.num_read if members else raw.tell()
            ledger.account(STORED, "read", num_read)
            ledger.account(STORED, "not wanted", size - lost - num_read)
            raise


def _until_damage(members: _Members, ledger: Ledger) -> Generator[bytes, None, str]:
    """Yield pieces up to the end of the file or up to damage; return a description of the damage, or ""."""
    try:
        yield from members.read()
    except EOFError:
        ledger.note(f"truncated {members.kind} file")
        return f"truncated {members.kind} member"
    except DAMAGED as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # an error of the disk, not of the format
        return f"damaged {members.kind} member"
    return ""


def _find_kind(raw: BinaryIO, path: Path) -> tuple[str, int]:
    """Return the compression of a file and the offset of its first member.

    If the head is damaged, use the file name.
    """
    kind = compression(raw.read(6))
    named = _ENDINGS.get(path.suffix, "")
    start = -1 if kind or not named else _Members(raw, named, 0).next_member(0, CHUNK_BYTES)
    raw.seek(0)
    return (kind, 0) if start < 0 else (named, start)


def whole_chunks(path: Path) -> Iterator[bytes]:
    """Yield all decompressed bytes of ``path``.

    Raises:
        EOFError: the file is truncated; raised after what could be read.
        DAMAGED: one of these errors if the file is damaged.
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
    """Yield the lines of ``path`` without line ends; lines over ``max_bytes`` or cut by damage are lost.

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

    Library file objects lose what they have read of a truncated file, do not distinguish it from a whole one,
    or stop at the first damaged byte. This class yields every readable byte, then raises, then continues.

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
        """Yield pieces of whole members, or of a large one.

        A small member is held back until its checksum is verified.

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
                    output = self._step(frame)
                    self._held.append(output)
                    num_held += len(output)
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
        """Move to the next member, skipping padding; return False at the end of the file."""
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
        output: bytes = frame.decompress(self._rest, _OUTPUT_BYTES)
        if frame.eof:
            self._rest, self._hungry = frame.unused_data, True
        else:
            self._rest = getattr(frame, "unconsumed_tail", b"")
            self._hungry = getattr(frame, "needs_input", True)
        self._at = self._raw.tell() - len(self._rest)
        return output

    def _release(self) -> list[bytes]:
        held, self._held = self._held, []
        self.num_read += self._at - self._released
        self._released = self._at
        return held

    def take_held(self) -> bytes:
        """Return the output of the member that raised that was not yielded yet."""
        held, self._held = b"".join(self._held), []
        return held

    def skip_damage(self, size: int) -> tuple[bytes, bytes, int]:
        """Move to the member after the one that raised, or to the end of the file, which has ``size`` bytes.

        Returns:
            Held output of the member if it is the only one; held output of one member among several, which
            may be wrong; and how many bytes of the file are lost.
        """
        held, since, at = self.take_held(), self._released, self._at
        next_start = self.next_member(max(since, self._start + 1))
        self._move(size if next_start < 0 else next_start)
        if next_start < 0 and not self._num_whole:
            self.num_read += at - since
            return held, b"", size - at
        return b"", held, self._at - since

    def next_member(self, offset: int, limit: int = 1 << 62) -> int:
        """Return the offset of the next member at or after ``offset``.

        -1 if there is none within ``limit`` bytes.
        """
        data, at = b"", offset
        while at - offset < limit:
            self._raw.seek(at)
            chunk = self._raw.read(CHUNK_BYTES)
            if not chunk:
                break
            first = at - len(data)
            data += chunk
            for signature in _MEMBER[self.kind].finditer(data):
                if self._is_member(first + signature.start()):
                    return first + signature.start()
            at += len(chunk)
            data = data[-15:]  # these bytes may hold the start of a signature
        return -1

    def _is_member(self, offset: int) -> bool:
        """Return whether decompression works from ``offset`` on."""
        self._raw.seek(offset)
        frame = self._make()
        try:
            output = frame.decompress(self._raw.read(_TRIAL_BYTES), _TRIAL_BYTES)
        except DAMAGED:
            return False
        return (
            bool(output) or frame.eof or self.kind != "gzip"
        )  # the others have signatures of 32 bits and more


class _ZstdFrame:
    """One zstd frame with the interface of the standard library's decompressors."""

    # The library cannot limit its output. 256 input bytes are at most 85 blocks of 128 kB.
    _STEP = 256

    def __init__(self) -> None:
        self._frame = zstandard.ZstdDecompressor(max_window_size=_MEMORY_BYTES).decompressobj()
        self.unconsumed_tail = b""

    def decompress(self, data: bytes, size: int) -> bytes:
        """Decompress about ``size`` bytes from ``data``; the unused input is `unconsumed_tail`."""
        output: list[bytes] = []
        at = num_made = 0
        while at < len(data) and num_made < size and not self._frame.eof:
            output.append(self._frame.decompress(data[at : at + self._STEP]))
            num_made += len(output[-1])
            at += self._STEP
        self.unconsumed_tail = data[at:]
        return b"".join(output)

    @property
    def eof(self) -> bool:
        """Return whether the frame is complete."""
        return self._frame.eof

    @property
    def unused_data(self) -> bytes:
        """Return the bytes that follow the compressed frame."""
        return self._frame.unused_data + self.unconsumed_tail


_FRAMES: dict[str, Callable[[], Any]] = {
    "gzip": lambda: isal_zlib.decompressobj(31),
    "xz": lambda: lzma.LZMADecompressor(memlimit=_MEMORY_BYTES),
    "bzip2": bz2.BZ2Decompressor,
    "zstd": _ZstdFrame,
}
