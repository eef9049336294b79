"""``moses:SRC+TGT``, ``moses:STEM`` or ``moses:FILE.zip``: two line-aligned text files, plain or compressed.

``moses:data/train`` reads ``data/train.en`` and ``data/train.sw`` (or ``.gz``, ``.xz``, ...); a zip archive is
read as OPUS ships it, with members ending in ``.en`` and ``.sw``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from xling.core.errors import UserError
from xling.core.languages import Language
from xling.corpora.parallel.sources import (
    EXAMPLE_ROWS,
    PAIR_SOURCES,
    PairReader,
    PairSource,
    PairSourceExample,
    Row,
    SourceContext,
    codes_of,
    existing,
)
from xling.corpora.parallel.sources.archive import lines, open_zip
from xling.text import reader

_ENDINGS = ("", ".gz", ".xz", ".bz2", ".zst")


@PAIR_SOURCES.register("moses")
class Moses(PairReader):
    """Two line-aligned text files, or an archive of them."""

    @classmethod
    def open(cls, rest: str, context: SourceContext) -> list[PairSource]:
        """One source of two files."""
        uri = f"moses:{rest}"
        if rest.endswith(".zip"):
            path = existing(rest)
            return [PairSource(uri, (path,), lambda ledger: zip_rows(path, context))]
        given = rest.split("+")
        if len(given) > 2 or not rest:
            raise UserError(f"{uri!r}", "moses:SRC+TGT or moses:STEM or moses:FILE.zip")
        if len(given) == 2:
            src, tgt = (existing(path) for path in given)
        else:
            src, tgt = (_beside(rest, lang) for lang in (context.src, context.tgt))
        return [PairSource(uri, (src, tgt), lambda ledger: file_rows(src, tgt))]

    @classmethod
    def example(cls) -> PairSourceExample:
        """Two files beside each other."""
        files = {
            f"a.{code}": "".join(f"{row[side]}\n" for row in EXAMPLE_ROWS)
            for side, code in enumerate(("en", "sw"))
        }
        return PairSourceExample("{folder}/a", EXAMPLE_ROWS, {k: v.encode() for k, v in files.items()})


def file_rows(src: Path, tgt: Path) -> Iterator[Row]:
    """The rows of two line-aligned files.

    Raises:
        UserError: the files have different numbers of lines, or cannot be read.
    """
    yield from aligned(reader.lines(src), reader.lines(tgt), str(src), str(tgt))


def zip_rows(path: Path, context: SourceContext) -> Iterator[Row]:
    """The rows of the two line-aligned members of an archive."""
    with open_zip(path) as archive:
        src, tgt = (_member(path, archive.namelist(), lang) for lang in (context.src, context.tgt))
        yield from aligned(lines(archive, src), lines(archive, tgt), f"{path}:{src}", f"{path}:{tgt}")


def aligned(src: Iterator[str], tgt: Iterator[str], src_name: str, tgt_name: str) -> Iterator[Row]:
    """Rows of two streams of lines.

    Raises:
        UserError: one stream ends before the other; the message says how long both are.
    """
    for number, (left, right) in enumerate(zip_longest(src, tgt)):
        if left is None or right is None:
            counts = {src_name: number, tgt_name: number}
            counts[src_name if right is None else tgt_name] += 1 + sum(
                1 for _ in (src if right is None else tgt)
            )
            told = " but ".join(f"{name} has {count:,} lines" for name, count in counts.items())
            raise UserError(told, "line-aligned files", "get both again from one release")
        yield left, right, ""


def _beside(stem: str, lang: Language) -> Path:
    names = [f"{stem}.{code}{ending}" for code in codes_of(lang) for ending in _ENDINGS]
    for name in names:
        if Path(name).is_file():
            return Path(name)
    raise UserError(f"no file {names[0]} (or .gz)", "moses:STEM with STEM.SRC and STEM.TGT, or moses:SRC+TGT")


def _member(path: Path, names: list[str], lang: Language) -> str:
    found = [n for code in codes_of(lang) for n in names if n.endswith(f".{code}")]
    if not found:
        raise UserError(
            f"{path} has no member for {lang.code}: {', '.join(names[:8])}", f"a member *.{lang.code}"
        )
    return found[0]
