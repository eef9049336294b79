"""A crawl of any size in a hundred languages from real text: pages of the web and translated books, each copy altered.

Half of the bytes are the pages of ``web/hplt_pages.warc.wet.gz``, with their menus. The other half are pages of ten
paragraphs in each language of ``bible``, ``bible_nt`` and ``udhr``, equally many of each. In every page a fifth of the
words, or characters where no space divides words, is replaced by others of the same text, so that neither paragraphs
nor pages are near-duplicates of each other. Everything is keyed by the seed and the number of the page.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from xling.core.sampling import rng
from xling.corpora.sources.records import records
from xling.corpora.sources.wet import record_of
from xling.text.document import Ledger
from xling.text.stored import chunks

MOST_LANGS = 100
_SHARE = 0.2
_PARAGRAPHS, _CHARS = 10, 300
_FILE_BYTES = 16 << 20


def write(folder: Path, data: Path, num_bytes: int, seed: int = 1) -> int:
    """Write gzipped WET files of together ``num_bytes`` of text under ``folder``; the number of pages."""
    folder.mkdir(parents=True)
    drawn, number, num_files = pages(data, seed), 0, 0
    while num_bytes > 0:
        left = min(num_bytes, _FILE_BYTES)
        num_bytes -= left
        with (folder / f"altered-{num_files:05d}.warc.wet.gz").open("wb") as file:
            while left > 0:
                body = next(drawn).encode()
                head = record_of("conversion", body).replace(b"//a.example/", b"//site%d.example/" % number)
                head = head.replace(b"WARC-Target", b"WARC-Date: 2024-05-01T00:00:00Z\r\nWARC-Target", 1)
                file.write(gzip.compress(head, 6, mtime=0))
                left -= len(body)
                number += 1
        num_files += 1
    return number


def pages(data: Path, seed: int) -> Iterator[str]:
    """Yield altered pages without end: as many bytes of web pages as of books."""
    web = [
        record.body.decode()
        for record in records(chunks(data / "web" / "hplt_pages.warc.wet.gz", Ledger()), Ledger())
        if record.headers.get("warc-type") == "conversion"
    ]
    books = list(_books(data).values())
    balance, num_web, num_books = 0, 0, 0
    while True:
        random = rng(seed, num_web, num_books)
        if balance <= 0:
            text = web[num_web % len(web)]
            num_web += 1
        else:
            lines = books[num_books % len(books)]
            text = _page(lines, random)
            num_books += 1
        text = _altered(text, random)
        balance += len(text.encode()) * (1 if balance <= 0 else -1)
        yield text


def _books(data: Path) -> dict[str, list[str]]:
    """Return the lines of each language."""
    books: dict[str, list[str]] = {}
    for path in (*sorted((data / "bible").glob("*.tsv.gz")), *sorted((data / "bible_nt").glob("*.tsv.gz"))):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            books.setdefault(path.name.partition(".")[0], [line.partition("\t")[2].strip() for line in file])
    for path in sorted((data / "udhr").glob("???.txt")):
        if len(books) < MOST_LANGS and path.stem not in books and path.stem.isalpha():
            books[path.stem] = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    return {lang: kept for lang, lines in books.items() if (kept := [line for line in lines if line])}


def _page(lines: list[str], random: np.random.Generator) -> str:
    """Return a title and paragraphs of lines that follow each other."""
    at, paragraphs = int(random.integers(len(lines))), list[str]()
    title = lines[at][:60]
    for _ in range(_PARAGRAPHS):
        taken = list[str]()
        while sum(map(len, taken)) < _CHARS:
            at = (at + 1) % len(lines)
            taken.append(lines[at])
        paragraphs.append(" ".join(taken))
    return "\n".join([title, *paragraphs])


def _altered(text: str, random: np.random.Generator) -> str:
    """Replace words, or characters of lines without spaces, by others of the text."""
    lines = []
    words = text.split()
    for line in text.split("\n"):
        joint = " " if line.count(" ") * 12 > len(line) else ""
        units, pool = (line.split(" "), words) if joint else (list(line), text)
        places = np.flatnonzero(random.random(len(units)) < _SHARE)
        for place, other in zip(
            places.tolist(), random.integers(len(pool), size=len(places)).tolist(), strict=True
        ):
            units[place] = pool[other].strip() or units[place]
        lines.append(joint.join(units))
    return "\n".join(lines)
