"""Damaged files by a seed: a crawl or a dump, and what a disk, a network or a bad writer makes of it."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
from dataclasses import dataclass

import zstandard

KINDS = ("members", "plain", "gzip", "zstd", "bzip2", "xz", "text", "dump")
_PACK = {
    "gzip": (".gz", lambda data: gzip.compress(data, mtime=0)),
    "zstd": (".zst", zstandard.ZstdCompressor().compress),
    "bzip2": (".bz2", bz2.compress),
    "xz": (".xz", lzma.compress),
}
_LIES = ("0", "1", "7", "99999", str(1 << 40), "9" * 5000, "-1", "", "many", "٣")


@dataclass(frozen=True)
class DamagedFile:
    """A file and what must be read of it.

    Attributes:
        scheme: source that reads it.
        name: of the file.
        data: its bytes.
        texts: all texts before the damage.
        intact: those in records that no damaged byte touches; empty where that cannot be said.
    """

    scheme: str
    name: str
    data: bytes
    texts: list[str]
    intact: list[str]


def text_of(seed: int, number: int) -> str:
    """A text that no other record has, of some lines, which does not compress to nothing."""
    rng = random.Random(seed * 1000 + number)
    lines = rng.randint(1, 30)
    words = ["".join(rng.choices("abcdeghiklmnoprstuwyz", k=rng.randint(2, 9))) for _ in range(12 * lines)]
    return f"record {number}\n" + "\n".join(" ".join(words[i * 12 : i * 12 + 12]) for i in range(lines))


def record(text: str, length: str | None = None) -> bytes:
    """A WET record; ``length`` lies about its Content-Length."""
    body = text.encode()
    head = f"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: {len(body) if length is None else length}\r\n\r\n"
    return head.encode() + body + b"\r\n\r\n"


def harm(data: bytes, rng: random.Random) -> tuple[bytes, int, int]:
    """``data`` with one stretch damaged, and the first and last byte of the stretch in ``data``."""
    first = rng.randrange(len(data))
    last = min(len(data), first + rng.choice((1, 2, 20, 300, 3000)))
    old = data[first:last]
    new = {
        "flip": lambda: bytes(byte ^ (1 << rng.randrange(8)) for byte in old),
        "zero": lambda: bytes(len(old)),
        "noise": lambda: rng.randbytes(len(old)),
        "delete": lambda: b"",
        "insert": lambda: rng.randbytes(rng.randint(1, 500)) + old,
        "double": lambda: old + old,
        "cut": lambda: b"",
    }
    how = rng.choice(sorted(new))
    if how == "cut":
        return data[:first], first, len(data)
    return data[:first] + new[how]() + data[last:], first, last


def damaged_file(seed: int) -> DamagedFile:
    """The file of one seed; two files of the same seed are equal."""
    rng = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    texts = [text_of(seed, i) for i in range(12)]
    if kind == "text":
        data, _, _ = harm("\n\n".join(texts).encode(), rng)
        return DamagedFile("text", "a.txt", data, texts, [])
    if kind == "dump":
        pages = "".join(
            f"<page><title>T</title><ns>0</ns><id>{i}</id><revision><text>{text}</text></revision></page>\n"
            for i, text in enumerate(texts)
        )
        data, _, _ = harm(f"<mediawiki>\n{pages}</mediawiki>\n".encode(), rng)
        return DamagedFile(
            "wiki", "a.xml.bz2", harm(bz2.compress(data), rng)[0] if seed % 3 else data, texts, []
        )
    liar = rng.randrange(24)
    parts = [record(text, rng.choice(_LIES) if i == liar else None) for i, text in enumerate(texts)]
    if kind in ("members", "plain"):
        parts = [gzip.compress(part, mtime=0) if kind == "members" else part for part in parts]
        data, first, last = harm(b"".join(parts), rng)
        ends = [sum(map(len, parts[: i + 1])) for i in range(len(parts))]
        intact = [
            text
            for i, (text, end) in enumerate(zip(texts, ends, strict=True))
            if (end <= first or end - len(parts[i]) >= last) and i != liar
        ]
        return DamagedFile("wet", "a.wet.gz" if kind == "members" else "a.wet", data, texts, intact)
    ending, pack = _PACK[kind]
    whole = b"".join(parts)
    data = pack(harm(whole, rng)[0]) if seed % 3 == 0 else harm(pack(whole), rng)[0]
    return DamagedFile("wet", f"a.wet{ending}", data, texts, [])
