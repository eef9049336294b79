"""Removal of documents that overlap with an evaluation set: n-grams shared with any file the user names.

The unit is the word, or the character in scripts without spaces; n = 13 follows Brown et al. 2020, appendix
C. A text of the evaluation set shorter than n units is searched as a whole if it has at least ``min_units``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from xling.core.errors import UserError
from xling.core.output.digests import identity
from xling.corpora.stages import STREAMING, Stage, Verdict
from xling.text.document import Document
from xling.text.files import corpus_reader
from xling.text.leaks import read as read_leaks
from xling.text.words.units import split_units

_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")


@STREAMING.register("contamination")
@dataclass(frozen=True)
class Contamination(Stage):
    """Drop documents that share a run of ``n`` units with an evaluation file.

    Args:
        files: evaluation files: text, TSV (every field is a text), JSON and JSON lines (every string is one),
            plain or compressed with gzip, bzip2, xz or zstd.
        n: units in a row that make an overlap.
        min_units: shorter evaluation texts are not sought.
        leaks: index of test rows that ``xling eval leaks`` has made; the card counts the documents that hold any, by
            suite, language, split and side.
        block: whether documents with overlap are dropped; else they are only counted.
    """

    files: tuple[Path, ...] = ()
    n: int = 13
    min_units: int = 8
    leaks: Path | None = None
    block: bool = True

    name: ClassVar[str] = "contamination"
    at_once: ClassVar[int] = 64
    reasons: ClassVar[dict[str, str]] = {
        "overlap": "it holds a row of a test set, or shares a run of n words with an evaluation file"
    }

    def edit(self, doc: Document) -> Verdict:
        """Drop a document with overlap; the ledger notes the overlaps by evaluation file."""
        return next(iter(self.edits([doc])))

    def edits(self, docs: Sequence[Document]) -> Iterator[Verdict]:
        """Yield for each document whether it is dropped, and notes on the test rows in it."""
        texts = [doc.text for doc in docs]
        index = read_leaks(self.leaks) if self.leaks else None
        rows_of = [rows.tolist() for rows in index.find_each(texts)] if index else [[] for _ in docs]
        for text, rows in zip(texts, rows_of, strict=True):
            file = self._index.find(text) if self._index else ""
            notes = {f"overlap with {file}": 1} if file else {}
            if index and rows:
                notes |= {f"test rows of {group}": 1 for group in index.groups_of(rows)}
            yield Verdict("overlap" if notes and self.block else None, notes=notes)

    @cached_property
    def _index(self) -> TestIndex | None:
        return _build_index(with_time_stamps(self.files), self.n, self.min_units) if self.files else None


@dataclass(frozen=True)
class TestIndex:
    """The n-grams of evaluation files.

    Args:
        numbers: unit -> number; units that no evaluation text holds are absent.
        grams: length -> n-gram as unit numbers -> name of the first file that holds it.
    """

    numbers: dict[str, int]
    grams: dict[int, dict[tuple[int, ...], str]]

    def find(self, text: str) -> str:
        """Return the name of a file that overlaps with ``text``, or ""."""
        numbers = self.numbers
        run: list[int] = []
        # A foreign word ends a run: only runs of known units are looked up, which are few and short.
        for unit in [*split_units(text), ""]:
            number = numbers.get(unit)
            if number is not None:
                run.append(number)
                continue
            for length, grams in self.grams.items():
                for i in range(len(run) - length + 1):
                    if file := grams.get(tuple(run[i : i + length])):
                        return file
            run = []
        return ""


StampedPath: TypeAlias = tuple[Path, tuple[int, ...]]
"""A file and its `identity`: what is remembered of it is forgotten when it changes."""


def with_time_stamps(files: Iterable[Path]) -> tuple[StampedPath, ...]:
    """Return the files with their identities, none for a missing one."""
    return tuple((Path(f), identity(Path(f)) if Path(f).exists() else ()) for f in files)


@lru_cache(maxsize=2)
def _build_index(files: tuple[StampedPath, ...], n: int, min_units: int) -> TestIndex:
    numbers: dict[str, int] = {}
    grams: dict[int, dict[tuple[int, ...], str]] = {}
    for file, _ in files:
        for text in texts_of(file):
            ids = tuple(numbers.setdefault(unit, len(numbers)) for unit in split_units(text))
            length = min(n, len(ids))
            if length < min_units:
                continue
            table = grams.setdefault(length, {})
            for i in range(len(ids) - length + 1):
                table.setdefault(ids[i : i + length], file.name)
    if not grams:
        raise UserError(
            f"the evaluation files hold no text of {min_units} words: {', '.join(str(file) for file, _ in files)}",
            fix="name other files or lower min_units",
        )
    return TestIndex(numbers, grams)


def texts_of(path: Path) -> Iterator[str]:
    """Yield every text in an evaluation file.

    Raises:
        UserError: the file is missing, damaged, empty, not UTF-8 text or not the JSON that its name says.
    """
    if not path.is_file():
        raise UserError(f"no evaluation file at {path}", fix="check the path")
    kind = next((s for s in reversed(path.suffixes) if s not in _COMPRESSED), "")
    try:
        if kind == ".json":
            yield from _string_values(json.loads(corpus_reader.json_text(path)))
            return
        for line in corpus_reader.read_lines(path):
            if kind == ".jsonl":
                yield from _string_values(json.loads(line))
            else:
                yield from line.replace(" ||| ", "\t").split("\t")
    except (json.JSONDecodeError, RecursionError) as error:
        raise UserError(f"evaluation file {path} cannot be read: {error}", "JSON, or JSON lines") from None


def _string_values(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _string_values(item)
    elif isinstance(value, list):
        for item in value:
            yield from _string_values(item)
