"""Own files as markup: TMX and XLIFF, read as `xling corpus parallel` reads them, and formats that are refused."""

import re
from collections.abc import Sequence
from pathlib import Path

from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.parallel.sources import PAIR_SOURCES, SourceContext
from xling.eval.rows.own_columns import OwnRow, OwnTable
from xling.text.document import Ledger

ENDINGS = (".tmx", ".xlf", ".xliff")
SEGMENT = re.compile(
    r"\s*(<seg [^>]*>|<\?xml |<(refset|srcset|tstset|mteval|dataset) ?[^>]*>)", re.IGNORECASE
)
"""What a line of WMT's and IWSLT's files of segments begins with."""


def read_markup(path: Path, langs: Sequence[str]) -> OwnTable:
    """Return the rows of a file with one of the `ENDINGS` in two languages.

    Raises:
        UserError: the file is damaged, or has no row in both languages.
    """
    scheme, ledger = "tmx" if path.suffix.lower() == ".tmx" else "xliff", Ledger()
    src, tgt = map(languages.get, langs)
    (source,) = PAIR_SOURCES[scheme].open(str(path), SourceContext(src, tgt))
    pairs = enumerate(source.rows(ledger), 1)
    rows = [OwnRow((number,), {"text_a": text_a, "text_b": text_b}) for number, (text_a, text_b, _) in pairs]
    num_left_out = sum(ledger.dropped.values())
    left_out = f", {num_left_out} units without the two texts or unfinished left out" if num_left_out else ""
    return OwnTable(rows, scheme.upper() + left_out)


def refuse_other_format(path: Path, first: str) -> None:
    """Raise UserError for a file whose ``first`` line is that of a format that is not read."""
    if path.suffix == ".xml" or SEGMENT.match(first):
        raise UserError(
            f"{path} is XML, as test sets of WMT are",
            "two line-aligned files, a table, TMX or XLIFF",
            "write source and reference into two files; for published sets: sacrebleu -t wmt22 -l en-de --echo src",
        )
    if first.startswith("#FORMAT=WebAnno TSV"):
        raise UserError(
            f"{path} is WebAnno TSV, as INCEpTION exports it",
            "CoNLL columns or JSON lines",
            "export the documents as CoNLL 2002 or CoNLL 2003",
        )
