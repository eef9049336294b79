"""``xling corpus pivot``: one row, many languages, from parallel corpora that share one language.

Sentences of the shared language are compared as they are written, but for spaces. Every line says of each translation
where it came from and under which licence.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import polars as pl

from xling.core import languages
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import Answer
from xling.core.settings import config
from xling.core.settings.codes import Lang

STAGE_NAME = "corpus pivot"
ROWS_FILE = "rows.parquet"
UNSTATED_LICENCE = "not stated"


@dataclass(frozen=True)
class PivotConfig:
    """Settings of ``xling corpus pivot``.

    Attributes:
        pivot: the language that all corpora have, for example ``en``.
        corpora: the other language -> directory of ``xling corpus parallel``: ``corpora.sw=runs/parallel/en-sw``.
        out: directory to publish.
        min_langs: languages of a row at least, the pivot among them.
    """

    pivot: Lang
    corpora: dict[Lang, str] = field(default_factory=dict)
    out: str = "runs/pivot"
    min_langs: int = 3

    def __post_init__(self) -> None:
        """Reject values that are out of range or do not fit together.

        Raises:
            UserError: fewer than two corpora, the pivot among them, an unknown language, a limit out of range.
        """
        codes = [languages.get(lang).code for lang in (self.pivot, *self.corpora)]
        if len(codes) < 3 or len(set(codes)) < len(codes):
            raise UserError(
                f"pivot={self.pivot} with corpora of {', '.join(self.corpora) or 'no language'}",
                "two other languages at least, each once",
                "corpora.sw=DIRECTORY corpora.fr=DIRECTORY",
            )
        if not 2 <= self.min_langs <= len(codes):
            raise UserError(f"min_langs={self.min_langs}", f"2 to {len(codes)}, the languages")


def run(cfg: PivotConfig) -> Answer:
    """Join the corpora and publish ``rows.parquet`` and a text file of each language, line by line.

    Raises:
        UserError: a directory does not hold a parallel corpus of these languages, or no row has enough languages.
    """
    out = Path(cfg.out)
    content = {key: value for key, value in config.to_dict(cfg).items() if key != "out"}
    inputs = [Path(path) for path in cfg.corpora.values()]
    pivot = languages.get(cfg.pivot).code
    tables = {
        languages.get(lang).code: _read_pairs(Path(path), pivot, lang) for lang, path in cfg.corpora.items()
    }
    if done := manifest.up_to_date(out, STAGE_NAME, content, inputs):
        return Answer(f"{out}: up to date, nothing to do", {"out": str(out), **done.counts})
    rows = reduce(lambda left, right: left.join(right, on=pivot, how="full", coalesce=True), tables.values())
    langs = [pivot, *tables]
    present = pl.sum_horizontal(pl.col(lang).is_not_null().cast(pl.Int32) for lang in langs)
    rows = rows.filter(present >= cfg.min_langs).sort(pivot)
    if rows.is_empty():
        raise UserError(
            f"no sentence of {pivot} is in {cfg.min_langs - 1} of the {len(tables)} corpora",
            "a lower min_langs",
        )
    rows = rows.select(*langs, *(f"{kind}.{lang}" for lang in tables for kind in ("source", "licence")))
    with manifest.publish(out, STAGE_NAME, content, inputs) as publication:
        rows.write_parquet(publication.path / ROWS_FILE)
        for lang in langs:
            lines = "".join(f"{text or ''}\n" for text in rows[lang])
            (publication.path / f"rows.{lang}").write_text(lines, encoding="utf-8")
        publication.counts |= {"rows": rows.height}
        publication.counts |= {"texts": {lang: rows.height - rows[lang].null_count() for lang in langs}}
    counts = manifest.read(out).counts
    return Answer(f"{out}: {rows.height:,} rows of {len(langs)} languages", {"out": str(out), **counts})


def _read_pairs(folder: Path, pivot: str, lang: str) -> pl.DataFrame:
    """Columns PIVOT, LANG, source.LANG and licence.LANG, each sentence of the pivot once."""
    path = folder / "shards" / "train.parquet"
    if not path.is_file():
        raise UserError(f"no parallel corpus at {folder}", "a directory of xling corpus parallel")
    stats: Mapping[str, Any] = json.loads((folder / "stats.json").read_text(encoding="utf-8"))
    code = languages.get(lang).code
    pair = [language.code for language in languages.get_pair(stats["config"]["pair"])]
    if sorted(pair) != sorted([pivot, code]):
        raise UserError(
            f"{folder} is {'-'.join(pair)}", f"a corpus of {pivot} and {code}", f"check corpora.{lang}="
        )
    sides = ("src", "tgt") if pair[0] == pivot else ("tgt", "src")
    licences = {source["uri"]: source["licence"] for source in stats["sources"]}
    rows = pl.read_parquet(path, columns=["src", "tgt", "source"])
    uri = pl.col("source")
    licence = uri.replace_strict(licences, default=UNSTATED_LICENCE, return_dtype=pl.String)
    spaced = pl.col(sides[0]).str.replace_all(r"\s+", " ").str.strip_chars()
    return rows.select(
        spaced.alias(pivot),
        pl.col(sides[1]).alias(code),
        uri.alias(f"source.{code}"),
        licence.alias(f"licence.{code}"),
    ).unique(pivot, keep="first", maintain_order=True)
