"""Writer of the ARPA format, which KenLM, SRILM and others read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from xling.text.lm.kneser_ney import Estimates
from xling.text.lm.ngrams import IntArray, NgramTable

_ROWS_PER_WRITE = 500_000


def write_arpa(path: Path, vocabulary: list[str], orders: list[NgramTable], model: list[Estimates]) -> None:
    """Write a model to ``path`` atomically.

    Args:
        path: the ARPA file.
        vocabulary: the word of each id.
        orders: n-gram tables.
        model: their estimates.
    """
    words = pl.Series(vocabulary, dtype=pl.String)
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as handle:
        sizes = "".join(f"ngram {n}={int(e.is_kept.sum())}\n" for n, e in enumerate(model, start=1))
        handle.write(f"\\data\\\n{sizes}".encode())
        for n, estimates in enumerate(model, start=1):
            handle.write(f"\n\\{n}-grams:\n".encode())
            kept_rows = np.flatnonzero(estimates.is_kept)
            for start in range(0, len(kept_rows), _ROWS_PER_WRITE):
                rows = kept_rows[start : start + _ROWS_PER_WRITE]
                columns = {
                    "log10": _log10(estimates.probability[rows]),
                    **_word_columns(words, orders, n, rows),
                }
                if n < len(model):
                    columns["backoff"] = _log10(estimates.backoff[rows])
                frame = pl.DataFrame(columns)
                ngram = pl.concat_str([f"w{i}" for i in range(n)], separator=" ")
                backoff_columns = ["backoff"] if n < len(model) else []
                frame.select("log10", ngram, *backoff_columns).write_csv(
                    handle, include_header=False, separator="\t", quote_style="never", float_precision=7
                )
        handle.write(b"\n\\end\\\n")
    temporary.rename(path)


def _log10(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> pl.Series:
    """Return base-10 logarithms, clipped to 0: KenLM rejects positive values."""
    return pl.Series(np.minimum(0.0, np.log10(values)))


def _word_columns(words: pl.Series, orders: list[NgramTable], n: int, rows: IntArray) -> dict[str, pl.Series]:
    """Return columns ``w0`` to ``w{n-1}`` of the n-grams in ``rows``."""
    columns = {}
    for order in range(n - 1, -1, -1):
        columns[f"w{order}"] = words.gather(orders[order].word[rows])
        rows = orders[order].prefix[rows]
    return columns
