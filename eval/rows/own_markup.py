"""Own files as markup: TMX and XLIFF as `xling corpus parallel` reads them, WMT's XML, and formats that are refused."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.common.xml_units import DAMAGED, unit_events
from xling.corpora.parallel.sources import PAIR_SOURCES, SourceContext
from xling.corpora.parallel.sources.units import Unit, UnitFile
from xling.eval.rows.own_columns import OwnRow, OwnTable
from xling.text.document import Ledger

ENDINGS = (".tmx", ".xlf", ".xliff")
SEGMENT = re.compile(
    r"\s*(<seg [^>]*>|<\?xml |<(refset|srcset|tstset|mteval|dataset) ?[^>]*>)", re.IGNORECASE
)
"""What a line of WMT's and IWSLT's files of segments begins with."""


class _WmtTestSet(UnitFile):
    """A test set of WMT from 2021 on: documents with the segments of a source, of references and of systems."""

    scheme = "wmt"

    @staticmethod
    def units(path: Path, ledger: Ledger) -> Iterator[Unit]:
        """Yield the segments of each document, the reference by the first translator of its language."""
        translators, texts = dict[str, str](), dict[str, dict[str, str]]()
        doc = lang = number = ""
        letters: list[str] | None = None
        for kind, name, attributes in unit_events(path, {"doc"}, {"dataset"}, {"seg"}):
            if kind == DAMAGED:
                yield doc, None, doc
            elif kind == "text":
                if letters is not None:
                    letters.append(name)
            elif name == "doc":
                yield from ((f"{doc}/{each}", of_langs, doc) for each, of_langs in texts.items())
                doc, texts = attributes.get("id", ""), {}
            elif name in ("src", "ref", "hyp"):
                lang = attributes.get("lang", "") if name != "hyp" else ""
                translator = attributes.get("translator", "")
                if name == "ref" and lang and translators.setdefault(lang, translator) != translator:
                    ledger.count_event(
                        f"references by another translator than {translators[lang] or 'the first'}"
                    )
                    lang = ""
            elif name == "seg" and kind == "start":
                number, letters = attributes.get("id", ""), [] if lang else None
            elif name == "seg" and letters is not None:
                texts.setdefault(number, {})[lang] = " ".join("".join(letters).strip().splitlines())
                letters = None


def is_wmt_test_set(lines: Iterable[str]) -> bool:
    """Return whether the first lines of a file are those of a test set of WMT as XML."""
    return any(re.match(r"\s*(<\?xml [^>]*>)?\s*<dataset[ >]", line) for line in lines)


def read_markup(path: Path, langs: Sequence[str]) -> OwnTable:
    """Return the rows of a test set of WMT, or of a file with one of the `ENDINGS`, in two languages.

    Raises:
        UserError: the file is damaged, or has no row in both languages.
    """
    schemes, ledger = {".tmx": "tmx", ".xlf": "xliff", ".xliff": "xliff"}, Ledger()
    scheme = schemes.get(path.suffix.lower(), "")
    src, tgt = map(languages.get, langs)
    reader = PAIR_SOURCES[scheme] if scheme else _WmtTestSet
    (source,) = reader.open(str(path), SourceContext(src, tgt))
    pairs = enumerate(source.rows(ledger), 1)
    rows = [OwnRow((number,), {"text_a": text_a, "text_b": text_b}) for number, (text_a, text_b, _) in pairs]
    num_left_out = sum(ledger.dropped.values())
    left_out = f", {num_left_out} units without the two texts or unfinished left out" if num_left_out else ""
    others = "".join(f", {number} {name}" for name, number in ledger.notes.items() if not scheme)
    return OwnTable(rows, (scheme.upper() or "a test set of WMT") + left_out + others)


def refuse_other_format(path: Path, first: str) -> None:
    """Raise UserError for a file whose ``first`` line is that of a format that is not read."""
    if path.suffix == ".xml" or SEGMENT.match(first):
        raise UserError(
            f"{path} is XML or SGML of other kinds",
            "two line-aligned files, a table, TMX, XLIFF, or WMT's XML from 2021 on",
            "write source and reference into two files; for published sets: sacrebleu -t wmt22 -l en-de --echo src",
        )
    if first.startswith("#FORMAT=WebAnno TSV"):
        raise UserError(
            f"{path} is WebAnno TSV, as INCEpTION exports it",
            "CoNLL columns or JSON lines",
            "export the documents as CoNLL 2002 or CoNLL 2003",
        )
