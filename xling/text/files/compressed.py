"""Robust reading of plain, gzip, xz, zstd and bzip2 files in bounded memory, even if they are damaged."""

from __future__ import annotations

import bz2
import lzma
import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import zstandard
from isal import isal_zlib
from isal.igzip_lib import IsalError

from xling.core.errors import UserError
from xling.text.document import STORED, UNPACKED, Ledger
from xling.text.files.encodings import utf8_chunks

CHUNK_BYTES = 1 << 20
MAX_LINE_BYTES = 1 << 26
"""The longest line of running text that is read."""
MAX_CELL_BYTES = 1 << 22
"""The longest line or cell of sentence pairs, labels, predictions and dictionaries that is read."""
DAMAGE_ERRORS: Any = (OSError, IsalError, lzma.LZMAError, zstandard.ZstdError)
_MAGIC: dict[bytes, str] = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    # Frames to be skipped, which parallel and seekable compressors write first.
    **{bytes([0x50 + number]) + b"\x2a\x4d\x18": "zstd" for number in range(16)},
}
KIND_OF_SUFFIX = {".gz": "gzip", ".xz": "xz", ".zst": "zstd", ".bz2": "bzip2"}
_MEMBER_SIGNATURES = {
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
_SHOWN_BYTES = 400
_OTHER_ENDS = tuple(char.encode() for char in "\u2028\u2029\x85\x0b\x1e\x1c\x1d\x1f")
_MEMORY_BYTES = 1 << 28  # memory limit of a decompressor; the largest presets take about 100 MB
_MAX_WINDOW_BYTES = 1 << 31  # of zstd --long=31, which Dolma and OSCAR are made with


def raise_if_of_machine(error: BaseException) -> None:
    """Raise an error of the machine, such as a full disk: what is read may be whole."""
    if isinstance(error, OSError) and error.errno is not None:
        raise error


def detect_compression(head: bytes) -> str:
    """Detect the compression from the first bytes of a file; "" if it is not compressed."""
    return next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "")


class DamagedBytes(bytes):
    """The last output of a damaged member of a compressed file; bytes of the file are missing after it.

    These bytes may be wrong, since the member's checksum fails.
    """


def read_chunks(path: Path, ledger: Ledger) -> Iterator[bytes]:
    """Yield the decompressed bytes of ``path`` in pieces of about a megabyte at most.

    A damaged stretch loses only the members that it touches. A `DamagedBytes` piece marks it, and reading
    continues at the next member. The ledger's ``stored`` bytes balance: the file's bytes equal those read
    plus those lost.
    """
    with path.open("rb") as raw:
        size = os.fstat(raw.fileno()).st_size
        ledger.count_bytes(STORED, "in", size)
        kind, start = _find_kind(raw, path)
        if start:
            ledger.drop_bytes(f"damaged {kind} member", start, STORED)
        members = _Members(raw, kind, start) if kind else None
        num_lost = start
        try:
            if members is None:
                while chunk := raw.read(CHUNK_BYTES):
                    yield chunk
                ledger.count_bytes(STORED, "read", raw.tell())
                return
            while reason := (yield from _until_damage(members, ledger)):
                sound_output, suspect_output, num_skipped = members.skip_damage(size)
                num_lost += num_skipped
                if num_skipped:
                    ledger.drop_bytes(reason, num_skipped, STORED)
                if sound_output:
                    yield sound_output
                yield DamagedBytes(suspect_output)
            ledger.count_bytes(STORED, "read", members.num_read)
        except GeneratorExit:  # max_docs was reached
            num_read = members.num_read if members else raw.tell()
            ledger.count_bytes(STORED, "read", num_read)
            ledger.count_bytes(STORED, "not wanted", size - num_lost - num_read)
            raise


def _until_damage(members: _Members, ledger: Ledger) -> Generator[bytes, None, str]:
    """Yield pieces up to the end of the file or up to damage; return a description of the damage, or ""."""
    try:
        yield from members.read()
    except EOFError:
        ledger.count_event(f"truncated {members.kind} file")
        return f"truncated {members.kind} member"
    except DAMAGE_ERRORS as error:
        raise_if_of_machine(error)
        return f"damaged {members.kind} member"
    return ""


def _find_kind(raw: BinaryIO, path: Path) -> tuple[str, int]:
    """Return the compression of a file and the offset of its first member.

    If the head is damaged, use the file name.
    """
    kind = detect_compression(raw.read(6))
    kind_by_name = KIND_OF_SUFFIX.get(path.suffix, "")
    start = -1 if kind or not kind_by_name else _Members(raw, kind_by_name, 0).next_member(0, CHUNK_BYTES)
    raw.seek(0)
    return (kind, 0) if start < 0 else (kind_by_name, start)


