"""The sentences of a text file, each once, on disk: they are read by number, and memory holds none of them.

Sentences that differ in white space alone are one. They are told apart by 64-bit hashes: among 1e8 sentences, two
different ones share a hash, so that one is lost, with a probability of 0.0003.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from xling.array_types import Int64
from xling.core.errors import UserError
from xling.core.output.parts import read_json, write_json
from xling.text.files import corpus_reader

_TEXT_FILE, _ENDS_FILE, _LINES_FILE, _COUNTS_FILE = "text.bin", "ends.npy", "lines.npy", "counts.json"
_EMPTY_HASH = 0  # the hash of an empty line


def normalise_line(line: str) -> str:
    """Return a line with single spaces and none at its ends."""
    return " ".join(line.split())


def first_occurrences(texts: Iterable[str]) -> Int64[np.ndarray, " sentences"]:
    """Return the line numbers of the first occurrence of every sentence, in order; empty lines have none."""
    hashes = array("Q")
    for text in texts:
        sentence = normalise_line(text)
        hashes.append((xxhash.xxh3_64_intdigest(sentence.encode()) or 1) if sentence else _EMPTY_HASH)
    values = np.frombuffer(hashes, np.uint64) if hashes else np.zeros(0, np.uint64)
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    is_first = ordered != _EMPTY_HASH
    is_first[1:] &= ordered[1:] != ordered[:-1]
    return np.sort(order[is_first]).astype(np.int64)


@dataclass(frozen=True)
class Sentences:
    """The sentences that `store_sentences` wrote into a folder."""

    folder: Path

    @property
    def num_lines(self) -> int:
        """Lines of the file, the empty and the repeated ones too."""
        return int(read_json(self.folder / _COUNTS_FILE)["lines"])

    def __len__(self) -> int:
        return int(read_json(self.folder / _COUNTS_FILE)["sentences"])

    def lines(self, start: int, stop: int) -> Int64[np.ndarray, " sentences"]:
        """Return the line numbers of the sentences from ``start`` to ``stop``, from 0."""
        return np.array(np.load(self.folder / _LINES_FILE, mmap_mode="r")[start:stop])

    def take(self, numbers: Sequence[int] | Int64[np.ndarray, " numbers"]) -> list[str]:
        """Return the sentences of these numbers, in any order."""
        ends = np.load(self.folder / _ENDS_FILE, mmap_mode="r")
        stops = ends[np.asarray(numbers, np.int64) + 1].tolist()
        starts = ends[np.asarray(numbers, np.int64)].tolist()
        with (self.folder / _TEXT_FILE).open("rb", buffering=0) as file:
            return [
                os.pread(file.fileno(), stop - start, start).decode()
                for start, stop in zip(starts, stops, strict=True)
            ]


def store_sentences(path: Path, folder: Path) -> Sentences:
    """Write the distinct sentences of a text file into a folder; 33 bytes of memory a line.

    Args:
        path: UTF-8 text, plain or compressed, a sentence a line.
        folder: an existing folder.

    Raises:
        UserError: the file is not UTF-8, damaged or empty, or changes while it is read.
    """
    num_lines = 0

    def count_lines() -> Iterator[str]:
        nonlocal num_lines
        for line in corpus_reader.read_lines(path):
            num_lines += 1
            yield line

    first_lines = first_occurrences(count_lines())
    is_first = np.zeros(num_lines, np.uint8)
    is_first[first_lines] = 1
    ends: Any = array("q", [0])
    with (folder / _TEXT_FILE).open("wb") as file:
        for line in compress(corpus_reader.read_lines(path), is_first.tobytes()):
            ends.append(ends[-1] + file.write(normalise_line(line).encode()))
    if len(ends) != len(first_lines) + 1:
        raise UserError(f"{path} was changed while it was read", fix="run the command again")
    np.save(folder / _ENDS_FILE, np.frombuffer(ends, np.int64))
    np.save(folder / _LINES_FILE, first_lines)
    write_json(folder / _COUNTS_FILE, {"lines": num_lines, "sentences": len(first_lines)})
    return Sentences(folder)
