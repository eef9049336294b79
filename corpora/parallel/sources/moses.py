"""``moses:SRC+TGT``, ``moses:STEM`` or ``moses:FILE.zip``: two line-aligned text files, plain or compressed.

``moses:data/train`` reads ``data/train.en`` and ``data/train.sw`` (or ``.gz``, ``.xz``, ...); a zip archive is
read as OPUS ships it, with members ending in ``.en`` and ``.sw``.
"""

from collections.abc import Iterator
from glob import escape
from itertools import chain, zip_longest
from pathlib import Path, PurePosixPath

from xling.core.errors import UserError
from xling.core.language_tags import fit
from xling.core.languages import Language
from xling.corpora.common.archive import lines, open_zip
from xling.corpora.parallel.sources import (
    PAIR_SOURCES,
    PairReader,
    PairSource,
    Row,
    SourceContext,
    codes_of,
    drop_row,
    existing_path,
)
from xling.text.document import Ledger
from xling.text.files import corpus_reader
from xling.text.files.compressed import MAX_CELL_BYTES
from xling.text.files.globs import matching_files
from xling.text.files.other_formats import head_of, is_other_format

_ENDINGS = ("", ".gz", ".xz", ".bz2", ".zst")


@PAIR_SOURCES.register("moses")
class Moses(PairReader):
    """Two line-aligned text files, or an archive of them."""

    @classmethod
    def open(cls, rest: str, context: SourceContext) -> list[PairSource]:
        """Return one source of two files."""
        uri = f"moses:{rest}"
        if rest.endswith(".zip"):
            path = existing_path(rest)
            return [PairSource(uri, (path,), lambda ledger: zip_rows(path, context, ledger))]
        names = _file_names(rest, context)
        if len(names) > 2 or not rest:
            raise UserError(
                f"source {uri!r} names {len(names)} files" if rest else f"source {uri!r} names no file",
                "moses:SRC+TGT or moses:STEM or moses:FILE.zip",
            )
        if len(names) == 2:
            src, tgt = (existing_path(path) for path in names)
        else:
            src, tgt = (_file_of_language(names[0], lang) for lang in (context.src, context.tgt))
        return [PairSource(uri, (src, tgt), lambda ledger: file_rows(src, tgt, ledger))]


def file_rows(src: Path, tgt: Path, ledger: Ledger | None = None) -> Iterator[Row]:
    """Yield the rows of two line-aligned files.

    Raises:
        UserError: the files have different numbers of lines, or cannot be read; or a line is over the limit, and
            there is no ledger to count it.
    """
    sides = [corpus_reader.read_lines(path, MAX_CELL_BYTES, ledger is not None) for path in (src, tgt)]
    yield from align_lines(sides[0], sides[1], str(src), str(tgt), ledger or Ledger())


def zip_rows(path: Path, context: SourceContext, ledger: Ledger) -> Iterator[Row]:
    """Yield the rows of all pairs of line-aligned members of an archive that have one stem.

    Members of either language without a counterpart are dropped by name.

    Raises:
        UserError: the archive holds no pair, or a pair has different numbers of lines.
    """
    with open_zip(path) as archive:
        sides = [_members(path, archive.namelist(), lang) for lang in (context.src, context.tgt)]
        if not sides[0].keys() & sides[1].keys() and len(sides[0]) == len(sides[1]) == 1:
            sides = [{"": name} for side in sides for name in side.values()]
        if not sides[0].keys() & sides[1].keys():
            names = ", ".join([*sides[0].values(), *sides[1].values()][:8])
            raise UserError(
                f"{path} has no two members of one name for {context.pair}: {names}",
                f"STEM.{context.src.code} and STEM.{context.tgt.code}",
                "check pair=, or unpack the archive and give its files as moses:SRC+TGT",
            )
        for side, other in (sides, reversed(sides)):
            for stem, name in side.items():
                if stem not in other:
                    drop_row(ledger, "unpaired_member", f"{path}:{name}", name)
        for stem, src in sides[0].items():
            if tgt := sides[1].get(stem):
                both = lines(archive, src), lines(archive, tgt)
                yield from align_lines(*both, f"{path}:{src}", f"{path}:{tgt}", ledger)


