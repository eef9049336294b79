"""``tbx:FILE``: terms of a terminology (TBX 2 and 3); plain or gzip."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from xling.corpora.common.safe_xml import events, open_xml
from xling.corpora.parallel.sources import (
    EXAMPLE_ROWS,
    PAIR_SOURCES,
    PairReader,
    PairSource,
    PairSourceExample,
    SourceContext,
)
from xling.corpora.parallel.sources.units import Unit, unit_source
from xling.text.document import Ledger

_ENTRIES, _LANGS = frozenset({"termEntry", "conceptEntry"}), frozenset({"langSet", "langSec"})
SYNONYMS = "further terms of an entry in one language, which were not read"


@PAIR_SOURCES.register("tbx")
class Tbx(PairReader):
    """The first term of each language of an entry."""

    @classmethod
    def open(cls, rest: str, context: SourceContext) -> list[PairSource]:
        """Return one source of one file."""
        return unit_source("tbx", rest, context, read_entries)

    @classmethod
    def example(cls) -> PairSourceExample:
        """Return a small example input: two entries of TBX 3."""
        entries = "".join(
            "<conceptEntry>"
            + "".join(
                f'<langSec xml:lang="{lang}"><termSec><term>{term}</term></termSec></langSec>'
                for lang, term in (("en", src), ("sw", tgt))
            )
            + "</conceptEntry>"
            for src, tgt, _ in EXAMPLE_ROWS
        )
        content = f"<tbx><text><body>{entries}</body></text></tbx>".encode()
        return PairSourceExample("{folder}/a.tbx", EXAMPLE_ROWS, {"a.tbx": content})


def read_entries(path: Path, ledger: Ledger) -> Iterator[Unit]:
    """Yield the entries of a file; one without a term is damaged.

    Raises:
        UserError: the file is damaged.
    """
    terms: dict[str, str] = {}
    lang, number = "", 0
    parts: list[str] | None = None
    with open_xml(path) as handle:
        for kind, name, attributes in events(handle, str(path), {"term"}):
            if kind == "text":
                if parts is not None:
                    parts.append(name)
            elif name in _ENTRIES and kind == "start":
                terms, number = {}, number + 1
            elif name in _ENTRIES:
                yield f"{number}", terms or None, ""
            elif name in _LANGS and kind == "start":
                lang = (attributes.get("xml:lang") or attributes.get("lang") or "").lower()
            elif name == "term" and kind == "start":
                parts = []
            elif name == "term" and parts is not None:
                term, parts = " ".join("".join(parts).split()), None
                if lang in terms:
                    ledger.count_event(SYNONYMS)
                elif term:
                    terms[lang] = term
