"""Explanation of what happened to a document or a line, and why: ``xling corpus why ID|TEXT``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from xling.core.errors import UserError
from xling.core.output.command_result import Answer
from xling.core.output.parts import read_json
from xling.corpora.common.shards import corpus_shards
from xling.pages.tabular import show_controls
from xling.text.normalize import for_dedup
from xling.text.pairs import SIDES, near_duplicate_key

_MAX_SHOWN = 10
_SHOWN_CHARS = 160
_MIN_CHARS = 3
# Columns of what was kept: words before the numbers, numbers, words after them.
_SHOWN_COLUMNS = (("lang",), ("lang_score", "perplexity"), ("bucket", "url"))
_SHOWN_PAIR_COLUMNS = (("src", "tgt"), ("score",), ("doc", "source"))


@dataclass(frozen=True)
class WhyConfig:
    """Settings of ``xling corpus why``.

    Attributes:
        query: the id of a document, or a piece of text; put it in quotation marks.
        corpus: directory of a corpus made by ``xling corpus mono``.
    """

    query: str
    corpus: str


def run(cfg: WhyConfig) -> Answer:
    """Say which stage dropped what and why, and what was kept.

    Raises:
        UserError: no corpus, too short a text, or nothing found.
    """
    corpus = Path(cfg.corpus)
    shards = corpus_shards(corpus)
    query = cfg.query.strip()
    if len(query) < _MIN_CHARS:
        raise UserError(
            f"{query!r} is too short to look for",
            f"an id, or at least {_MIN_CHARS} characters of text",
            "give more of the text",
        )
    rejects = sorted((corpus / "rejects").glob("*.parquet"))
    by_id = pl.col("id") == query
    by_text = pl.col("text").str.contains(query, literal=True)
    stats = read_json(corpus / "stats.json")
    if stats.get("kind") == "parallel":
        by_text = pl.any_horizontal(pl.col("src", "tgt").str.contains(query, literal=True))
        conditions = (by_id, by_text, _has_letters(query))
    else:
        conditions = (by_id, by_text, _has_paragraph(query))
    for condition in conditions:
        answer = _find_answer(shards, rejects, condition, stats)
        if answer:
            return answer
    hint = "" if rejects else "; this corpus was built with reject_chars=0, which keeps no rejects"
    raise UserError(
        f"{query[:_SHOWN_CHARS]!r} is neither in {corpus} nor among what was dropped{hint}",
        "an id or a text that a source held",
        "look at a shorter piece of the text: only the first reject_chars characters of a reject are kept",
    )


def _has_paragraph(query: str) -> pl.Expr:
    """Return texts that contain the paragraph in the form used for deduplication."""
    key = for_dedup(query)
    return pl.col("text").map_elements(
        lambda text: key in {for_dedup(line) for line in text.split("\n")}, return_dtype=pl.Boolean
    )


def _has_letters(query: str) -> pl.Expr:
    """Return pairs with a side that has the letters of the query, as near-duplicates are compared."""
    key = pl.select(near_duplicate_key(pl.lit(query))).item()
    return pl.any_horizontal(
        (near_duplicate_key(pl.col(side)) == key) & (pl.lit(key) != "") for side in SIDES
    )


def _find_answer(
    shards: list[Path], rejects: list[Path], condition: pl.Expr, stats: dict[str, Any]
) -> Answer:
    is_pair = stats.get("kind") == "parallel"
    text = pl.col("src") + "\n" + pl.col("tgt") if is_pair else pl.col("text")
    shown_columns = _SHOWN_PAIR_COLUMNS if is_pair else _SHOWN_COLUMNS
    dropped = _rows(rejects, condition, ["id", "stage", "reason", text.alias("text")])
    kept_rows = _rows(shards, condition, ["id", *(name for names in shown_columns for name in names)])
    partial = {tuple(pair) for pair in stats["partial"]}
    lines = []
    for row in dropped[:_MAX_SHOWN]:
        stage, reason = row["stage"], row["reason"]
        what = "lost a part" if (stage, reason) in partial else "dropped"
        meaning = stats["reasons"].get(f"{stage}\t{reason}", "")
        lines += [
            f"{row['id']}: {what} by {stage}: {reason}" + (f" ({meaning})" if meaning else ""),
            f"    {_one_line(row['text'])}",
        ]
    for row in kept_rows[:_MAX_SHOWN]:
        numbers = [f"{name} {row[name]:.4g}" for name in shown_columns[1] if row[name] is not None]
        told = [
            *(row[name] for name in shown_columns[0]),
            *numbers,
            *(row[name] for name in shown_columns[2]),
        ]
        lines.append(f"{row['id']}: kept ({', '.join(filter(None, told))})")
    for name, rows in (("dropped", dropped), ("kept", kept_rows)):
        if len(rows) > _MAX_SHOWN:
            lines.append(f"... and more {name}; a longer piece of the text finds fewer")
    return Answer(
        "\n".join(show_controls(line, keep="") for line in lines),
        {"dropped": dropped[:_MAX_SHOWN], "kept": kept_rows[:_MAX_SHOWN]},
    )


def _rows(files: list[Path], condition: pl.Expr, columns: list[str | pl.Expr]) -> list[dict[str, Any]]:
    """Return rows that meet the condition, at most one more than is shown."""
    if not files:
        return []
    matching = pl.scan_parquet(files).filter(condition).select(columns).head(_MAX_SHOWN + 1)
    return matching.collect(engine="streaming").to_dicts()


def _one_line(text: str) -> str:
    flat = " / ".join(text.strip().split("\n"))
    return flat if len(flat) <= _SHOWN_CHARS else flat[:_SHOWN_CHARS] + " ..."
