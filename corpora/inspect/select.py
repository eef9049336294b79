"""Filtering of a published corpus by an expression over its columns, in seconds: ``xling corpus select``.

The values computed by stages are stored with each document: score and candidates of language identification,
perplexity, bucket, the size of its cluster of near-duplicates, masked personal data, the values that the
filters judge. Sentence pairs have ``score`` and the columns that their filters leave, ``align`` and ``langid``.
``expr`` is an SQL condition over these columns and those that `Rows` adds, for example ``lang_score > 0.9 AND
ended > .5 AND cluster_size < 9``. Of sentence pairs only the training pairs are filtered; dev and test stay as they
are, so that scores remain comparable.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from xling.core import languages
from xling.core.errors import UserError, unknown
from xling.core.output import manifest
from xling.core.output.command_result import Answer
from xling.core.settings import config
from xling.corpora.card.losses import half_note
from xling.corpora.common.shards import corpus_shards
from xling.corpora.stages.filters import STATISTICS
from xling.text.pairs import SIDES

STAGE = "corpus select"
_COUNTS = (
    "num_pii_email",
    "num_pii_phone",
    "num_pii_ip",
    "num_boilerplate",
    "num_duplicate_paragraphs",
    "num_repeated_paragraphs",
    "num_paragraphs_in_other_languages",
)
_TRAIN, _HELD_OUT = "train", ("dev", "test")


@dataclass(frozen=True)
class SelectConfig:
    """Settings of ``xling corpus select``.

    Attributes:
        corpus: directory of a published corpus.
        expr: SQL condition; documents for which it is true are kept. Beside the columns:
            ``chars``, ``lines``, ``cluster_size``, ``num_pii_email``, ``num_pii_phone``, ``num_pii_ip``,
            the paragraphs that were cut out (``num_boilerplate``, ``num_duplicate_paragraphs``,
            ``num_repeated_paragraphs``, ``num_paragraphs_in_other_languages``) and the statistics of the filters:
            ``words``, ``ended``, ``short`` and the others of
            `xling.corpora.stages.filters.STATISTICS`. Of sentence pairs: ``align``, ``langid``, ``score``,
            ``src_chars``, ``tgt_chars``, ``ratio``, for example ``align > 0.9 AND langid > -2``; dev and test stay.
        out: directory to publish; empty only counts the documents or pairs that would be kept.
    """

    corpus: str
    expr: str
    out: str = ""


@dataclass(frozen=True)
class Rows:
    """Rows of a corpus: documents or sentence pairs.

    Attributes:
        unit: ``documents`` or ``pairs``.
        texts: columns that hold text.
        shards: Parquet files that are filtered.
        extra: columns beside those of the shards.
        counted: what a note on losses counts, ``characters`` or the unit.
        example: a condition.
        copied: files that are published as they are.
        text_files: column -> the file that its texts are published in, a line each.
    """

    unit: str
    texts: tuple[str, ...]
    shards: list[Path]
    extra: dict[str, pl.Expr]
    counted: str
    example: str
    copied: tuple[Path, ...] = ()
    text_files: Mapping[str, Path] = field(default_factory=dict)

    def scan(self, shard: Path) -> pl.LazyFrame:
        """Return the rows of a shard with all columns."""
        return pl.scan_parquet(shard).with_columns(**self.extra)


def run(cfg: SelectConfig) -> Answer:
    """Count what stays, and publish it if ``out`` is given.

    Raises:
        UserError: no corpus, an unknown column, or an expression that is not a condition.
    """
    corpus, out = Path(cfg.corpus), Path(cfg.out)
    recorded = manifest.read(corpus).config if (corpus / manifest.FILE_NAME).is_file() else {}
    content = config.to_dict(cfg)
    if "pair" in recorded:
        rows = _pairs(corpus, str(recorded["pair"]))
        content = {"pair": recorded["pair"], "corpus": cfg.corpus, "expr": cfg.expr}
    else:
        rows = _documents(corpus)
    condition = _condition(cfg.expr, rows)
    # How many rows and characters the condition keeps, and of how many.
    chars = pl.sum_horizontal(pl.col(name).str.len_chars().cast(pl.Int64) for name in rows.texts)
    table = pl.concat(
        [rows.scan(path).select(chars=chars, stays=condition.fill_null(value=False)) for path in rows.shards]
    )
    kept, chars_kept = pl.col("stays").sum(), pl.col("chars").filter("stays").sum().alias("kept")
    numbers = table.select(kept, chars_kept, pl.len(), pl.col("chars").sum().alias("all")).collect().row(0)
    counts = dict(zip((rows.unit, "characters", f"of_{rows.unit}", "of_characters"), numbers, strict=True))
    num_read, num_kept = counts[f"of_{rows.unit}"], counts[rows.unit]
    message = f"{num_kept:,} of {num_read:,} {'training ' * (rows.unit == 'pairs')}{rows.unit}"
    message += f", {counts['characters']:,} of {counts['of_characters']:,} characters"
    note = half_note(
        counts[f"of_{rows.counted}"],
        counts[rows.counted],
        rows.counted,
        f"{cfg.expr!r} is not true for the others",
        "expr=",
    )
    if not cfg.out:
        return Answer(f"{message} would stay{note}", counts)
    if not num_kept:
        raise UserError(f"{cfg.expr!r} leaves none of {num_read:,} {rows.unit}", fix="loosen the expression")
    if manifest.up_to_date(out, STAGE, content, [corpus]) is None:
        with manifest.publish(out, STAGE, content, [corpus]) as publication:
            _write(rows, condition, corpus, publication.path)
            publication.counts |= counts
    return Answer(f"{message} in {out}{note}", counts | {"out": str(out)})


def _documents(corpus: Path) -> Rows:
    text, meta = pl.col("text"), pl.col("meta")
    values = {name: (f"$.{name}", 0) for name in _COUNTS} | {"cluster_size": ("$.cluster_size", 1)}
    extra = {"chars": text.str.len_chars(), "lines": text.str.count_matches("\n") + 1}
    extra |= {
        name: meta.str.json_path_match(path).cast(pl.Int64).fill_null(default)
        for name, (path, default) in values.items()
    }
    extra |= {name: meta.str.json_path_match(f"$.filters.{name}").cast(pl.Float64) for name in STATISTICS}
    return Rows("documents", ("text",), corpus_shards(corpus), extra, "characters", "lang_score > 0.9")


def _pairs(corpus: Path, pair: str) -> Rows:
    extra = {f"{side}_chars": pl.col(side).str.len_chars().cast(pl.Int64) for side in SIDES}
    sizes = tuple(extra.values())
    extra["ratio"] = pl.max_horizontal(*sizes) / pl.min_horizontal(*sizes)
    codes = [lang.code for lang in languages.get_pair(pair)]
    held_out = [
        path
        for split in _HELD_OUT
        for path in (corpus / "shards" / f"{split}.parquet", *(corpus / f"{split}.{code}" for code in codes))
    ]
    return Rows(
        "pairs",
        SIDES,
        [corpus / "shards" / f"{_TRAIN}.parquet"],
        extra,
        "pairs",
        "align > 0.9",
        tuple(path for path in held_out if path.is_file()),
        {side: Path(f"{_TRAIN}.{code}") for side, code in zip(SIDES, codes, strict=True)},
    )


def _write(rows: Rows, condition: pl.Expr, corpus: Path, out: Path) -> None:
    """Write the rows that the condition keeps as shards and text files, and copies of the others."""
    (out / "shards").mkdir()
    for shard in rows.shards:
        kept = rows.scan(shard).filter(condition).select(list(pl.read_parquet_schema(shard))).collect()
        if kept.height:
            kept.write_parquet(out / "shards" / shard.name, compression="zstd")
        for column, path in rows.text_files.items():
            (out / path).write_text("".join(f"{line}\n" for line in kept[column]), encoding="utf-8")
    for path in rows.copied:
        shutil.copyfile(path, out / path.relative_to(corpus))


def _condition(expr: str, rows: Rows) -> pl.Expr:
    """Parse the expression and check it against the columns."""
    table = rows.scan(rows.shards[0])
    names = table.collect_schema().names()
    try:
        condition = pl.sql_expr(expr)
    except pl.exceptions.PolarsError as error:
        raise UserError(f"{expr!r} is not a condition: {error}", f"SQL, for example {rows.example}") from None
    for name in condition.meta.root_names():
        if name not in names:
            raise unknown("column", name, names)
    try:
        kind = table.head(0).select(condition).collect().dtypes
    except pl.exceptions.PolarsError as error:
        raise UserError(
            f"{expr!r} fits none of the {rows.unit}: {error}", "a condition on the columns"
        ) from None
    if kind != [pl.Boolean]:
        raise UserError(f"{expr!r} is {kind[0]}, not a condition", "SQL that is true or false")
    return condition
