"""``xliff:FILE``: translations in XLIFF 1.2 and 2, as translators' programs exchange them; plain or gzip."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from xling.corpora.common.xml_units import DAMAGED, unit_events
from xling.corpora.parallel.sources import PAIR_SOURCES, drop_row
from xling.corpora.parallel.sources.inline import joined, mark_of_code
from xling.corpora.parallel.sources.units import UNFINISHED, Unit, UnitFile
from xling.text.document import Ledger

# XLIFF 1.2, section 2.4.4: what these hold is code, but for the text in <sub>. XLIFF 2 has no such content.
_CODES = frozenset({"bpt", "ept", "it", "ph", "bx", "ex", "x", "sc", "ec", "cp"})
_OUTER, _HEADS = frozenset({"trans-unit", "unit"}), frozenset({"xliff", "file"})
_UNITS, _TEXTS = frozenset({"trans-unit", "segment"}), frozenset({"source", "seg-source", "target"})
_SKIPPED = frozenset(
    {"alt-trans", "note", "notes", "ignorable", "matches", "glossary", "originalData", "metadata"}
)
_INHERITED = frozenset({"file", "group", "unit", "trans-unit"})
_NOT_TRANSLATED = frozenset({"new", "needs-translation", "initial"})
_REJECTED, _DELETED = "Rejected", "x-sdl-deleted"  # of memoQ, of Trados
_BREAKS = frozenset({"lb", "x-html-br", "fmt", "pb"})

_HEADER = "x-gettext-domain-header"  # of a catalogue, by po2xliff


@PAIR_SOURCES.register("xliff")
class Xliff(UnitFile):
    """One file of translation units."""

    scheme = "xliff"

    @staticmethod
    def units(path: Path, ledger: Ledger) -> Iterator[Unit]:
        """Yield the units of a file; one that is not translated is dropped by name.

        Raises:
            UserError: no unit of the file is whole.
        """
        langs, doc, number, of_phrase = ["", ""], "", 0, False
        unit: dict[str, _Text] = {}
        state, skipped = "", 0
        wanted = [True]
        text: _Text | None = None
        codes: list[list[str]] = []
        for kind, name, attributes in unit_events(path, _OUTER, _HEADS, _TEXTS):
            if kind == DAMAGED:
                number += 1
                yield f"{number}", None, doc
            elif name in _SKIPPED and kind != "text":
                skipped += 1 if kind == "start" else -1
            elif skipped:
                continue
            elif kind == "text":
                if codes:
                    codes[-1].append(name)
                elif text:
                    text.add(name)
            elif name in _HEADS and kind == "start":
                del wanted[1:]
                of_phrase = of_phrase or any("memsource" in value for value in attributes.values())
                langs[0] = attributes.get("srcLang") or attributes.get("source-language") or langs[0]
                langs[1] = attributes.get("trgLang") or attributes.get("target-language") or langs[1]
                doc = attributes.get("original", "") if name == "file" else ""
            if kind == "start" and name in _INHERITED:
                wanted.append(attributes.get("translate", "yes" if wanted[-1] else "no") != "no")
            if name in _UNITS and kind == "start":
                unit, state, number = {}, attributes.get("state", ""), number + 1
                if attributes.get("mq:status") == _REJECTED or attributes.get("restype") == _HEADER:
                    state = "no"
            elif name in _UNITS and kind == "end":
                yield from _units_of(
                    path, f"{number}", unit, state if wanted[-1] else "no", langs, doc, ledger
                )
            elif name in _TEXTS and kind == "start":
                text, codes = _Text(of_phrase), []
                unit[name] = text
                side = int(name == "target")
                langs[side] = langs[side] or attributes.get("xml:lang", "")
                state = attributes.get("state", state) if name == "target" and state != "no" else state
            elif name in _TEXTS and kind == "end":
                text = None
            elif text and name == "mrk":
                if kind == "start":
                    text.begin_mark(attributes.get("mtype", ""), attributes.get("mid", ""))
                elif text.marks[1:]:
                    text.marks.pop()
            elif text and name in _CODES and kind == "start":
                codes.append(_shown(attributes))
            elif text and name in _CODES and codes:
                text.add(_mark(name, "".join(codes.pop())))
            if kind == "end" and name in _INHERITED:
                wanted.pop()


@dataclass
class _Text:
    """A text in the making: its parts, those of each of its segments by their number, and the open marks."""

    has_placeholders: bool = False
    parts: list[str] = field(default_factory=list)
    segments: dict[str, list[str]] = field(default_factory=dict)
    marks: list[str] = field(default_factory=lambda: [""])

    def begin_mark(self, kind: str, number: str) -> None:
        """Begin a segment, deleted text, or something else that is passed over."""
        self.marks.append(number if kind == "seg" else _DELETED if kind == _DELETED else self.marks[-1])
        self.add("")

    def add(self, text: str) -> None:
        """Add text to the open segment, unless it is deleted."""
        if _DELETED not in self.marks:
            self.parts.append(text)
            if self.marks[-1]:
                self.segments.setdefault(self.marks[-1], []).append(text)

    def joined(self, segment: str = "") -> str:
        """Return the whole text, or that of a segment."""
        return joined(self.segments.get(segment, []) if segment else self.parts, self.has_placeholders)


def _shown(attributes: dict[str, str]) -> list[str]:
    """Return the text that stands for a code, and a line break where it is one."""
    text = attributes.get("equiv-text") or attributes.get("equiv") or attributes.get("disp") or ""
    is_break = attributes.get("ctype") in _BREAKS or attributes.get("subType") == "xlf:lb"
    return [text, "\n" if is_break else ""]


def _mark(name: str, content: str) -> str:
    return mark_of_code({"bx": "bpt", "ex": "ept", "sc": "bpt", "ec": "ept"}.get(name, name), content)


def _units_of(
    path: Path, name: str, unit: dict[str, _Text], state: str, langs: list[str], doc: str, ledger: Ledger
) -> Iterator[Unit]:
    """Yield the unit, or its segments where both sides have some in common."""
    if "source" not in unit:
        yield name, None, doc
        return
    source, target = unit.get("seg-source") or unit["source"], unit.get("target")
    if state == "no" or (state in _NOT_TRANSLATED and target and target.joined()):
        drop_row(ledger, UNFINISHED, f"{path}/{name}", source.joined())
        return
    if target and source.segments.keys() & target.segments.keys():
        for number in dict.fromkeys([*source.segments, *target.segments]):
            sides = source.joined(number), target.joined(number)
            yield f"{name}.{number}", _by_lang(langs, sides), doc
    else:
        yield name, _by_lang(langs, (source.joined(), target.joined() if target else "")), doc


def _by_lang(langs: list[str], sides: tuple[str, str]) -> dict[str, str]:
    return {lang.lower(): side for lang, side in zip(langs, sides, strict=True) if side}
