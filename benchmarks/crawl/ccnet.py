"""CCNet's order of operations in plain Python: what its code does to a shard, one document at a time.

Facts from facebookresearch/cc_net at bda555b (mine.py, process_wet_file.py, dedup.py, perplexity.py): the shard
is parsed line by line twice, once to hash and once to mine; documents under 300 characters go first; every
paragraph is normalised and hashed with SHA-1 in both passes; language identification reads the whole text with
its lines glued; the LM reads lower-cased text without accents, SentencePiece pieces, one line a document.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from xling.text.normalize import for_dedup, for_lm

MIN_CHARS = 300
THRESHOLD = 0.5


def pages(path: Path) -> Iterator[str]:
    """Yield the text after the title of every page long enough."""
    header, body, in_header = [], [], True
    with gzip.open(path, "rt", encoding="utf-8") as handle:
        for raw in handle:
            line = raw.strip()
            if in_header:
                header.append(line)
                in_header = line != ""
            elif line == "WARC/1.0":
                yield from _page(header, body)
                header, body, in_header = [line], [], True
            elif line:
                body.append(line)
    yield from _page(header, body)


def _page(header: list[str], body: list[str]) -> Iterator[str]:
    if len(header) > 1 and header[1].split()[1] == "conversion" and body:
        text = "\n".join(body[1:])
        if len(text) >= MIN_CHARS:
            yield text


def hashes(text: str) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return keys of the paragraphs of a document."""
    lines = text.split("\n")
    digests = (hashlib.sha1(for_dedup(line).encode()).digest()[:8] for line in lines)
    keys = np.fromiter(digests, dtype=np.dtype((bytes, 8)), count=len(lines))
    return np.ndarray(dtype=np.uint64, buffer=keys.data, shape=keys.shape)


def kept(path: Path, lid: Any, lang: str) -> Iterator[tuple[str, int]]:
    """Yield what deduplication and identification leave of a file.

    Yields:
        The text of a document of the language, or "" for another one, and its bytes after deduplication.
    """
    seen: dict[int, bool] = {}
    for text in pages(path):
        keys = hashes(text)
        known = [key in seen for key in keys.tolist()]
        seen.update(zip(keys.tolist(), known, strict=True))
    for text in pages(path):
        inside: set[int] = set()
        lines = []
        for line, key in zip(text.split("\n"), hashes(text).tolist(), strict=True):
            if not seen[key] and key not in inside:
                lines.append(line)
            inside.add(key)
        if not lines:
            continue
        text = "\n".join(lines)
        labels, scores = lid.predict(text.replace("\n", ""), 1)
        is_lang = labels[0] == f"__label__{lang}" and round(scores[0], 2) >= THRESHOLD
        yield text if is_lang else "", len(text.encode())


def mine(path: Path, lid: Any, pieces: Any, lm: Any, lang: str) -> tuple[int, int, int]:
    """Deduplicate, identify and score one file; documents kept, their characters, and bytes after dedup."""
    num_docs = num_chars = num_bytes = 0
    for text, size in kept(path, lid, lang):
        num_bytes += size
        if not text:
            continue
        tokens = pieces.encode(for_lm(text.replace("\n", ""), accents=False), out_type=str)
        log10 = lm.score(" ".join(tokens))
        if 10.0 ** (-log10 / (len(tokens) + 1)) > 0:
            num_docs += 1
            num_chars += len(text)
    return num_docs, num_chars, num_bytes
