"""``tmx:FILE``: translation memories, streamed; plain, gzip or inside a zip archive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO

from xling.core.errors import UserError
from xling.corpora.parallel.sources import (
    EXAMPLE_ROWS,
    PAIR_SOURCES,
    PairReader,
    PairSource,
    PairSourceExample,
    Row,
    SourceContext,
    drop_row,
    existing_path,
)
from xling.corpora.parallel.sources.archive import open_zip
from xling.corpora.parallel.sources.safe_xml import MAX_TEXT_CHARS, events, open_xml
from xling.corpora.parallel.sources.variants import check_languages, text_in_language
from xling.text.document import Ledger

# Inline elements whose content is formatting code of the editor, not text (TMX 1.4b, section 2.2).
_CODE_TAGS = frozenset({"bpt", "ept", "it", "ph", "ut"})


@PAIR_SOURCES.register("tmx")
class Tmx(PairReader):
    """One translation memory."""

    @classmethod
    def open(cls, rest: str, context: SourceContext) -> list[PairSource]:
        """Return one source of one file."""
        path = existing_path(rest)
        return [PairSource(f"tmx:{rest}", (path,), lambda ledger: tmx_rows(path, context, ledger))]

    @classmethod
    def example(cls) -> PairSourceExample:
        """Return a small example input: a file of two units."""
        units = "".join(
            f'<tu><tuv xml:lang="en"><seg>{src}</seg></tuv><tuv xml:lang="sw"><seg>{tgt}</seg></tuv></tu>'
            for src, tgt, _ in EXAMPLE_ROWS
        )
        content = f"<tmx><body>{units}</body></tmx>".encode()
        return PairSourceExample("{folder}/a.tmx", EXAMPLE_ROWS, {"a.tmx": content})


def tmx_rows(path: Path, context: SourceContext, ledger: Ledger) -> Iterator[Row]:
    """Yield the units that hold both languages; the others are dropped by name.

    Raises:
        UserError: the file is cut off, not well-formed, declares entities, or has no unit in both languages.
    """
    codes, num_rows = set[str](), 0
    for row in _rows_of_files(path, context, ledger, codes):
        num_rows += 1
        yield row
    check_languages(path, codes, num_rows, context)


def _rows_of_files(path: Path, context: SourceContext, ledger: Ledger, codes: set[str]) -> Iterator[Row]:
    if path.suffix != ".zip":
        with open_xml(path) as handle:
            yield from _rows(handle, str(path), context, ledger, codes)
        return
    with open_zip(path) as archive:
        names = [name for name in archive.namelist() if name.endswith(".tmx")]
        if not names:
            raise UserError(f"{path} holds no .tmx", "an archive with a TMX file")
        for name in names:
            with archive.open(name) as handle:
                yield from _rows(handle, f"{path}:{name}", context, ledger, codes)


def _rows(
    handle: IO[bytes], name: str, context: SourceContext, ledger: Ledger, codes: set[str]
) -> Iterator[Row]:
    for number, segments in enumerate(units(handle, name)):
        codes.update(segments.keys())
        src, tgt = (text_in_language(segments, lang) for lang in (context.src, context.tgt))
        if src is None or tgt is None:
            drop_row(ledger, "missing_side", f"{name}/{number}", " | ".join(segments.values()))
        else:
            yield src, tgt, ""


def units(handle: IO[bytes], name: str) -> Iterator[dict[str, str]]:
    """For each translation unit the text of each language, by its code in lower case; the first one counts."""
    segments: dict[str, str] = {}
    outer_units: list[dict[str, str]] = []
    lang, in_segment, num_codes, num_units = "", False, 0, 0
    parts: list[str] = []
    chars = 0
    try:
        for kind, value, attributes in events(handle, name):
            if kind == "text":
                if in_segment and not num_codes:
                    chars += len(value)
                    if chars > MAX_TEXT_CHARS:
                        raise UserError(
                            f"{name}: unit {num_units + 1:,} is longer than {MAX_TEXT_CHARS:,} characters",
                            "translation units of sentences or paragraphs",
                            "take the unit out, or give the text as documents to `xling corpus bitext`",
                        )
                    parts.append(value)
            elif kind == "start":
                if value == "tu":
                    outer_units.append(segments)
                    segments = {}
                elif value == "tuv":
                    lang = (attributes.get("xml:lang") or attributes.get("lang") or "").lower()
                elif value == "seg":
                    in_segment, num_codes, chars, parts = True, 0, 0, []
                elif value in _CODE_TAGS:
                    num_codes += 1
            elif value in _CODE_TAGS:
                num_codes -= 1
            elif value == "seg":
                in_segment = False
                segments.setdefault(lang, " ".join("".join(parts).split()))
            elif value == "tu":
                num_units += 1
                yield segments
                segments = outer_units.pop()  # units inside a unit do not belong to it
    except UserError as error:
        raise UserError(f"{error.given} (after {num_units:,} whole units)", error.valid, error.fix) from None
