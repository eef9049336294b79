"""Filtering of a published corpus by an expression over its columns, in seconds: ``xling corpus select``.

The values computed by stages are stored with each document: score and candidates of language identification,
perplexity, bucket, the size of its cluster of near-duplicates, masked personal data, the values that the
filters judge. ``expr`` is an SQL condition over these columns and `EXTRA_COLUMNS`, for example ``lang_score > 0.9 AND
ended > .5 AND cluster_size < 9``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from xling.core.errors import UserError, unknown
from xling.core.output import manifest
from xling.core.output.command_result import Answer
from xling.corpora.card.losses import half_note
from xling.corpora.common.shards import SCHEMA, corpus_shards
from xling.corpora.parallel import select as pairs
from xling.corpora.stages.filters import STATISTICS

STAGE = "corpus select"
EXTRA_COLUMNS = {
    "chars": "characters of the text",
    "lines": "paragraphs of the text",
    "cluster_size": "near-duplicates that the document stands for, itself included",
    "num_pii_email": "masked e-mail addresses",
    "num_pii_phone": "masked telephone numbers",
    "num_pii_ip": "masked IP addresses",
    "num_boilerplate": "lines cut out of it as menus and the like",
    "num_duplicate_paragraphs": "paragraphs cut out that an earlier document has",
    "num_repeated_paragraphs": "paragraphs cut out that it has before",
    "num_paragraphs_in_other_languages": "paragraphs cut out for their language",
}
_DEFAULTS = {"cluster_size": 1}


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


def run(cfg: SelectConfig) -> Answer:
    """Count what stays, and publish it if ``out`` is given.

    Raises:
        UserError: no corpus, an unknown column, or an expression that is not a condition.
    """
    corpus = Path(cfg.corpus)
    if (corpus / manifest.FILE_NAME).is_file() and "pair" in manifest.read(corpus).config:
        return _select_pairs(cfg)
    shards = corpus_shards(Path(cfg.corpus))
    condition = _condition(cfg.expr)
    frames = [_with_extra(pl.scan_parquet(path)) for path in shards]
    table = pl.concat(frames).select(pl.col("chars"), stays=condition.fill_null(value=False))
    num_kept, chars, num_read, num_read_chars = (
        table.select(
            pl.col("stays").sum(), pl.col("chars").filter("stays").sum().alias("kept"),
            pl.len(), pl.col("chars").sum().alias("all"),
        ).collect().row(0)
    )  # fmt: skip
    counts = {
        "documents": num_kept,
        "characters": chars,
        "of_documents": num_read,
        "of_characters": num_read_chars,
    }
    message = f"{num_kept:,} of {num_read:,} documents, {chars:,} of {num_read_chars:,} characters"
    note = half_note(num_read_chars, chars, "characters", f"{cfg.expr!r} is not true for the others", "expr=")
    if not cfg.out:
        return Answer(f"{message} would stay{note}", counts)
    if not num_kept:
        raise UserError(f"{cfg.expr!r} leaves none of {num_read:,} documents", fix="loosen the expression")
    out = Path(cfg.out)
    if manifest.up_to_date(out, STAGE, cfg, [Path(cfg.corpus)]) is None:
        with manifest.publish(out, STAGE, cfg, [Path(cfg.corpus)]) as publication:
            (publication.path / "shards").mkdir()
            for path in shards:
                left = _with_extra(pl.scan_parquet(path)).filter(condition).select(SCHEMA.names).collect()
                if len(left):
                    left.write_parquet(publication.path / "shards" / path.name, compression="zstd")
            publication.counts |= counts
    return Answer(f"{message} in {out}{note}", counts | {"out": str(out)})


def _select_pairs(cfg: SelectConfig) -> Answer:
    """Do the same for a corpus of sentence pairs."""
    corpus, out = Path(cfg.corpus), Path(cfg.out)
    counts = pairs.counts(corpus, cfg.expr)
    message = f"{counts['pairs']:,} of {counts['of_pairs']:,} training pairs"
    others = f"{cfg.expr!r} is not true for the others"
    note = half_note(counts["of_pairs"], counts["pairs"], "pairs", others, "expr=")
    if not cfg.out:
        return Answer(f"{message} would stay{note}", counts)
    if not counts["pairs"]:
        raise UserError(
            f"{cfg.expr!r} leaves none of {counts['of_pairs']:,} pairs", fix="loosen the expression"
        )
    settings = {"pair": manifest.read(corpus).config["pair"], "corpus": cfg.corpus, "expr": cfg.expr}
    if manifest.up_to_date(out, STAGE, settings, [corpus]) is None:
        with manifest.publish(out, STAGE, settings, [corpus]) as publication:
            pairs.write(corpus, cfg.expr, publication.path)
            publication.counts |= counts
    return Answer(f"{message} in {out}{note}", counts | {"out": str(out)})


def _with_extra(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Return the columns of a corpus and those of `EXTRA_COLUMNS`."""
    extra_columns = {
        name: pl.col("meta").str.json_path_match(f"$.{name}").cast(pl.Int64).fill_null(_DEFAULTS.get(name, 0))
        for name in EXTRA_COLUMNS
        if name not in ("chars", "lines")
    }
    extra_columns |= {
        name: pl.col("meta").str.json_path_match(f"$.filters.{name}").cast(pl.Float64) for name in STATISTICS
    }
    text = pl.col("text")
    return frame.with_columns(
        chars=text.str.len_chars(), lines=text.str.count_matches("\n") + 1, **extra_columns
    )


def _condition(expr: str) -> pl.Expr:
    """Parse the expression and check it against the columns."""
    names = [*SCHEMA.names, *EXTRA_COLUMNS, *STATISTICS]
    try:
        condition = pl.sql_expr(expr)
    except pl.exceptions.PolarsError as error:
        raise UserError(
            f"{expr!r} is not a condition: {error}", "SQL, for example lang_score > 0.9"
        ) from None
    for name in condition.meta.root_names():
        if name not in names:
            raise unknown("column", name, names)
    kinds = {field.name: pl.Float64 if str(field.type) == "float" else pl.String for field in SCHEMA}
    empty = pl.DataFrame(
        schema=kinds | dict.fromkeys(EXTRA_COLUMNS, pl.Int64) | dict.fromkeys(STATISTICS, pl.Float64)
    )
    try:
        kind = empty.select(condition).dtypes
    except pl.exceptions.PolarsError as error:
        raise UserError(f"{expr!r} fits no document: {error}", "a condition on the columns") from None
    if kind != [pl.Boolean]:
        raise UserError(f"{expr!r} is {kind[0]}, not a condition", "SQL that is true or false")
    return condition
