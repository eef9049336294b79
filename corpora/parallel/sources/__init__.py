"""Sources of sentence pairs, one file each, chosen by the scheme of a URI: ``moses:``, ``tmx:``, ``opus:``, ...

A source knows its input files and yields (src, tgt, doc) rows, a text a side; doc is "" where it is unknown.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import polars as pl

from xling.core.errors import UserError, unknown
from xling.core.languages import Language
from xling.core.registry import Registry
from xling.corpora.sources.source import REASONS
from xling.text.document import Document, Ledger
from xling.text.pairs import make_batch

READ_STAGE = "read"
READ_REASONS = {
    "malformed": "a row that is damaged, too long, in other languages, or without the two texts",
    "missing_side": "a unit that lacks one of the two languages",
    **{reason: text for reason, text in REASONS.items() if reason.endswith(" member")},
    "unfinished": "a unit that its file marks as not translated, doubtful, rejected or obsolete, or as the credits",
    "unpaired_member": "a file of an archive without its counterpart in the other language",
}
BATCH_PAIRS = 50_000
_BATCH_CHARS = 1 << 25

Row = tuple[str, str, str]


@dataclass(frozen=True)
class SourceContext:
    """Languages, folders and addresses that a source needs.

    Attributes:
        src: language of the source side.
        tgt: language of the target side.
        cache: where downloads are kept.
        base_urls: ``opus`` -> address of the API; ``opus_store`` -> address that replaces the object store's.
        size: pairs that a source of many corpora may bring; 0 for no limit.
        seed: of synthetic text.
    """

    src: Language
    tgt: Language
    cache: Path = Path("runs/downloads")
    base_urls: dict[str, str] = field(default_factory=dict)
    size: int = 0
    seed: int = 1

    @property
    def pair(self) -> str:
        """Pair of language codes as text, for example ``en-sw``."""
        return f"{self.src.code}-{self.tgt.code}"


@dataclass(frozen=True)
class PairSource:
    """Sentence pairs that can be read again and again.

    Attributes:
        uri: as given.
        inputs: files that it reads; empty for synthetic text and data sets that another library holds.
        rows: the pairs; what cannot be read as one is dropped into the ledger.
        licence: as far as the source states it.
    """

    uri: str
    inputs: tuple[Path, ...]
    rows: Callable[[Ledger], Iterator[Row]]
    licence: str = "not stated"

    def batches(self, ledger: Ledger, number: int = 0) -> Iterator[pl.DataFrame]:
        """Yield the pairs as frames of bounded size; line breaks and tabs inside a text become spaces."""
        rows: list[Row] = []
        chars = first_number = 0
        for row in self.rows(ledger):
            rows.append(row)
            chars += len(row[0]) + len(row[1])
            if len(rows) == BATCH_PAIRS or chars >= _BATCH_CHARS:
                yield _batch_frame(rows, self.uri, first_number, number)
                first_number += len(rows)
                rows, chars = [], 0
        if rows:
            yield _batch_frame(rows, self.uri, first_number, number)


class PairReader:
    """Base of the classes that read the pairs of a URI scheme.

    Attributes:
        lists_inputs: its sources name the files that they read; another library holds those of the others.
    """

    lists_inputs: ClassVar[bool] = True

    @classmethod
    def open(cls, rest: str, context: SourceContext) -> list[PairSource]:
        """Return the sources behind a URI, whose scheme is cut off in ``rest``.

        Raises:
            UserError: what it names is missing, damaged, or not available for these languages.
        """
        raise NotImplementedError(f"{cls.__name__} has no open")


PAIR_SOURCES: Registry[type[PairReader]] = Registry("source of pairs", __name__, plugin="pairs")


def open_sources(uris: Iterable[str], context: SourceContext) -> list[PairSource]:
    """Return the sources behind URIs, fetched where they are remote.

    Raises:
        UserError: no such scheme, or what the URI names is missing or damaged.
    """
    sources: list[PairSource] = []
    for uri in uris:
        scheme, sign, rest = uri.partition(":")
        if not sign and scheme not in PAIR_SOURCES:
            raise unknown("source of pairs", uri, [f"{name}:..." for name in PAIR_SOURCES])
        sources += PAIR_SOURCES[scheme].open(rest, context)
    return sources


def drop_row(ledger: Ledger, reason: str, row_name: str, text: str) -> None:
    """Count something that is not a pair: a row of the file, or a whole member of an archive."""
    doc = Document(row_name, text)
    if reason != "unpaired_member":
        ledger.count_seen(READ_STAGE, doc)
    ledger.drop(READ_STAGE, reason, doc)


def existing_path(path: str) -> Path:
    """Return the path of a file.

    Raises:
        UserError: there is none.
    """
    if not Path(path).is_file():
        raise UserError(f"no file at {path!r}", fix="check the path")
    return Path(path)


def codes_of(lang: Language) -> list[str]:
    """Return the codes by which files name a language, the likeliest first."""
    codes = [
        lang.code,
        lang.base,
        lang.iso639_3,
        lang.tatoeba,
        lang.ntrex,
        lang.flores,
        lang.wiki,
        lang.mbart,
        *lang.also,
    ]
    return list(dict.fromkeys(code for code in codes if code))


# Bytes of letters in UTF-8 that was read as Latin-1, which look like blanks -> characters of private use meanwhile.
_MARK_OF_BYTE = {"\x85": "\ue085", "\xa0": "\ue0a0"}
_BYTES = [
    (pattern.replace("BYTE", f"\\x{{{ord(char):x}}}"), mark)
    for char, mark in _MARK_OF_BYTE.items()
    for pattern in (
        r"([Â-ß])BYTE()",
        r"([à-ï])BYTE([\x{80}-\x{bf}])",
        r"([à-ï][\x{80}-\x{bf}\u{e085}])BYTE()",
    )
]


def _batch_frame(rows: list[Row], uri: str, first: int, number: int) -> pl.DataFrame:
    pairs = make_batch(
        {"src": [r[0] for r in rows], "tgt": [r[1] for r in rows], "doc": [r[2] for r in rows]},
        uri,
        first,
        f"{number}",
    )
    sides = pl.col("src", "tgt")
    for pattern, mark in _BYTES:
        sides = sides.str.replace_all(pattern, f"${{1}}{mark}${{2}}")
    sides = sides.str.replace_all(r"[\s\u{85}\u{2028}\u{2029}]+", " ").str.strip_chars()
    for char, mark in _MARK_OF_BYTE.items():
        sides = sides.str.replace_all(mark, char, literal=True)
    return pairs.with_columns(sides)
