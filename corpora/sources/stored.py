"""Stored bytes: plain, gzip, xz, zstd and bzip2 files read in bounded memory, whatever state they are in."""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

import zstandard
from isal import igzip

from corpora.document import Ledger

CHUNK_BYTES = 1 << 20
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
    with path.open("rb") as raw:
        kind = compression(raw.read(6))
        raw.seek(0)
        read = _open(kind, raw)
        try:
            while chunk := read(CHUNK_BYTES):
                yield chunk
        except EOFError:
            ledger.note(f"truncated {kind} file")
        except (OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the disk failed, not the format
            ledger.note(f"damaged {kind} file, rest not read")


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


def _open(kind: str, raw: BinaryIO) -> Callable[[int], bytes]:
    if kind == "gzip":
        return cast(Callable[[int], bytes], igzip.open(raw, "rb").read1)
    if kind == "xz":
        return lzma.LZMAFile(raw).read1
    if kind == "bzip2":
        return bz2.BZ2File(raw).read1
    if kind == "zstd":
        return _Zstd(raw).read
    return raw.read


class _Zstd:
    """Frames of a zstd file; unlike the library's reader it tells a truncated file from a whole one."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._inside = False

    def read(self, size: int) -> bytes:
        """About ``size`` bytes or more; b"" at the end.

        Raises:
            EOFError: the file ends inside a frame.
        """
        made = io.BytesIO()
        while made.tell() < size and (data := self._raw.read(size >> 4)):
            while data:
                self._inside = True
                made.write(self._frame.decompress(data))
                data = b""
                if self._frame.eof:
                    data = self._frame.unused_data
                    self._frame = zstandard.ZstdDecompressor().decompressobj()
                    self._inside = False
        if not made.tell() and self._inside:
            raise EOFError("zstd frame is not complete")
        return made.getvalue()