def read_whole_chunks(path: Path) -> Iterator[bytes]:
    """Yield all decompressed bytes of ``path``.

    Raises:
        EOFError: the file is truncated; raised after what could be read.
        DAMAGED: one of these errors if the file is damaged.
    """
    with path.open("rb") as raw:
        kind = detect_compression(raw.read(6))
        raw.seek(0)
        if not kind:
            while chunk := raw.read(CHUNK_BYTES):
                yield chunk
            return
        members = _Members(raw, kind, 0)
        try:
            yield from members.read()
        except (EOFError, *DAMAGE_ERRORS):
            if held_output := members.take_held():
                yield held_output
            raise


class CutLine(bytes):
    """The first bytes of a line that is longer than the limit; the others were passed over."""


def split_lines(chunks: Iterable[bytes], max_bytes: int) -> Iterator[bytes]:
    """Yield lines without line feeds; of a line over ``max_bytes`` only a `CutLine`, so that memory stays bounded.

    A carriage return ends a line of a file that begins without any line feed. Of a file of one line in all, each of
    several line separators, form feeds or the like ends a line.
    """
    return _with_other_ends(_split_at_feeds(chunks, max_bytes), (*_OTHER_ENDS, b"\f"))


def _with_other_ends(lines: Iterator[bytes], ends: Sequence[bytes]) -> Iterator[bytes]:
    first = list(islice(lines, 2))
    if len(first) == 1 and not isinstance(first[0], CutLine):
        yield from _split_otherwise(first[0], ends)
    else:
        yield from first
        yield from lines


def _split_otherwise(line: bytes, ends: Sequence[bytes]) -> list[bytes]:
    """Return the lines of a file without line feeds, in which other characters may end them."""
    for end in ends:
        parts = line.removesuffix(end).split(end)
        is_json = line.lstrip().startswith((b"{", b"["))  # whose texts may hold such characters
        if len(parts) > 2 and not (is_json and not all(part.strip().endswith(b"}") for part in parts)):
            return parts
    return [line]


def _split_at_feeds(chunks: Iterable[bytes], max_bytes: int) -> Iterator[bytes]:
    parts: list[bytes] = []
    size, line_end = 0, b""
    for chunk in chunks:
        line_end = line_end or (b"\r" if b"\r" in chunk[:-1] and b"\n" not in chunk else b"\n")
        first_line, *later_lines = chunk.split(line_end)
        if size <= max_bytes:
            parts.append(first_line)
        size += len(first_line)
        for line in later_lines:
            yield _joined(parts, size, max_bytes)
            parts, size = [line], len(line)
    if size:
        yield _joined(parts, size, max_bytes)


def _joined(parts: list[bytes], size: int, max_bytes: int) -> bytes:
    return b"".join(parts) if size <= max_bytes else CutLine(parts[0][:_SHOWN_BYTES])


def read_lines(
    path: Path, ledger: Ledger, max_bytes: int = MAX_LINE_BYTES, lang: str = ""
) -> Iterator[bytes]:
    """Yield the lines of ``path`` in UTF-8 without line ends; lines over ``max_bytes`` or cut by damage are lost.

    The ledger's ``unpacked`` bytes, in UTF-8, balance, as those of `read_chunks` do. ``lang`` helps `utf8_chunks` to
    name the encoding of a file that it refuses. Of one line in all, each of several line separators ends a line.
    """
    return _with_other_ends(_fed_lines(path, ledger, max_bytes, lang), _OTHER_ENDS)


def _fed_lines(path: Path, ledger: Ledger, max_bytes: int, lang: str) -> Iterator[bytes]:
    line, num_skipped = b"", 0
    for chunk in utf8_chunks(read_chunks(path, ledger), path, lang):
        ledger.count_bytes(UNPACKED, "in", len(chunk))
        num_pending = len(line) + num_skipped
        first_line, *later_lines = chunk.split(b"\n")
        line += first_line
        if later_lines:
            num_lost = (
                ledger.drop_bytes("line too long", num_skipped + len(line), UNPACKED) if num_skipped else 0
            )
            ledger.count_bytes(UNPACKED, "read", num_pending + len(chunk) - len(later_lines[-1]) - num_lost)
            if not num_skipped:
                yield line.removesuffix(b"\r")
            for whole_line in later_lines[:-1]:
                yield whole_line.removesuffix(b"\r")
            line, num_skipped = later_lines[-1], 0
        if (isinstance(chunk, DamagedBytes) and line) or len(line) > max_bytes:
            num_skipped += len(line)
            line = b""
        if isinstance(chunk, DamagedBytes) and num_skipped:
            ledger.drop_bytes("line cut by damage", num_skipped, UNPACKED)
            num_skipped = 0
    if num_skipped:
        ledger.drop_bytes("line too long", num_skipped + len(line), UNPACKED)
    elif line:
        ledger.count_bytes(UNPACKED, "read", len(line))
        yield line.removesuffix(b"\r")


