"""``verses:SRC+TGT``: two files of numbered verses, joined by their numbers; the book is the document.

XML: ``<seg id="b.GEN.1.1">`` (CES, as the Bible corpus of Christodouloupoulos and Steedman 2015) or ``<verse
osisID="Gen.1.1">`` around the text, or two around it (OSIS, USX); or lines of ``GEN.1.1<TAB>text``. Plain or gzip.
"""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from xling.core.errors import UserError
from xling.corpora.common.xml_units import DAMAGED, unit_events
from xling.corpora.parallel.sources import PAIR_SOURCES, drop_row
from xling.corpora.parallel.sources.units import TwoFiles
from xling.text.document import Ledger
from xling.text.files import corpus_reader
from xling.text.files.compressed import MAX_CELL_BYTES

# Inside of a sentence; other elements part words. What is left out, and paragraphs of USX that are text.
_INLINE = frozenset({"w", "q", "hi", "char", "divineName", "transChange", "foreign", "name"})
_SKIPPED = frozenset({"note", "title"})
_PARAGRAPH = re.compile(r"(?:p[a-z]*|m|mi|nb|q[a-z]*|li[a-z]*|b|d)\d?")


@PAIR_SOURCES.register("verses")
class Verses(TwoFiles):
    """Two files of numbered verses."""

    scheme, keys = "verses", "verse numbers"

    @staticmethod
    def document_of(key: str) -> str:
        """Return the book of a verse."""
        return key.split(".")[0]

    @staticmethod
    def texts(path: Path, ledger: Ledger) -> dict[str, str]:
        """Return verse number in capitals -> text; parts of one verse are joined, and lines without a number counted.

        Raises:
            UserError: the file holds no verse, or is damaged and marks verses by empty elements.
        """
        verses: dict[str, list[str]] = {}
        if {".xml", ".usx"} & set(path.suffixes):
            _read_xml(path, verses, ledger)
        else:
            for position, line in enumerate(corpus_reader.read_lines(path, MAX_CELL_BYTES, keep_bad=True)):
                number, sign, text = line.partition("\t")
                if sign and not isinstance(line, corpus_reader.BadLine):
                    verses.setdefault(number.upper(), []).append(f"{text} ")
                elif line.strip():
                    drop_row(ledger, "malformed", f"{path}/{position}", line)
        if not verses:
            raise UserError(
                f"{path} holds no verse", "XML with seg or verse elements, or NUMBER<TAB>TEXT lines"
            )
        return {number: " ".join("".join(parts).split()) for number, parts in verses.items()}


def _is_skipped(name: str, attributes: Mapping[str, str]) -> bool:
    if name == "para":
        return not _PARAGRAPH.fullmatch(attributes.get("style", ""))
    return name in _SKIPPED and attributes.get("canonical") != "true"


def _read_xml(path: Path, verses: dict[str, list[str]], ledger: Ledger) -> None:
    number, depth = "", 0  # of what is skipped
    sizes: Counter[str] = Counter()
    for kind, value, attributes in unit_events(path, {"seg", "verse"}, {"chapter"}, frozenset()):
        if kind == DAMAGED:
            number = ""
            drop_row(ledger, "malformed", f"{path}", value)
            continue
        if depth or (kind == "start" and _is_skipped(value, attributes)):
            depth += {"start": 1, "end": -1}.get(kind, 0)
            continue
        if kind != "text" and number in verses and value not in _INLINE:
            verses[number].append(" ")
        if kind == "text" and number:
            sizes[number] += len(value)
            if sizes[number] <= MAX_CELL_BYTES:
                verses.setdefault(number, []).append(value)
        elif kind == "start" and value == "seg" and attributes.get("type", "verse") == "verse":
            number = attributes.get("id", "").upper().removeprefix("B.")
        elif kind == "start" and value == "verse":
            # OSIS may write a verse as two empty milestones instead of an element around the text.
            is_end = "eID" in attributes or "eid" in attributes
            stated = (attributes.get(name) for name in ("osisID", "sID", "sid"))
            number = next(filter(None, stated), "" if is_end else number).upper()
            number = number.replace(" ", ".").replace(":", ".")
            milestone = not {"sID", "sid"}.isdisjoint(attributes)
        elif kind == "end" and (value == "seg" or (value == "verse" and not milestone)):
            number = ""
    for number, size in sizes.items():
        if size > MAX_CELL_BYTES:
            drop_row(ledger, "malformed", f"{path}/{number}", "".join(verses.pop(number))[:1000])
