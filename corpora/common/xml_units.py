"""Events of the units of a damaged XML file: each unit is parsed alone, so that damage costs the unit that it is in."""

import io
import re
from collections.abc import Iterator, Set
from pathlib import Path

from xling.core.errors import UserError
from xling.corpora.common.safe_xml import Event, NotWellFormedError, events, open_xml

DAMAGED = "damaged"
"""Kind of the event that stands for a damaged unit; its value is what stands in the file."""
MAX_BYTES = 1 << 28
"""Of a damaged file, which is held in memory."""
_ROOT = re.compile(r"<(\w[\w:.-]*)[\s>]")
_ENCODING = re.compile(rb"""<\?xml[^>]*?encoding\s*=\s*["']([\w.:-]+)["']""")


def unit_events(path: Path, units: Set[str], heads: Set[str], texts: Set[str]) -> Iterator[Event]:
    """Yield the events of an XML file, plain or gzip; of a damaged one those of its whole units.

    Args:
        units: names of the elements that are units; none stands in another one.
        heads: names of elements around units whose attributes count.
        texts: names of elements whose text is one cell.

    Raises:
        UserError: it declares an entity, is too large, or holds no whole unit.
    """
    try:
        with open_xml(path) as handle:
            for _ in events(handle, str(path), texts):
                pass
    except NotWellFormedError as error:
        yield from _whole_units(path, units, heads, texts, error)
        return
    with open_xml(path) as handle:
        yield from events(handle, str(path), texts)


def _whole_units(
    path: Path, units: Set[str], heads: Set[str], texts: Set[str], error: UserError
) -> Iterator[Event]:
    """Yield the events of units that are well-formed by themselves, and one for each of the others.

    A file that breaks off behind a unit has one more, empty and damaged.

    Raises:
        UserError: ``error``, where there is no whole one.
    """
    text = _text(path)
    if text is None or re.search(r"<!\s*ENTITY", text):
        raise error
    start = re.compile(rf"<(?:\w+:)?(?:{'|'.join(sorted(units))})(?=[\s>])")
    end = re.compile(rf"</(?:\w+:)?(?:{'|'.join(sorted(units))})\s*>")
    head = re.compile(rf"<(?:\w+:)?(?:{'|'.join(sorted(heads))})(?=[\s>])[^<>]*>")
    places = [match.start() for match in start.finditer(text)]
    events_of_units = list[list[Event]]()
    for begin, stop in zip([0, *places], [*places, len(text)], strict=True):
        piece = text[begin:stop]
        last = end.search(piece)
        if begin in places:
            inner = _parsed(piece[: last.end()], texts) if last else None
            events_of_units.append(inner or [Event(DAMAGED, piece[:1000], {})])
        for lost in list(end.finditer(piece))[begin in places :]:
            events_of_units.append([Event(DAMAGED, piece[max(0, lost.start() - 1000) : lost.end()], {})])
        for match in head.finditer(piece, last.end() if last else 0):
            events_of_units.append(
                [each for each in _parsed(f"{match[0].rstrip('/>')}/>", texts) or [] if each.kind == "start"]
            )
    if not any(len(each) > 1 for each in events_of_units):
        raise error
    root = _ROOT.search(text)
    is_cut = root is not None and not re.search(rf"</{re.escape(root[1])}\s*>", text)
    if is_cut and events_of_units[-1][0].kind != DAMAGED:
        events_of_units.append([Event(DAMAGED, "", {})])
    for each in events_of_units:
        yield from each


def _parsed(xml: str, texts: Set[str]) -> list[Event] | None:
    """Return the events of one element, None if it is not well-formed."""
    try:
        return list(events(io.BytesIO(xml.encode("utf-8", "replace")), "unit", texts))
    except UserError:
        return None


def _text(path: Path) -> str | None:
    """Return the text of a file as far as it can be read; what cannot be decoded is a character that XML forbids."""
    data = b""
    try:
        with open_xml(path) as handle:
            while len(data) <= MAX_BYTES and (chunk := handle.read(1 << 16)):
                data += chunk
    except (OSError, EOFError):
        pass
    if len(data) > MAX_BYTES:
        return None
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace").replace("\ufffd", "\0")
    stated = _ENCODING.match(data[:200].lstrip(b"\xef\xbb\xbf \r\n\t"))
    try:
        return data.decode(stated[1].decode() if stated else "utf-8", "replace").replace("\ufffd", "\0")
    except LookupError:
        return None
