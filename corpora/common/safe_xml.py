"""A stream of XML events that declares no entity, loads nothing from outside and stays bounded."""

import contextlib
import gzip
import zlib
from collections.abc import Iterator, Set
from html.entities import html5
from pathlib import Path
from typing import IO, NamedTuple, cast
from xml.parsers import expat

from xling.core.errors import UserError
from xling.text.files.compressed import MAX_CELL_BYTES
from xling.text.files.encodings import refuse_seven_bits

_CHUNK_BYTES = 1 << 18


TOO_LONG = "\ufffd" * (MAX_CELL_BYTES + 1)


class NotWellFormedError(UserError):
    """A document is cut off or not well-formed."""


class Event(NamedTuple):
    """``kind`` is start, end or text; ``value`` the tag without its name space, or the text."""

    kind: str
    value: str
    attributes: dict[str, str]


def events(handle: IO[bytes], name: str, texts: Set[str] = frozenset()) -> Iterator[Event]:
    """Yield the events of a document, in order.

    Args:
        texts: names of elements whose text is one cell. Where such an element holds more than `MAX_CELL_BYTES`
            characters, `TOO_LONG` stands in place of the rest, which is longer than a cell may be by itself.

    Raises:
        UserError: it declares an entity, names one from outside, has a huge tag, or is cut off or not well-formed.
    """
    parser = expat.ParserCreate()
    parser.buffer_text = True
    queue: list[Event] = []

    def refuse(*_: object) -> int:
        raise UserError(
            f"{name} declares an XML entity", "a file without entity declarations", "do not trust it"
        )

    parser.EntityDeclHandler = refuse
    parser.ExternalEntityRefHandler = refuse
    parser.StartElementHandler = lambda tag, attrs: queue.append(
        Event("start", tag.rpartition(":")[2], attrs)
    )
    parser.EndElementHandler = lambda tag: queue.append(Event("end", tag.rpartition(":")[2], {}))
    parser.CharacterDataHandler = lambda text: queue.append(Event("text", text, {}))
    parser.UseForeignDTD(True)  # else a name that is not declared, such as ``&nbsp;``, is damage
    parser.SkippedEntityHandler = lambda n, _: queue.append(Event("text", html5.get(f"{n};", f"&{n};"), {}))
    num_pending = 0
    cells = _Cells(texts)
    try:
        while chunk := handle.read(_CHUNK_BYTES):
            parser.Parse(chunk)
            num_pending = 0 if queue else num_pending + len(chunk)
            if num_pending > MAX_CELL_BYTES:
                raise UserError(
                    f"{name} has a tag of more than {MAX_CELL_BYTES:,} bytes", "XML", "do not trust it"
                )
            yield from cells.cut(queue)
            queue.clear()
        parser.Parse(b"", True)
        yield from cells.cut(queue)
    except expat.ExpatError as error:
        raise NotWellFormedError(
            f"{name} is cut off or damaged at line {error.lineno}: {expat.ErrorString(error.code)}",
            "a whole XML file",
            "get the file again",
        ) from None
    except (LookupError, ValueError) as error:  # an encoding that Python or expat does not know
        raise UserError(f"{name}: {error}", "XML in UTF-8 or UTF-16", "convert the file") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise NotWellFormedError(
            f"{name} is cut off: {error}", "a whole file", "get the file again"
        ) from None


class _Cells:
    """Cuts the text of elements with some names; an element inside of another one counts as its text."""

    def __init__(self, names: Set[str]) -> None:
        self._names, self._num_open, self._num_chars = names, 0, 0

    def cut(self, queue: list[Event]) -> Iterator[Event]:
        for event in queue:
            if event.kind != "text":
                if event.value in self._names:
                    self._num_open += 1 if event.kind == "start" else -1
                    self._num_chars = self._num_chars if self._num_open else 0
                yield event
            elif not self._num_open or self._num_chars <= MAX_CELL_BYTES:
                yield event
                if self._num_open:
                    self._num_chars += len(event.value)
                    if self._num_chars > MAX_CELL_BYTES:
                        yield Event("text", TOO_LONG, {})


def open_xml(path: Path) -> IO[bytes]:
    """Return a file, through gzip where its name says so.

    Raises:
        UserError: it says UTF-8 and is in another encoding.
    """
    open_file = gzip.open if path.suffix == ".gz" else open
    with contextlib.suppress(EOFError, gzip.BadGzipFile, zlib.error), open_file(path, "rb") as head:
        refuse_seven_bits(head.read(_CHUNK_BYTES), path, letters=True)  # damage is told where it is read
    return cast(IO[bytes], open_file(path, "rb"))