class _Members:
    """The members of a compressed file, from ``start`` on.

    Library file objects lose what they have read of a truncated file, do not distinguish it from a whole one,
    or stop at the first damaged byte. This class yields every readable byte, then raises, then continues.

    Attributes:
        num_read: bytes of the file that were decompressed without an error.
    """

    def __init__(self, raw: BinaryIO, kind: str, start: int) -> None:
        self.kind, self.num_read, self._num_whole_members = kind, 0, 0
        self._raw, self._new_decompressor = raw, _DECOMPRESSORS[kind]
        self._seek(start)

    def _seek(self, offset: int) -> None:
        self._raw.seek(offset)
        self._offset = self._member_start = self._released_offset = offset
        self._input, self._needs_input = b"", True
        self._held_output: list[bytes] = []

    def read(self) -> Iterator[bytes]:
        """Yield pieces of whole members, or of a large one.

        A small member is held back until its checksum is verified.

        Raises:
            EOFError: the file ends inside a member.
            DAMAGED: one of these errors.
        """
        finished_output: list[bytes] = []
        num_finished = 0
        while self._go_to_next_member():
            frame, num_held = self._new_decompressor(), 0
            try:
                while not frame.eof:
                    output = self._decompress_step(frame)
                    self._held_output.append(output)
                    num_held += len(output)
                    if num_held > CHUNK_BYTES:
                        yield b"".join([*finished_output, *self._release()])
                        finished_output, num_finished, num_held = [], 0, 0
            except (EOFError, *DAMAGE_ERRORS):
                if finished_output:
                    yield b"".join(finished_output)
                raise
            finished_output += self._release()
            num_finished += num_held
            self._num_whole_members += 1
            if num_finished >= _OUTPUT_BYTES:
                yield b"".join(finished_output)
                finished_output, num_finished = [], 0
        if any(finished_output):
            yield b"".join(finished_output)

    def _go_to_next_member(self) -> bool:
        """Move to the next member, skipping padding; return False at the end of the file."""
        while True:
            if not self._input:
                self._input = self._raw.read(_INPUT_BYTES)
                if not self._input:
                    return False
            padded = len(self._input)
            self._input = self._input.lstrip(b"\0")
            self.num_read += padded - len(self._input)
            self._offset += padded - len(self._input)
            if self._input:
                self._member_start = self._released_offset = self._offset
                return True

    def _decompress_step(self, frame: Any) -> bytes:
        if not self._input and self._needs_input:
            self._input = self._raw.read(_INPUT_BYTES)
            if not self._input:
                last_output: bytes = frame.decompress(b"", _OUTPUT_BYTES)
                if not last_output and not frame.eof:
                    raise EOFError("the last member is not complete")
                return last_output
        output: bytes = frame.decompress(self._input, _OUTPUT_BYTES)
        if frame.eof:
            self._input, self._needs_input = frame.unused_data, True
        else:
            self._input = getattr(frame, "unconsumed_tail", b"")
            self._needs_input = getattr(frame, "needs_input", True)
        self._offset = self._raw.tell() - len(self._input)
        return output

    def _release(self) -> list[bytes]:
        held_output, self._held_output = self._held_output, []
        self.num_read += self._offset - self._released_offset
        self._released_offset = self._offset
        return held_output

    def take_held(self) -> bytes:
        """Return the output of the member that raised that was not yielded yet."""
        held_output, self._held_output = b"".join(self._held_output), []
        return held_output

    def skip_damage(self, size: int) -> tuple[bytes, bytes, int]:
        """Move to the member after the one that raised, or to the end of the file, which has ``size`` bytes.

        Returns:
            Held output of the member if it is the only one; held output of one member among several, which
            may be wrong; and how many bytes of the file are lost.
        """
        held_output, damage_start, damage_end = self.take_held(), self._released_offset, self._offset
        next_start = self.next_member(max(damage_start, self._member_start + 1))
        self._seek(size if next_start < 0 else next_start)
        if next_start < 0 and not self._num_whole_members:
            self.num_read += damage_end - damage_start
            return held_output, b"", size - damage_end
        return b"", held_output, self._offset - damage_start

    def next_member(self, offset: int, limit: int = 1 << 62) -> int:
        """Return the offset of the next member at or after ``offset``.

        -1 if there is none within ``limit`` bytes.
        """
        data, position = b"", offset
        while position - offset < limit:
            self._raw.seek(position)
            chunk = self._raw.read(CHUNK_BYTES)
            if not chunk:
                break
            data_start = position - len(data)
            data += chunk
            for signature in _MEMBER_SIGNATURES[self.kind].finditer(data):
                if self._is_member(data_start + signature.start()):
                    return data_start + signature.start()
            position += len(chunk)
            data = data[-15:]  # these bytes may hold the start of a signature
        return -1

    def _is_member(self, offset: int) -> bool:
        """Return whether decompression works from ``offset`` on."""
        self._raw.seek(offset)
        frame = self._new_decompressor()
        try:
            output = frame.decompress(self._raw.read(_TRIAL_BYTES), _TRIAL_BYTES)
        except DAMAGE_ERRORS:
            return False
        return (
            bool(output) or frame.eof or self.kind != "gzip"
        )  # the others have signatures of 32 bits and more


