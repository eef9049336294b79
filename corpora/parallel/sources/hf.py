"""``hf:NAME[:CONFIG[:SPLIT]]``: pairs from a data set of the Hugging Face hub, or from a local folder, streamed.

Known names fill in the rest by the languages: ``hf:opus-100``, ``hf:flores``, ``hf:ntrex``, ``hf:wmt16`` and the
other years of WMT. A data set with a configuration a language is read twice and joined row by row.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from xling.core.errors import UserError
from xling.core.languages import Language
from xling.corpora.parallel.sources import PAIR_SOURCES, PairReader, PairSource, Row, SourceContext, drop_row
from xling.corpora.parallel.sources.tables import from_record
from xling.corpora.sources.hf import undamaged
from xling.text.document import Ledger


@dataclass(frozen=True)
class _KnownDataset:
    """Address of a data set. ``config`` names a pair with {a}-{b}, or a single language with {lang}."""

    path: str
    config: str
    split: str = "train"
    scheme: str = "base"
    field: str = ""
    licence: str = "see the data set's card"


_KNOWN_DATASETS = {
    "opus-100": _KnownDataset("Helsinki-NLP/opus-100", "{a}-{b}", licence="as stated for its parts on OPUS"),
    "flores": _KnownDataset(
        "openlanguagedata/flores_plus", "{lang}", "devtest", "flores", "text", "CC BY-SA 4.0"
    ),
    "ntrex": _KnownDataset("mteb/NTREX", "{lang}", "test", "ntrex", "text", "CC BY-SA 4.0"),
    **{f"wmt{year}": _KnownDataset(f"wmt/wmt{year}", "{b}-{a}") for year in (14, 15, 16, 17, 18, 19)},
}


@PAIR_SOURCES.register("hf")
class HuggingFace(PairReader):
    """One data set; nothing is loaded before its rows are read."""

    lists_inputs = False

    @classmethod
    def open(cls, rest: str, context: SourceContext) -> list[PairSource]:
        """Return one source; nothing is loaded before its rows are read."""
        name, _, tail = rest.partition(":")
        config, _, split = tail.partition(":")
        if not name:
            raise UserError(
                "hf: names no data set", f"hf:NAME[:CONFIG[:SPLIT]]; known: {', '.join(_KNOWN_DATASETS)}"
            )
        dataset = _KNOWN_DATASETS.get(name, _KnownDataset(name, ""))
        uri = f"hf:{rest}"

        def rows(ledger: Ledger) -> Iterator[Row]:
            if "{lang}" in dataset.config and not config:
                yield from _read_aligned(dataset, split or dataset.split, context, uri)
                return
            # English stands last in WMT's names and first, alphabetically, in those of OPUS-100: both are tried.
            both, names = sorted((context.src.base, context.tgt.base)), [config]
            if dataset.config and not config:
                names = [dataset.config.format(a=a, b=b) for a, b in (both, reversed(both))]
            for number, record in enumerate(_load_rows(dataset.path, names, split or dataset.split, uri)):
                if row := from_record(record, [], context):
                    yield row
                else:
                    drop_row(ledger, "malformed", f"{uri}/{number}", str(record)[:500])

        return [PairSource(uri, (), rows, dataset.licence)]


def _read_aligned(dataset: _KnownDataset, split: str, context: SourceContext, uri: str) -> Iterator[Row]:
    """Yield rows of two single-language configurations with equal numbering."""
    codes = [_language_code(lang, dataset.scheme, uri) for lang in (context.src, context.tgt)]
    sides = [_load_rows(dataset.path, [dataset.config.format(lang=code)], split, uri) for code in codes]
    for number, (src_text, tgt_text) in enumerate(zip_longest(*sides)):
        if src_text is None or tgt_text is None:
            raise UserError(
                f"{uri}: one language ends after {number:,} rows and the other goes on",
                "as many rows in both",
                "use another split or another source",
            )
        yield src_text[dataset.field], tgt_text[dataset.field], str(src_text.get("url") or "")


def _language_code(lang: Language, scheme: str, uri: str) -> str:
    code = str(getattr(lang, scheme))
    if not code:
        raise UserError(f"{uri} does not have {lang.code} ({lang.name})", fix="choose another source")
    return code


def _load_rows(path: str, configs: list[str], split: str, uri: str) -> Iterator[dict[str, Any]]:
    """Yield the records of the first configuration that exists."""
    from datasets import load_dataset
    from datasets.exceptions import DatasetNotFoundError

    failure: Exception | None = None
    for config in configs:
        try:
            data = load_dataset(path, config or None, split=split, streaming=True)
        except (DatasetNotFoundError, ConnectionError, OSError, ValueError, RuntimeError) as error:
            failure = failure or error
        else:
            yield from undamaged(data, uri)
            return
    raise UserError(
        f"{uri}: {' '.join(str(failure).split())[:300]}",
        fix="check the name, configuration and split and that the hub can be reached, or give local files",
    ) from None
