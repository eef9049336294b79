"""A published corpus of sentence pairs, cut again by an expression over its columns: ``xling corpus select``.

Beside the columns of the corpus (``score``, and those that filters leave, ``align`` and ``langid``) there are
`EXTRA_COLUMNS`.
The training pairs are cut; dev and test stay as they are, so that scores remain comparable.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl

from xling.core import languages
from xling.core.errors import UserError, unknown
from xling.core.output import manifest
from xling.text.pairs import SIDES

EXTRA_COLUMNS = {
    "src_chars": "characters of the source side",
    "tgt_chars": "characters of the target side",
    "ratio": "characters of the longer side for one of the shorter",
}
_TRAIN = "train"


def counts(corpus: Path, expr: str) -> dict[str, int]:
    """Return how many pairs and characters an expression keeps of the training pairs.

    Raises:
        UserError: an unknown column, or an expression that is not a condition.
    """
    table = _scan_pairs(corpus)
    condition = _condition(expr, table)
    chars = pl.col("src_chars") + pl.col("tgt_chars")
    num_kept, num_kept_chars, num_read, num_read_chars = (
        table.select(chars.alias("chars"), stays=condition.fill_null(value=False))
        .select(
            pl.col("stays").sum(), pl.col("chars").filter("stays").sum().alias("kept"),
            pl.len(), pl.col("chars").sum().alias("all"),
        )
        .collect()
        .row(0)
    )  # fmt: skip
    return {
        "pairs": num_kept,
        "characters": num_kept_chars,
        "of_pairs": num_read,
        "of_characters": num_read_chars,
    }


def write(corpus: Path, expr: str, out: Path) -> None:
    """Write the shards and Moses files of the training pairs that are kept, and copies of dev and test.

    Args:
        corpus: a directory of ``xling corpus parallel``.
        expr: SQL condition.
        out: an empty folder.
    """
    names = list(pl.read_parquet_schema(_find_shard(corpus)))
    table = _scan_pairs(corpus)
    kept = table.filter(_condition(expr, table)).select(names).collect()
    (out / "shards").mkdir()
    kept.write_parquet(out / "shards" / f"{_TRAIN}.parquet", compression="zstd")
    for side, path in zip(SIDES, _text_files(corpus, _TRAIN), strict=True):
        text = "".join(f"{line}\n" for line in kept[side])
        (out / path.name).write_text(text, encoding="utf-8")
    for split in ("dev", "test"):
        for path in (corpus / "shards" / f"{split}.parquet", *_text_files(corpus, split)):
            if path.is_file():
                shutil.copyfile(path, out / path.relative_to(corpus))


def _find_shard(corpus: Path) -> Path:
    return corpus / "shards" / f"{_TRAIN}.parquet"


def _text_files(corpus: Path, split: str) -> list[Path]:
    langs = languages.get_pair(str(manifest.read(corpus).config["pair"]))
    return [corpus / f"{split}.{lang.code}" for lang in langs]


def _scan_pairs(corpus: Path) -> pl.LazyFrame:
    """The training pairs with the columns of `EXTRA_COLUMNS`."""
    sizes = {f"{side}_chars": pl.col(side).str.len_chars().cast(pl.Int64) for side in SIDES}
    longer, shorter = (choose(*sizes.values()) for choose in (pl.max_horizontal, pl.min_horizontal))
    return pl.scan_parquet(_find_shard(corpus)).with_columns(**sizes, ratio=longer / shorter)


def _condition(expr: str, table: pl.LazyFrame) -> pl.Expr:
    names = table.collect_schema()
    try:
        condition = pl.sql_expr(expr)
    except pl.exceptions.PolarsError as error:
        raise UserError(f"{expr!r} is not a condition: {error}", "SQL, for example align > 0.9") from None
    for name in condition.meta.root_names():
        if name not in names:
            raise unknown("column", name, names)
    try:
        kind = table.head(0).select(condition).collect().dtypes
    except pl.exceptions.PolarsError as error:
        raise UserError(f"{expr!r} fits no pair: {error}", "a condition on the columns") from None
    if kind != [pl.Boolean]:
        raise UserError(f"{expr!r} is {kind[0]}, not a condition", "SQL that is true or false")
    return condition