class _ZstdFrame:
    """One zstd frame with the interface of the standard library's decompressors."""

    # The library cannot limit its output. 256 input bytes are at most 85 blocks of 128 kB.
    _INPUT_STEP_BYTES = 256

    def __init__(self) -> None:
        self._frame = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).decompressobj()
        self.unconsumed_tail = b""
        self._num_made, self._window, self._checked_bytes = 0, 0, _MEMORY_BYTES

    def decompress(self, data: bytes, size: int) -> bytes:
        """Decompress about ``size`` bytes from ``data``; the unused input is `unconsumed_tail`.

        Raises:
            UserError: the frame needs more memory than is free: up to 2 GiB for one made with ``zstd --long=31``.
        """
        output: list[bytes] = []
        offset = num_made = 0
        if data and not self._window:
            self._window = _window_bytes(data)
        while offset < len(data) and num_made < size and not self._frame.eof:
            try:
                output.append(self._frame.decompress(data[offset : offset + self._INPUT_STEP_BYTES]))
            except zstandard.ZstdError as error:
                if "not enough memory" in str(error):
                    raise _memory_error() from None
                raise
            num_made += len(output[-1])
            offset += self._INPUT_STEP_BYTES
        self._check_memory(num_made)
        self.unconsumed_tail = data[offset:]
        return b"".join(output)

    def _check_memory(self, num_made: int) -> None:
        """Check before a window that is over the usual limit fills the memory; the system gives it page by page."""
        self._num_made += num_made
        if self._checked_bytes <= self._num_made < self._window:
            self._checked_bytes += _MEMORY_BYTES
            if free_bytes() < 2 * _MEMORY_BYTES:
                raise _memory_error()

    @property
    def eof(self) -> bool:
        """Return whether the frame is complete."""
        return self._frame.eof

    @property
    def unused_data(self) -> bytes:
        """Return the bytes that follow the compressed frame."""
        return self._frame.unused_data + self.unconsumed_tail


def _window_bytes(data: bytes) -> int:
    """Return the window of a frame, 1 if it is not known (UserError: it needs a dictionary)."""
    try:
        frame = zstandard.get_frame_parameters(data)
    except zstandard.ZstdError:
        return 1
    if frame.dict_id and data.startswith(b"\x28\xb5\x2f\xfd"):
        raise UserError(
            f"a zstd file was compressed with a dictionary (number {frame.dict_id})",
            "files that need none",
            "unpack it: zstd -d -D DICTIONARY FILE.zst",
        )
    return int(frame.window_size)


def free_bytes() -> int:
    """Return the memory that is free on this machine and within the limit of its container."""
    free = [1 << 62]
    if match := re.search(r"MemAvailable:\s+(\d+) kB", _read_text(Path("/proc/meminfo"))):
        free.append(int(match[1]) << 10)
    limit, used = (_read_text(Path(f"/sys/fs/cgroup/memory.{name}")).strip() for name in ("max", "current"))
    if limit.isdecimal() and used.isdecimal():
        free.append(int(limit) - int(used))
    return min(free)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""


def _memory_error() -> UserError:
    return UserError(
        "a zstd file needs more memory than is free",
        f"up to {_MAX_WINDOW_BYTES >> 30} GiB for files of zstd --long=31",
        "use a machine with more memory, or compress the file again with --long=27 or less",
    )


_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: isal_zlib.decompressobj(31),
    "xz": lambda: lzma.LZMADecompressor(memlimit=_MEMORY_BYTES),
    "bzip2": bz2.BZ2Decompressor,
    "zstd": _ZstdFrame,
}
