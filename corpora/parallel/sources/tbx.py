"""``tbx:FILE``: terms of a terminology (TBX 2 and 3); plain or gzip."""

from collections.abc import Iterator
from pathlib import Path

from xling.corpora.common.xml_units import DAMAGED, unit_events
from xling.corpora.parallel.sources import PAIR_SOURCES
from xling.corpora.parallel.sources.units import Unit, UnitFile
from xling.text.document import Ledger

_ENTRIES, _LANGS = frozenset({"termEntry", "conceptEntry"}), frozenset({"langSet", "langSec"})
_TERMS = frozenset({"tig", "ntig", "termSec"})
_STATUS = frozenset({"administrativeStatus", "normativeAuthorization"})
_NOTES = _STATUS | {"termNote"}
_OLD = ("deprecatedTerm", "supersededTerm")
OLD = "terms that are not to be used any more, which were not read"
SYNONYMS = "further terms of an entry in one language, which were not read"


@PAIR_SOURCES.register("tbx")
class Tbx(UnitFile):
    """The first term of each language of an entry that may be used."""

    scheme = "tbx"

    @staticmethod
    def units(path: Path, ledger: Ledger) -> Iterator[Unit]:
        """Yield the entries of a file; one without a term is damaged.

        Raises:
            UserError: no entry of the file is whole.
        """
        terms: dict[str, str] = {}
        lang, term, number, is_old = "", "", 0, False
        parts: list[str] | None = None
        entries = unit_events(path, _ENTRIES, frozenset({"martif", "tbx"}), frozenset({"term", *_NOTES}))
        for kind, name, attributes in entries:
            if kind == DAMAGED:
                term, number, is_old = "", number + 1, False
                yield f"{number}", None, ""
            elif kind == "text":
                if parts is not None:
                    parts.append(name)
            elif name in _ENTRIES and kind == "start":
                terms, number = {}, number + 1
            elif name in _ENTRIES:
                yield f"{number}", terms or None, ""
            elif name in _TERMS and kind == "end":
                if is_old:
                    ledger.count_event(OLD)
                elif term and lang in terms:
                    ledger.count_event(SYNONYMS)
                elif term:
                    terms[lang] = term
                term, is_old = "", False
            elif name in _LANGS and kind == "start":
                lang = (attributes.get("xml:lang") or attributes.get("lang") or "").lower()
            elif name == "term" and kind == "start":
                parts = []
            elif name == "term" and parts is not None:
                term, parts = " ".join("".join(parts).split()), None
            elif name in _NOTES and kind == "start":
                parts = [] if attributes.get("type", name) in _STATUS else None
            elif name in _NOTES and parts is not None:
                is_old, parts = is_old or "".join(parts).strip().startswith(_OLD), None
