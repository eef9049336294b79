"""Files of office programs: XML inside a zip archive, with its members and sizes capped while they are read."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from posixpath import dirname, join, normpath
from urllib.parse import unquote
from zipfile import ZipFile

from xling.core.errors import UserError
from xling.corpora.common.archive import open_zip
from xling.corpora.common.raised import raised
from xling.corpora.common.safe_xml import Event, events
from xling.text.document import Ledger
from xling.text.files.compressed import DAMAGE_ERRORS
from xling.text.files.encodings import refusal, seven_bits

MAX_MEMBERS, MAX_MEMBER_BYTES, MAX_TOTAL_BYTES = 20_000, 1 << 28, 1 << 31
OUTSIDE_NOTE = "pages of books outside of the reading order, not read"
# The font Symbol, whose characters a Word file numbers, from 0x20 and from 0xA0 on (Adobe's encoding).
_SYMBOLS = dict(
    [
        *enumerate(" !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_", 0x20),
        *enumerate("αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼", 0x61),
        *enumerate("€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑", 0xA0),
        (0xF2, "∫"),
    ]
)
_PICTURE_FONTS = ("wingdings", "webdings", "zapf dingbats", "zapfdingbats")
_CONTENTS, _CONTENTS_STYLE = "Table of Contents", re.compile(r"TOC\d")
# Deleted, said twice, readings above characters.
_WORD_SKIPPED = frozenset({"del", "moveFrom", "Fallback", "rt", "rPrChange"})
_OFF = ("0", "false", "off")
_ODT_SKIPPED = frozenset(
    {"tracked-changes", "annotation", "note", "ruby-text", "forms", "index-title-template"}
    | {"table-of-content", "illustration-index", "table-index", "alphabetical-index"}
    | {"user-index", "object-index"}
    | {"master-styles", "binary-data"}  # of a flat file: headers and footers, pictures
)
_ODT_PICTURES, _ODT_OF_PICTURE = (
    frozenset({"frame", "g", "custom-shape", "rect", "line"}),
    frozenset({"title", "desc"}),
)

_ODT_STYLED, _HIDDEN = ("p", "h", "span", "section"), "\0"  # no name of a style

_WORD_MAIN = re.compile(r"word/document\d*\.xml")
_MEMBER_OF_TEXT = re.compile(r"\.x?html?$|(?:word/document\d*|content|sharedStrings|sheet\d+)\.xml$")
_TAG, _HEAD_BYTES = re.compile(rb"<[^>]*>"), 1 << 16

Block = str | list[list[str]]
"""A paragraph, or the rows of a table."""


@contextmanager
def open_packed(path: Path) -> Iterator[ZipFile]:
    """Provide the archive of one document.

    Raises:
        UserError: no such archive, a harmful one, or more members or bytes than a document has.
    """
    with open_zip(path) as archive:
        sizes = [member.file_size for member in archive.infolist()]
        if len(sizes) > MAX_MEMBERS or sum(sizes) > MAX_TOTAL_BYTES:
            raise UserError(
                f"{path} holds {len(sizes):,} members of {sum(sizes):,} bytes",
                f"at most {MAX_MEMBERS:,} and {MAX_TOTAL_BYTES:,}",
                "do not trust this file",
            )
        # Refuse a document whose texts are in an encoding of 7 bits; what is damaged is told where it is read.
        for name in filter(_MEMBER_OF_TEXT.search, archive.namelist()):
            # zipfile raises the last two for members with a password and for unknown compressions.
            with suppress(*DAMAGE_ERRORS, RuntimeError, NotImplementedError), archive.open(name) as member:
                head = _TAG.sub(b" ", member.read(_HEAD_BYTES))
                if encoding := seven_bits(head):
                    refused = refusal(path, encoding)
                    raise UserError(
                        f"{path}: {name} is {refused.given.partition(' is ')[2]}",
                        "text in UTF-8",
                        "save it again as Unicode",
                    )
        yield archive


def read_member(archive: ZipFile, name: str, max_bytes: int = MAX_MEMBER_BYTES) -> bytes:
    """Return the bytes of a member.

    Raises:
        UserError: there is no such member, or it is larger than ``max_bytes``.
    """
    if name not in archive.NameToInfo:
        raise UserError(
            f"{archive.filename} holds no {name}", "a file as its program writes it", "save it again"
        )
    with archive.open(name) as member:
        data = member.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise UserError(f"{archive.filename}: {name} has over {max_bytes:,} bytes", fix="cut the file in two")
    return data


def member_events(archive: ZipFile, name: str) -> Iterator[Event]:
    """Yield the XML events of a member.

    Raises:
        UserError: as `read_member` and `safe_xml.events`.
    """
    if name not in archive.NameToInfo:
        raise UserError(
            f"{archive.filename} holds no {name}", "a file as its program writes it", "save it again"
        )
    if archive.getinfo(name).file_size > MAX_MEMBER_BYTES:
        raise UserError(
            f"{archive.filename}: {name} has over {MAX_MEMBER_BYTES:,} bytes", fix="cut the file in two"
        )
    with archive.open(name) as member:
        yield from events(member, f"{archive.filename}: {name}")


def docx_blocks(path: Path) -> Iterator[Block]:
    """Yield paragraphs and tables of a Word document (.docx) in order: insertions, links and text boxes too.

    Deleted and hidden text, contents, prompts, and the headers, footers, notes and comments outside of the body, are
    left out. A table inside a table belongs to the cell that holds it.

    Raises:
        UserError: no such document, or a damaged one.
    """
    with open_packed(path) as archive:
        skipped, is_text = 0, False
        of_run, num_raising = set[str](), 0  # properties: superscript, hidden, the font Symbol
        aside = [False]  # whether a table of contents or a prompt, of the paragraph first, then of controls
        texts: list[list[str]] = []
        tables: list[list[list[list[str]]]] = []
        # Word on the web calls it document2.xml.
        main = next(filter(_WORD_MAIN.fullmatch, archive.namelist()), "word/document.xml")
        for kind, name, attributes in member_events(archive, main):
            value = next(iter(attributes.values()), "")  # the attribute val, under any prefix
            if kind == "text":
                if is_text and texts and not (skipped or any(aside)) and "vanish" not in of_run:
                    text = _in_symbols(name) if "Symbol" in of_run else name
                    texts[-1].append(raised(text) if num_raising or "superscript" in of_run else text)
            elif name in _WORD_SKIPPED:
                skipped += 1 if kind == "start" else -1
            elif kind == "start":
                is_text = name == "t"
                if name == "r":
                    of_run.clear()
                elif name in ("vertAlign", "vanish") and not skipped:
                    of_run.add(value if name == "vertAlign" else "" if value in _OFF else name)
                elif name == "rFonts" and _attribute(attributes, "ascii") == "Symbol":
                    of_run.add("Symbol")
                elif name == "sdt":
                    aside.append(False)
                elif name in ("p", "pStyle"):
                    aside[0] = name == "pStyle" and _CONTENTS_STYLE.match(value) is not None
                elif name == "showingPlcHdr" or (name, value) == ("docPartGallery", _CONTENTS):
                    aside[-1] = True
                num_raising += name == "sup"
                if name == "sym" and texts and not (skipped or any(aside)):
                    texts[-1].append(_symbol(attributes))
                _word_start(name, attributes, texts, tables)
            else:
                is_text = False
                num_raising -= name == "sup"
                if name == "sdt" and len(aside) > 1:
                    aside.pop()
                yield from _word_end(name, texts, tables)


def _in_symbols(text: str) -> str:
    """Return text in the font Symbol as the characters that it shows; Word writes them from U+F000 on."""
    codes = ((char, ord(char) & 0xFF if "\uf000" <= char <= "\uf0ff" else ord(char)) for char in text)
    return "".join(_SYMBOLS.get(code, char if code > 0xFF else "") for char, code in codes)


def _symbol(attributes: dict[str, str]) -> str:
    """Return the character of a ``w:sym``; "" for a picture of Wingdings and the like."""
    font, code = _attribute(attributes, "font").lower(), _attribute(attributes, "char")
    char = chr(int(code, 16)) if re.fullmatch("[0-9A-Fa-f]{1,4}", code) else ""
    if font.startswith(_PICTURE_FONTS):
        return ""
    return _in_symbols(char) if font == "symbol" else char


def _word_start(
    name: str, attributes: dict[str, str], texts: list[list[str]], tables: list[list[list[list[str]]]]
) -> None:
    if name == "p":
        texts.append([])
    elif name == "tbl":
        tables.append([])
    elif name == "tr" and tables:
        tables[-1].append([])
    elif name == "tc" and tables and tables[-1]:
        tables[-1][-1].append([])
    elif texts and name in ("tab", "ptab", "br", "cr"):
        texts[-1].append("\n" if name in ("br", "cr") else " ")
    elif texts and name == "den":  # of a fraction in a formula
        texts[-1].append("/")
    elif texts and name == "noBreakHyphen":
        texts[-1].append("\u2011")


def _word_end(name: str, texts: list[list[str]], tables: list[list[list[list[str]]]]) -> Iterator[Block]:
    if name == "p" and texts:
        text = "".join(texts.pop())
        if not tables:
            yield text
        elif tables[-1] and tables[-1][-1]:
            tables[-1][-1][-1].append(text)
    elif name == "tbl" and tables:
        rows = [[" ".join(filter(None, map(str.strip, cell))) for cell in row] for row in tables.pop()]
        if not tables:
            yield rows
        elif tables[-1] and tables[-1][-1]:
            tables[-1][-1][-1] += [" ".join(row) for row in rows]


def _attribute(attributes: dict[str, str], name: str) -> str:
    """Return the value of the attribute with this name, whatever its prefix, or "" if it is missing."""
    return next((value for key, value in attributes.items() if key.rpartition(":")[2] == name), "")


def _odt_events(path: Path) -> Iterator[Event]:
    """Yield the XML events of an OpenDocument text, packed (.odt) or flat (.fodt)."""
    if path.suffix.lower() == ".fodt":
        with path.open("rb") as file:
            yield from events(file, str(path))
    else:
        with open_packed(path) as archive:
            yield from member_events(archive, "content.xml")


def odt_paragraphs(path: Path) -> Iterator[str]:
    """Yield headings and paragraphs of an OpenDocument text (.odt, .fodt), those in tables and frames too.

    Deleted and hidden text, notes, comments, tables of contents and indices are left out.

    Raises:
        UserError: no such document, or a damaged one.
    """
    skipped, in_frame, style = 0, [False], ""
    texts: list[list[str]] = []
    raising, hiding = set[str](), {_HIDDEN}  # names of styles
    spans: list[str] = []  # of the open sections, paragraphs and spans
    for kind, name, attributes in _odt_events(path):
        if kind == "end":
            in_frame.pop()
        of_picture = in_frame[-1] and name in _ODT_OF_PICTURE
        if kind == "start":
            in_frame.append(name in _ODT_PICTURES)
        if kind != "text" and (name in _ODT_SKIPPED or of_picture):
            skipped += 1 if kind == "start" else -1
        elif skipped:
            continue
        elif kind == "text":
            if texts and hiding.isdisjoint(spans):
                texts[-1].append(name if raising.isdisjoint(spans) else raised(name))
            continue
        if name in _ODT_STYLED and not skipped:
            is_hidden = name == "section" and _attribute(attributes, "display") == "none"
            styled = _HIDDEN if is_hidden else _attribute(attributes, "style-name")
            spans = [*spans, styled] if kind == "start" else spans[:-1]
        if name in ("p", "h"):
            if kind == "start":
                texts.append([])
            elif texts:
                yield "".join(texts.pop())
        elif kind == "start" and name == "style":
            style = _attribute(attributes, "name")
        elif kind == "start" and name == "text-properties":
            position = _attribute(attributes, "text-position").split() or ["0%"]
            if position[0] == "super" or not position[0].startswith(("0", "-", "sub")):
                raising.add(style)
            if _attribute(attributes, "display") == "none":
                hiding.add(style)
        elif kind == "start" and texts and name in ("s", "tab", "line-break"):
            texts[-1].append("\n" if name == "line-break" else " ")


def epub_pages(path: Path, ledger: Ledger) -> Iterator[tuple[str, bytes | None]]:
    """Yield name and XHTML of the pages of a book (.epub) in reading order; None for one that is locked or missing.

    The table of contents is left out, and so are pages outside of the reading order, which the ledger counts.

    Raises:
        UserError: no such book, or a damaged one.
    """
    with open_packed(path) as archive:
        package = next(
            (
                attributes.get("full-path", "")
                for kind, name, attributes in member_events(archive, "META-INF/container.xml")
                if (kind, name) == ("start", "rootfile")
            ),
            "",
        )
        pages: dict[str, str] = {}
        order: list[str] = []
        listed, contents, texts = set[str](), set[str](), set[str]()
        for kind, name, attributes in member_events(archive, package):
            if kind != "start":
                continue
            if name == "item":
                listed.add(attributes.get("id", ""))
            if name == "item" and "nav" not in attributes.get("properties", "").split():
                pages[attributes.get("id", "")] = attributes.get("href", "")
                texts.update([attributes.get("id", "")] if "html" in attributes.get("media-type", "") else ())
            elif name == "itemref" and attributes.get("linear") != "no":
                order.append(attributes.get("idref", ""))
            elif name == "reference" and attributes.get("type") == "toc":  # of EPUB 2
                contents.add(attributes.get("href", "").partition("#")[0])
        if num_outside := sum(1 for item in texts.difference(order) if pages[item] not in contents):
            ledger.count_event(OUTSIDE_NOTE, num_outside)
        locked = _locked_members(archive)
        yield from ((item, None) for item in dict.fromkeys(order) if item not in listed)
        files = [
            pages[item].partition("#")[0] for item in order if item in pages and pages[item] not in contents
        ]
        members = [normpath(join(dirname(package), unquote(file))) for file in files]
        for member in dict.fromkeys(members):  # a page stands once in a book, under however many names
            is_there = member in archive.NameToInfo and member not in locked
            yield member, read_member(archive, member) if is_there else None


def _locked_members(archive: ZipFile) -> set[str]:
    name = "META-INF/encryption.xml"
    if name not in archive.NameToInfo:
        return set()
    return {
        unquote(attributes.get("URI", ""))
        for kind, tag, attributes in member_events(archive, name)
        if (kind, tag) == ("start", "CipherReference")
    }
