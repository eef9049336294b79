"""Translations that users bring as translation memories: TMX and XLIFF, read as `xling corpus parallel` reads them."""

from collections.abc import Sequence
from pathlib import Path

from xling.core import languages
from xling.corpora.parallel.sources import PAIR_SOURCES, SourceContext
from xling.eval.rows.own_columns import OwnRow, OwnTable
from xling.text.document import Ledger

ENDINGS = (".tmx", ".xlf", ".xliff")


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
    told = f", {num_left_out} units without the two texts or unfinished left out" if num_left_out else ""
    return OwnTable(rows, scheme.upper() + told)
