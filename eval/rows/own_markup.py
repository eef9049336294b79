"""Translations that users bring as markup: TMX, XLIFF, and the XML of WMT's test sets."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from xling.core import languages
from xling.core.errors import UserError
from xling.core.language_tags import best_tag
from xling.corpora.common.safe_xml import events
from xling.corpora.parallel.sources import PAIR_SOURCES, SourceContext
from xling.eval.rows.own_columns import OwnRow, OwnTable
from xling.text.document import Ledger

_SCHEMES = {".tmx": "tmx", ".xlf": "xliff", ".xliff": "xliff"}
"""End of a file's name -> the source of pairs that reads it."""
ENDINGS = (*_SCHEMES, ".xml")


def read_markup(path: Path, langs: Sequence[str]) -> OwnTable:
    """Return the rows of a file with one of the `ENDINGS`.

    Args:
        path: the file.
        langs: the languages of the two texts of a row, in order.

    Raises:
        UserError: the file is damaged, has no row in both languages, or segments without a translation.
    """
    ledger, facts = Ledger(), "WMT's XML"
    if path.suffix == ".xml":
        pairs, note = _wmt_pairs(path, langs)
        facts += note
    else:
        scheme = _SCHEMES[path.suffix]
        context = SourceContext(*map(languages.get, langs))
        (source,) = PAIR_SOURCES[scheme].open(str(path), context)
        pairs, facts = [(a, b) for a, b, _ in source.rows(ledger)], scheme.upper()
    if not pairs:
        raise UserError(f"{path} has no text in both {' and '.join(langs)}", "units with both languages")
    if num_dropped := sum(ledger.dropped.values()):
        facts += f", {num_dropped} units without the two texts or unfinished left out"
    return OwnTable([OwnRow((n,), {"text_a": a, "text_b": b}) for n, (a, b) in enumerate(pairs, 1)], facts)


def _wmt_pairs(path: Path, langs: Sequence[str]) -> tuple[list[tuple[str, str]], str]:
    """Return the segments of a file of WMT in two languages, and which of several references is read in words.

    A document has a ``src`` and some ``ref``, each with its ``lang`` and segments by ``id``. Of several texts in a
    language the first counts. Outputs of systems (``hyp``) are left out.
    """
    pairs, others, texts = [], 0, dict[tuple[int, str], dict[str, str]]()
    for key, number, text in _segments(path):
        texts.setdefault(key, {})[number] = text
    by_doc: dict[int, dict[str, dict[str, str]]] = {}
    for (doc, lang), segments in texts.items():
        name = lang.split("\t")[0]
        others += name in by_doc.setdefault(doc, {})
        by_doc[doc].setdefault(name, segments)
    for sides in by_doc.values():
        tags = [best_tag(sides, languages.get(lang)) for lang in langs]
        if None in tags:
            continue
        source, target = (sides[str(tag)] for tag in tags)
        if unpaired := sorted({*source} ^ {*target}):
            raise UserError(f"{path}: segment {unpaired[0]} lacks one of {' and '.join(langs)}", "both texts")
        pairs += [(text, target[number]) for number, text in source.items()]
    return pairs, f", {others} further references left out" if others else ""


def _segments(path: Path) -> Iterator[tuple[tuple[int, str], str, str]]:
    """Yield document and version, id, and text of each segment; a version is its language and its translator."""
    doc, version, number, parts = 0, "", "", list[str]()
    with path.open("rb") as file:
        for kind, value, attributes in events(file, str(path), {"seg"}):
            if kind == "text":
                parts.append(value)
            elif kind == "start":
                doc += value == "doc"
                if value in ("src", "ref"):
                    version = f"{attributes.get('lang', '')}\t{value} {attributes.get('translator', '')}"
                elif value == "seg":
                    number, parts = attributes.get("id", ""), []
            elif value in ("src", "ref"):
                version = ""
            elif value == "seg" and version:
                yield (doc, version), number, "".join(parts).strip()
