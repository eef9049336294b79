"""``tmx:FILE``: translation memories, streamed; plain, gzip or inside a zip archive."""

import codecs
import io
import re
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
from xling.corpora.parallel.sources.variants import check_languages, text_in_language
from xling.text.document import Ledger
from xling.text.files.compressed import CHUNK_BYTES, MAX_CELL_BYTES, DamagedBytes, read_chunks
from xling.text.files.encodings import refuse_seven_bits

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
        codes.update(code.partition("-x-")[0] for code in segments)
        src, tgt = (text_in_language(segments, lang, ledger) for lang in (context.src, context.tgt))
        if src is None or tgt is None:
            drop_row(ledger, "missing_side", f"{name}/{number}", " | ".join(segments.values()))
        else:
            yield src, tgt, ""


def read_unit(xml: str) -> dict[str, str] | None:
    """Return the text of each language of a unit, by its code in lower case.

    A further one under the same code, as in another script, has ``-x-`` and a number behind the code.

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
                segments[f"{lang}-x-{len(segments)}" if lang in segments else lang] = joined(parts)
    except (UserError, UnicodeEncodeError):
        return None
    return segments


# Units of a translation memory cut out of the file, so that damage costs the unit that it is in and no other. A
# parser of XML stops at the first error. Here each unit is parsed alone. What stands between units is passed over.

MAX_UNIT_CHARS = MAX_CELL_BYTES
DAMAGED_CHAR = "\0"
"""Stands for bytes that cannot be decoded; XML forbids it."""
_MARK = re.compile(r"<!--|<!\[CDATA\[|<tu(?=[\s>])|</tu\s*>|</(?:body|tmx)\s*>")
_ENDS = {"<!--": "-->", "<![CDATA[": "]]>"}
_DECLARED = re.compile(rb"""<\?xml[^>]*?encoding\s*=\s*["']([\w.:-]+)["']""")
_MARKS_OF_ORDER = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_OPEN_CHARS = len("<![CDATA[")
_READ_CHARS = 1 << 20

codecs.register_error("xling.damaged", lambda error: (DAMAGED_CHAR, error.end))  # type: ignore[attr-defined]


def split_units(chunks: Iterable[bytes], name: str) -> Iterator[tuple[str, bool]]:
    """Yield the text of each unit, and whether it has a beginning and an end.

    Of a unit that is too long, and of one that lacks its end or its beginning, it yields the first characters. A file
    that breaks off behind a unit has one more, empty and not whole.

    Raises:
        UserError: the file declares an entity, is in an unknown encoding, or holds no unit.
    """
    text = _Text(_decoded(iter(chunks), name))
    num_units, is_open, has_end = 0, False, False
    outer: str | None = None  # the beginning of a unit in which another one begins, or whose end is missing
    text.read_until("<tu", "<body")
    head = re.sub(r"<!--.*?-->", "", re.split(r"<tu[\s>]|<body", text.buffer, maxsplit=1)[0], flags=re.DOTALL)
    if re.search(r"<!\s*ENTITY", head, re.IGNORECASE):
        raise UserError(
            f"{name} declares an XML entity", "a file without entity declarations", "do not trust it"
        )
    while (mark := text.next_mark()) is not None:
        if mark in _ENDS:
            text.skip_to(_ENDS[mark])
        elif mark.startswith("<tu"):
            if outer is not None:
                yield outer, False
            outer = text.take(len(mark)) if is_open else None
            num_units, is_open = num_units + 1, True
            text.begin(len(mark))
        elif mark.startswith("</tu"):
            unit = text.take(0)
            if not is_open:
                unit, outer, num_units = (outer or "") + unit, None, num_units + 1
            yield unit, unit.startswith("<tu") and len(unit) <= MAX_UNIT_CHARS
            is_open = False
        else:
            has_end = True
    if not num_units:
        raise UserError(f"{name} holds no translation unit", "a TMX file", "check how it was made")
    if outer is not None:
        yield outer, False
    if is_open or not has_end:
        yield text.take(0) if is_open else "", False


class _Text:
    """The text from the last mark on, as far as it was needed."""

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces, self.buffer, self._position, self._start = pieces, "", 0, 0
        self._no_end_before: dict[str, int] = {}

    def _read(self) -> bool:
        piece = next(self._pieces, None)
        if piece is None:
            return False
        # Of a unit that is too long, no more than what shows that it is.
        kept = self.buffer[self._start : self._start + MAX_UNIT_CHARS + 1]
        if len(self.buffer) - self._start > 2 * MAX_UNIT_CHARS:
            tail = self.buffer[-_OPEN_CHARS:]
            self._position = max(len(kept), len(kept) + self._position - len(self.buffer) + len(tail))
            self.buffer = kept + tail
        else:
            self._position -= self._start
            self.buffer = self.buffer[self._start :]
        self._start = 0
        self._no_end_before.clear()
        self.buffer += piece
        return True

    def read_until(self, *words: str) -> None:
        """Have the first of the words in the buffer, if it comes within the length of a unit."""
        while (
            not any(word in self.buffer for word in words)
            and len(self.buffer) < MAX_UNIT_CHARS
            and self._read()
        ):
            pass

    def next_mark(self) -> str | None:
        """Move behind the next mark and return it; None at the end of the file."""
        while True:
            if mark := _MARK.search(self.buffer, self._position):
                self._position = mark.end()
                return mark[0]
            self._position = max(self._position, len(self.buffer) - _OPEN_CHARS)
            if not self._read():
                return None

    def begin(self, num_chars: int) -> None:
        """Begin a unit ``num_chars`` before the read position."""
        self._start = self._position - num_chars

    def take(self, num_chars: int) -> str:
        """Return the text from the start of the unit to ``num_chars`` before the read position, and end it."""
        taken = self.buffer[self._start : self._position - num_chars]
        self._start = self._position
        return taken

    def skip_to(self, end: str) -> None:
        """Move behind ``end`` if it comes within the length of a unit."""
        limit = self._position + MAX_UNIT_CHARS
        if self._no_end_before.get(end, -1) >= self._position:
            return
        while (place := self.buffer.find(end, self._position)) < 0 and len(self.buffer) < limit:
            before = self._position
            if not self._read():
                break
            limit += self._position - before
        if place < 0:
            self._no_end_before[end] = len(self.buffer)
        else:
            self._position = place + len(end)


def _decoded(chunks: Iterator[bytes], name: str) -> Iterator[str]:
    first = next(chunks, b"")
    while len(first) < 200 and (more := next(chunks, b"")):
        first += more
    encoding, skipped = _encoding_of(first, name)
    decoder = codecs.getincrementaldecoder(encoding)("xling.damaged")
    chunk: bytes | None = first[skipped:]
    while chunk is not None:
        for start in range(0, max(1, len(chunk)), _READ_CHARS):
            yield decoder.decode(chunk[start : start + _READ_CHARS])
        if isinstance(chunk, DamagedBytes):
            decoder.reset()
            yield DAMAGED_CHAR
        chunk = next(chunks, None)
    yield decoder.decode(b"", final=True)


def _encoding_of(head: bytes, name: str) -> tuple[str, int]:
    """Return the encoding of a file and the length of its byte order mark.

    Raises:
        UserError: Python does not know it, or XML does not have it.
    """
    for mark, encoding in _MARKS_OF_ORDER:
        if head.startswith(mark):
            return encoding, len(mark)
    if head[:2] in (b"<\0", b"\0<"):
        return ("utf-16-le" if head[:1] == b"<" else "utf-16-be"), 0
    declared = _DECLARED.match(head.lstrip()[:200])
    encoding = declared[1].decode("ascii") if declared else "utf-8"
    if encoding.lower().replace("_", "-").startswith(("utf-16", "ucs-2")):
        return "utf-8", 0  # written by a program that copied the declaration: each second byte would be zero
    try:
        info = codecs.lookup(encoding)
    except LookupError:
        info = None
    if info is None or info.name == "utf-7" or not info._is_text_encoding:
        raise UserError(f"{name}: unknown encoding {encoding}", "XML in UTF-8 or UTF-16", "convert the file")
    if info.name == "utf-8":
        refuse_seven_bits(head, Path(name), letters=True)
    return info.name, 0
