"""``tmx:FILE``: translation memories, streamed; plain, gzip or inside a zip archive."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from xling.core.errors import UserError
from xling.corpora.common.archive import open_zip
from xling.corpora.common.safe_xml import events
from xling.corpora.parallel.sources import (
    PAIR_SOURCES,
    PairReader,
    PairSource,
    Row,
    SourceContext,
    drop_row,
    existing_path,
)
from xling.corpora.parallel.sources.inline import joined, mark_of_code
from xling.corpora.parallel.sources.tmx_units import split_units
from xling.corpora.parallel.sources.variants import check_languages, text_in_language
from xling.text.document import Ledger
from xling.text.files.compressed import CHUNK_BYTES, read_chunks

# Inline elements whose content is formatting code of the editor, not text (TMX 1.4b, section 2.2).
_CODE_TAGS = frozenset({"bpt", "ept", "it", "ph", "sub", "ut", "x"})


@PAIR_SOURCES.register("tmx")
class Tmx(PairReader):
    """One translation memory."""

    @classmethod
    def open(cls, rest: str, context: SourceContext) -> list[PairSource]:
        """Return one source of one file."""
        path = existing_path(rest)
        return [PairSource(f"tmx:{rest}", (path,), lambda ledger: tmx_rows(path, context, ledger))]


def tmx_rows(path: Path, context: SourceContext, ledger: Ledger) -> Iterator[Row]:
    """Yield the units that hold both languages; the others, and those that are damaged, are dropped by name.

    Raises:
        UserError: the file holds no unit, or none in both languages, or declares entities.
    """
    codes, num_rows = set[str](), 0
    for row in _rows_of_files(path, context, ledger, codes):
        num_rows += 1
        yield row
    check_languages(path, codes, num_rows, context)


def _rows_of_files(path: Path, context: SourceContext, ledger: Ledger, codes: set[str]) -> Iterator[Row]:
    if path.suffix != ".zip":
        yield from _rows(read_chunks(path, ledger), str(path), context, ledger, codes)
        return
    with open_zip(path) as archive:
        names = [name for name in archive.namelist() if name.endswith(".tmx")]
        if not names:
            raise UserError(f"{path} holds no .tmx", "an archive with a TMX file")
        for name in names:
            with archive.open(name) as handle:
                chunks = iter(partial(handle.read, CHUNK_BYTES), b"")
                yield from _rows(chunks, f"{path}:{name}", context, ledger, codes)


def _rows(
    chunks: Iterable[bytes], name: str, context: SourceContext, ledger: Ledger, codes: set[str]
) -> Iterator[Row]:
    for number, (xml, is_whole) in enumerate(split_units(chunks, name)):
        segments = read_unit(xml) if is_whole else None
        if segments is None:
            drop_row(ledger, "malformed", f"{name}/{number}", xml[:1000])
            continue
        codes.update(segments)
        src, tgt = (text_in_language(segments, lang) for lang in (context.src, context.tgt))
        if src is None or tgt is None:
            drop_row(ledger, "missing_side", f"{name}/{number}", " | ".join(segments.values()))
        else:
            yield src, tgt, ""


def read_unit(xml: str) -> dict[str, str] | None:
    """Return the text of each language of a unit, by its code in lower case; the first one counts.

    None if the unit is not well-formed.
    """
    segments: dict[str, str] = {}
    lang, in_segment, codes = "", False, list[str]()
    parts: list[str] = []
    code_text: list[str] = []
    try:
        for kind, value, attributes in events(io.BytesIO(xml.encode()), "unit"):
            if kind == "text":
                if in_segment:
                    (code_text if codes else parts).append(value)
            elif kind == "start":
                if value == "tuv":
                    lang = (attributes.get("xml:lang") or attributes.get("lang") or "").lower()
                elif value == "seg":
                    in_segment, codes, parts = True, [], []
                elif value in _CODE_TAGS and in_segment:
                    codes.append(value)
                    code_text = code_text if codes[1:] else []
            elif value in _CODE_TAGS and codes:
                codes.pop()
                if not codes:
                    parts.append(mark_of_code(value, "".join(code_text)))
            elif value == "seg":
                in_segment = False
                segments.setdefault(lang, joined(parts))
    except (UserError, UnicodeEncodeError):
        return None
    return segments
