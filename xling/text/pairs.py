"""Batches of sentence pairs: their columns, the words of a sentence, and the key for comparing texts."""

import re

import polars as pl

from xling.text.words.units import UNSPACED_CLASS, combining_marks

# id: stable name; src, tgt: one line each; doc: document, "" if unknown; source: the URI read from; score: of
# a model or a file, null if there is none.
SCHEMA: dict[str, pl.DataType] = {
    "id": pl.String(),
    "src": pl.String(),
    "tgt": pl.String(),
    "doc": pl.String(),
    "source": pl.String(),
    "score": pl.Float32(),
}
SIDES = ("src", "tgt")
_WORD = re.compile(
    f"[{UNSPACED_CLASS}][{combining_marks()}]*"
    rf"|\d+(?:[.,:]\d+)*"
    rf"|[^\W\d_{UNSPACED_CLASS}](?:[^\W{UNSPACED_CLASS}]|[{combining_marks()}]|['’\-](?=[^\W\d_]))*"
    r"|\S"
)


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return the (start, end) of each word of ``text`` in code points; a punctuation mark is a word.

    In scripts without spaces between words each character is a word; combining marks stay with their letter.
    """
    return [match.span() for match in _WORD.finditer(text)]


def split_words(text: str) -> list[str]:
    """Split ``text`` into words as `word_spans` does, case kept."""
    return _WORD.findall(text)


def near_duplicate_key(column: str | pl.Expr) -> pl.Expr:
    """Normalise text for near-duplicate comparison: lower-cased letters only, without marks, digits and spaces."""
    text = pl.col(column) if isinstance(column, str) else column
    return text.str.to_lowercase().str.replace_all(r"[^\p{L}]+", "")


def make_batch(
    columns: dict[str, list[str]], source: str, first_number: int = 0, name: str = ""
) -> pl.DataFrame:
    """Build a batch from ``src``, ``tgt`` and optionally ``doc``; ids are ``name/number`` from ``first_number``."""
    batch = pl.DataFrame({key: pl.Series(key, values, pl.String) for key, values in columns.items()})
    row_numbers = pl.int_range(first_number, first_number + batch.height).cast(pl.String)
    extra_columns = [(pl.lit(f"{name or source}/") + row_numbers).alias("id"), pl.lit(source).alias("source")]
    if "doc" not in columns:
        extra_columns.append(pl.lit("").alias("doc"))
    if "score" not in columns:
        extra_columns.append(pl.lit(None).cast(pl.Float32).alias("score"))
    return batch.with_columns(extra_columns).select(pl.col(key).cast(kind) for key, kind in SCHEMA.items())