def align_lines(
    src: Iterator[str], tgt: Iterator[str], src_name: str, tgt_name: str, ledger: Ledger
) -> Iterator[Row]:
    """Yield rows of two streams of lines; one with a line over the limit is dropped as malformed.

    Raises:
        UserError: one stream ends before the other, and the message says how long both are; or they are no text.
    """
    heads = head_of(src), head_of(tgt)
    if head := next(filter(is_other_format, heads), None):
        raise UserError(
            f"{src_name} or {tgt_name} holds a table, markup or subtitles: {next(filter(None, head))[:60]}",
            "line-aligned text; tsv:, tmx:, xliff: and others read the rest",
            "take the column of the text out of each: cut -f2 FILE"
            if "\t" in next(filter(None, head))
            else r"of SGML of WMT write the segments: sed -n 's/.*<seg[^>]*> *\(.*\)<\/seg>.*/\1/p'",
        )
    src, tgt = chain(heads[0], src), chain(heads[1], tgt)
    for number, (src_line, tgt_line) in enumerate(zip_longest(src, tgt)):
        if src_line is None or tgt_line is None:
            counts = {src_name: number, tgt_name: number}
            counts[src_name if tgt_line is None else tgt_name] += 1 + sum(
                1 for _ in (src if tgt_line is None else tgt)
            )
            told = " but ".join(f"{name} has {count:,} lines" for name, count in counts.items())
            raise UserError(told, "line-aligned files", "get both again from one release")
        if isinstance(src_line, corpus_reader.BadLine) or isinstance(tgt_line, corpus_reader.BadLine):
            drop_row(ledger, "malformed", f"{src_name}/{number}", f"{src_line} | {tgt_line}"[:1000])
        else:
            yield src_line, tgt_line, ""


def _file_names(rest: str, context: SourceContext) -> list[str]:
    """Return the two files, or the stem, that the part after the scheme names; a name may have a ``+`` in it."""
    parts = rest.split("+")
    for place in range(1, len(parts)):
        both = ["+".join(parts[:place]), "+".join(parts[place:])]
        if all(Path(name).is_file() for name in both):
            return both
    if len(parts) > 1 and any(
        Path(f"{rest}.{code}{ending}").is_file() for code in codes_of(context.src) for ending in _ENDINGS
    ):
        return [rest]
    return parts


def _file_of_language(stem: str, lang: Language) -> Path:
    names = [f"{stem}.{code}{ending}" for code in codes_of(lang) for ending in _ENDINGS]
    for name in names:
        if Path(name).is_file():
            return Path(name)
    others = ", ".join(map(str, matching_files(f"{escape(stem)}*")[:4]))
    raise UserError(
        f"no file at {names[0]} or {names[0]}.gz",
        "moses:STEM with STEM.SRC and STEM.TGT, or moses:SRC+TGT",
        f"check the path; files that begin so: {others}" if others else "check the path",
    )


def _members(path: Path, names: list[str], lang: Language) -> dict[str, str]:
    """Return stem -> member of one language, in the order of the archive; files that macOS adds are left out.

    Raises:
        UserError: no member is in the language, or two codes of it have one stem.
    """
    members, fits = dict[str, str](), dict[str, int]()
    for name in names:
        stem, _, code = name.rpartition(".")
        how_well = fit(code, lang)
        if not how_well or name.startswith("__MACOSX/") or PurePosixPath(name).name.startswith("._"):
            continue
        if how_well != fits.setdefault(stem, how_well):
            members[stem] = name if how_well > fits[stem] else members[stem]
            fits[stem] = max(how_well, fits[stem])
            continue
        if stem in members:
            raise UserError(
                f"{path} has {members[stem]} and {name}, which are both {lang.code}",
                f"one file of each name in {lang.code}",
                "unpack the archive and give the files that you mean as moses:SRC+TGT",
            )
        members[stem] = name
    if not members:
        raise UserError(
            f"{path} has no file in {lang.code}, only {', '.join(names[:8])}",
            f"a file whose name ends in .{lang.code}",
            "check pair=",
        )
    return members
