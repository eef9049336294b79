"""Stored bytes: plain, gzip, xz, zstd and bzip2 files read in bounded memory, whatever state they are in."""

from __future__ import annotations

import bz2
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import zstandard
from isal import isal_zlib
from isal.igzip_lib import IsalError

from xling.text.document import Ledger

CHUNK_BYTES = 1 << 20
DAMAGED: Any = (OSError, IsalError, lzma.LZMAError, zstandard.ZstdError)
_MAGIC: dict[bytes, str] = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
}


def compression(head: bytes) -> str:
    """How a file that starts with ``head`` is compressed, or "" for not at all; bytes do not lie."""
    return next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "")


def chunks(path: Path, ledger: Ledger) -> Iterator[bytes]:
    """Yield the decompressed bytes of ``path`` in pieces of at most about a megabyte.

    A truncated or damaged file yields what can be read; the ledger notes what happened.
    """
    try:
        yield from whole_chunks(path)
    except EOFError:
        ledger.note(f"truncated {_kind(path)} file")
    except DAMAGED as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk failed, not the format
        ledger.note(f"damaged {_kind(path)} file, rest not read")


def _kind(path: Path) -> str:
    with path.open("rb") as raw:
        return compression(raw.read(6))


def whole_chunks(path: Path) -> Iterator[bytes]:
    """Yield the decompressed bytes of ``path``, all of them.

    Raises:
        EOFError: it is cut off, after what could be read.
        DAMAGED: one of these errors: it is damaged.
    """
    with path.open("rb") as raw:
        kind = compression(raw.read(6))
        raw.seek(0)
        read = _Frames(raw, _FRAMES[kind]).read if kind else raw.read
        while chunk := read(CHUNK_BYTES):
            yield chunk


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
    """Yield the lines of ``path`` without line ends; one over ``max_bytes`` is noted and left out."""
    rest, skipping = b"", False
    for chunk in chunks(path, ledger):
        first, *others = chunk.split(b"\n")
        rest += first
        if others:
            if not skipping:
                yield rest.removesuffix(b"\r")
            skipping = False
            for line in others[:-1]:
                yield line.removesuffix(b"\r")
            rest = others[-1]
        elif len(rest) > max_bytes:
            if not skipping:
                ledger.note("line too long, left out")
            rest, skipping = b"", True
    if rest and not skipping:
        yield rest.removesuffix(b"\r")


class _Frames:
    """The members of a compressed file as one stream.

    Library file objects either lose what they have read of a truncated file or do not tell it from a whole
    one; this yields every byte that can be had, then raises.
    """

    def __init__(self, raw: BinaryIO, make: Callable[[], Any]) -> None:
        self._raw, self._make, self._frame = raw, make, make()
        self._rest, self._inside, self._hungry = b"", False, True

    def read(self, size: int) -> bytes:
        """At least one byte and about ``size`` at most; b"" at the end.

        Raises:
            EOFError: the file ends inside a member.
        """
        while True:
            if not self._rest and self._hungry:
                # What a member leaves over is copied: little, since crawls have a member a record.
                self._rest = self._raw.read(size >> 6)
                if not self._rest:
                    return self._last(size)
            if not self._inside:
                self._rest = self._rest.lstrip(b"\0")  # padding between members
                if not self._rest:
                    continue
            self._inside = True
            made: bytes = self._frame.decompress(self._rest, size)
            if self._frame.eof:
                self._rest, self._inside, self._hungry = self._frame.unused_data, False, True
                self._frame = self._make()
            else:
                self._rest = getattr(self._frame, "unconsumed_tail", b"")
                self._hungry = getattr(self._frame, "needs_input", True)
            if made:
                return made

    def _last(self, size: int) -> bytes:
        """What a member holds back when the file has ended."""
        made: bytes = self._frame.decompress(b"", size) if self._inside else b""
        if self._frame.eof:
            self._inside = False
        if self._inside and not made:
            raise EOFError("the last member is not complete")
        return made


class _ZstdFrame:
    """One zstd frame with the methods of the standard library's decompressors."""

    def __init__(self) -> None:
        self._frame = zstandard.ZstdDecompressor().decompressobj()

    def decompress(self, data: bytes, size: int) -> bytes:
        """Everything in ``data``: frames shrink text about fourfold, so a piece of the file is little."""
        return self._frame.decompress(data) if data else b""

    @property
    def eof(self) -> bool:
        """Whether the frame is complete."""
        return self._frame.eof

    @property
    def unused_data(self) -> bytes:
        """What follows the frame."""
        return self._frame.unused_data


_FRAMES: dict[str, Callable[[], Any]] = {
    "gzip": lambda: isal_zlib.decompressobj(31),
    "xz": lzma.LZMADecompressor,
    "bzip2": bz2.BZ2Decompressor,
    "zstd": _ZstdFrame,
}
