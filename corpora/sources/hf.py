"""``hf:NAME[:CONFIG][:SPLIT]``: a data set of the Hugging Face hub, or a local folder, streamed.

Documented names fill in the rest by the language: ``hf:wikipedia``, ``hf:mc4``, ``hf:fineweb-2``,
``hf:madlad-400``, ``hf:oscar``. Since ``datasets`` 4 a repository that consists of a loading script cannot be
loaded; for MADLAD-400 and OSCAR the data files behind the script are read instead.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyarrow import ArrowException

from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.sources.jsonl import from_row
from xling.corpora.sources.source import SOURCES, Context, Shard, Source
from xling.text.document import Document, Ledger

# FineWeb-2 names a language by ISO 639-3 and script as FLORES does, but for these.
_FINEWEB2_CODES = {
    "zh": "cmn_Hani",
    "zh_Hant": "cmn_Hani",
    "fa": "fas_Arab",
    "et": "ekk_Latn",
    "sq": "als_Latn",
}
# mC4 names a language by its two letters, but for CLD3's older ones.
_MC4_CODES = {"he": "iw", "nb": "no", "tl": "fil"}


@dataclass(frozen=True)
class _KnownDataset:
    """Location of a documented data set on the Hub; its code of the language is filled in."""

    path: str
    config: str = ""
    files: str = ""
    licence: str = "see the data set's card"


_KNOWN_DATASETS = {
    "wikipedia": _KnownDataset(
        "wikimedia/wikipedia", "20231101.{wiki}", licence="CC BY-SA 3.0 and GFDL (Wikipedia)"
    ),
    "mc4": _KnownDataset("allenai/c4", "{mc4}", licence="ODC-BY; Common Crawl terms of use"),
    "fineweb-2": _KnownDataset(
        "HuggingFaceFW/fineweb-2", "{fineweb2}", licence="ODC-BY; Common Crawl terms of use"
    ),
    "madlad-400": _KnownDataset(
        "json", files="hf://datasets/allenai/MADLAD-400/data/{lang}/*clean*.gz", licence="ODC-BY"
    ),
    "oscar": _KnownDataset(
        "json", files="hf://datasets/oscar-corpus/OSCAR-2301/{lang}_meta/*.jsonl.zst", licence="CC0 (gated)"
    ),
}


@SOURCES.register("hf")
class HuggingFace(Source):
    """Rows of a streamed data set with a text field; one shard per file, at most ``size``."""

    has_rows = True

    def __init__(self, uri: str, rest: str, context: Context) -> None:
        super().__init__(uri, rest, context)
        if not rest:
            raise UserError(
                f"{uri!r} names no data set", f"hf:NAME[:CONFIG][:SPLIT]; known: {', '.join(_KNOWN_DATASETS)}"
            )
        name, _, tail = rest.partition(":")
        config, _, split = tail.partition(":")
        dataset = _KNOWN_DATASETS.get(name, _KnownDataset(name))
        context.check_one_lang(uri)
        language = languages.get(context.lang)
        placeholders = {
            "lang": language.base,
            "wiki": language.wiki or language.base,
            "mc4": _MC4_CODES.get(language.code, language.base),
            "fineweb2": _FINEWEB2_CODES.get(language.code) or language.flores or language.code,
        }
        self.licence = dataset.licence
        self._split = split or "train"
        self._arguments: dict[str, Any] = {"path": dataset.path, "split": self._split, "streaming": True}
        if config or dataset.config:
            self._arguments["name"] = config or dataset.config.format(**placeholders)
        if dataset.files:
            self._arguments["data_files"] = dataset.files.format(**placeholders)

    def shards(self) -> list[Shard]:
        """Return one shard per file of the data set."""
        count = self._load().num_shards
        chosen = min(count, self.context.size or count)
        name = "-".join([Path(self._arguments["path"]).name, *filter(None, [self._arguments.get("name")])])
        return [Shard(f"hf.{name}.{self._split}/{i}", f"{i}/{count}", self.uri) for i in range(chosen)]

    def read(self, shard: Shard, ledger: Ledger) -> Iterator[Document]:
        """Yield one document a row."""
        index, _, count = shard.location.partition("/")
        rows = self._load().shard(num_shards=int(count), index=int(index))
        for number, row in enumerate(undamaged(rows, self.uri)):
            if kept := from_row(row, f"{shard.name}/{number}", shard.source, ledger):
                yield kept

    def _load(self) -> Any:
        from datasets import load_dataset
        from datasets.exceptions import DatasetNotFoundError

        try:
            return load_dataset(**self._arguments)
        except RuntimeError as error:
            if "scripts are no longer supported" not in str(error):
                raise
            raise UserError(
                f"{self.uri} is a loading script, which datasets no longer runs",
                f"documented names: {', '.join(_KNOWN_DATASETS)}",
                "download its files and give them as jsonl:GLOB or parquet:GLOB",
            ) from None
        except (DatasetNotFoundError, ConnectionError, OSError, ValueError) as error:
            offline = os.environ.get("HF_HUB_OFFLINE") == "1" or isinstance(error, ConnectionError)
            raise UserError(
                f"{self.uri}: {' '.join(str(error).split())[:300]}",
                fix="this machine seems to be off-line; give local files as jsonl:GLOB or parquet:GLOB"
                if offline
                else "check name, configuration and split, and log in if the data set is gated",
            ) from None


def undamaged(rows: Iterable[dict[str, Any]], uri: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a data set.

    Raises:
        UserError: one cannot be read.
    """
    from datasets.exceptions import DatasetsError

    number = 0
    try:
        for row in rows:
            yield row
            number += 1
    except (DatasetsError, ArrowException, ValueError, OverflowError) as error:
        raise UserError(
            f"{uri}: row {number:,} is damaged: {' '.join(str(error).split())[:200]}",
            fix="download its files and give them as parquet:GLOB or jsonl:GLOB, where a damaged cell costs its row",
        ) from None
