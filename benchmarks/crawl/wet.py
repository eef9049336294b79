"""A synthetic crawl as WET files, from real lines if there is a data folder, else from invented words.

Every document has a title, short lines that other pages share (menus), and paragraphs of its own. A paragraph
is one to four source lines with one word made unique, so that it is not a duplicate. Everything is keyed by the
seed and the number of the document.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from pathlib import Path

from isal import igzip

NUM_MENU_LINES = 2000
SHARE_OF_MENU_LINES = 0.3
_HEAD = (
    "WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: {url}\r\nWARC-Date: 2024-05-01T00:00:00Z\r\n"
    "WARC-Record-ID: <urn:uuid:{id:032x}>\r\nWARC-Refers-To: <urn:uuid:{id:032x}>\r\n"
    "WARC-Block-Digest: sha1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\r\nContent-Type: text/plain\r\n"
    "Content-Length: {length}\r\n\r\n"
)


def source_lines(data: str, lang: str) -> list[str]:
    """Return lines to build from: the ``mono`` files of ``lang`` in the folder ``data``, or invented ones."""
    lines: list[str] = []
    for path in sorted(Path(data).glob(f"mono/*.{lang}*.txt.gz")) if data else []:
        with gzip.open(path, "rt", encoding="utf-8") as handle:
            lines += [line for raw in handle if 20 <= len(line := raw.strip()) <= 400]
    if lines:
        return lines
    rng = random.Random(0)
    syllables = [c + v for c in "bdfghjklmnprstvwz" for v in "aeiou"]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(20_000)]
    weights = [1 / (rank + 2) for rank in range(len(words))]
    return [
        " ".join(rng.choices(words, weights, k=rng.randint(6, 30))).capitalize() + "." for _ in range(20_000)
    ]


def documents(lines: list[str], seed: int, first: int = 0) -> Iterator[tuple[str, str]]:
    """Yield URL and text of page after page, without end."""
    menu = [" ".join(line.split()[:4]) for line in random.Random(seed).choices(lines, k=NUM_MENU_LINES)]
    number = first
    while True:
        rng = random.Random(seed * 1_000_003 + number)
        page = [rng.choice(lines)[:70]]
        for place in range(rng.randint(5, 40)):
            if rng.random() < SHARE_OF_MENU_LINES:
                page.append(rng.choice(menu))
                continue
            words = " ".join(rng.choices(lines, k=rng.randint(1, 4))).split(" ")
            words[rng.randrange(len(words))] = "".join(rng.choices("aeioubdklmnrst", k=9)) + str(place % 10)
            page.append(" ".join(words))
        yield f"https://site{number % 5000}.example/page/{number}", "\n".join(page)
        number += 1


def write_wet(path: Path, lines: list[str], num_bytes: int, seed: int, first: int = 0) -> tuple[int, int]:
    """Write one WET file, a gzip member a record as Common Crawl's; return bytes before packing and pages."""
    written = num_docs = 0
    with path.open("wb") as handle:
        for url, text in documents(lines, seed, first):
            body = text.encode()
            head = _HEAD.format(url=url, id=first + num_docs, length=len(body)).encode()
            record = head + body + b"\r\n\r\n"
            handle.write(igzip.compress(record, 1))
            written += len(record)
            num_docs += 1
            if written >= num_bytes:
                break
    return written, num_docs
