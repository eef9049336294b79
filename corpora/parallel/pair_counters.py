"""Counters for the data card that the ledger lacks: lengths, sources and samples of pairs, one frame at a time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import polars as pl

from xling.corpora.card.counters import BINS_PER_DECADE, Counters, SourceCounters


class PairCounters:
    """`Counters` of pairs; the length of a pair is the number of characters of both sides."""

    def __init__(self, counters: Counters | None = None) -> None:
        self.counters = counters or Counters()

    def count_read(self, pairs: pl.DataFrame) -> None:
        """Count pairs that came in."""
        _count_sources(pairs, self.counters.sources)

    def dropped(self, pairs: pl.DataFrame) -> None:
        """Count pairs that went out."""
        self._count_lengths(pairs, "length dropped")

    def count_published(self, pairs: pl.DataFrame, num_samples: int) -> None:
        """Count pairs of the corpus; some may become one of ``num_samples`` shown."""
        _count_sources(pairs, self.counters.kept)
        self._count_lengths(pairs, "length kept")
        samples = (
            pairs.with_columns((pl.col("id").hash(3) // 2).alias("number")).sort("number").head(num_samples)
        )
        shown = [
            (number, name, f"{src[:500]}\n{tgt[:500]}")
            for number, name, src, tgt in samples.select("number", "id", "src", "tgt").iter_rows()
        ]
        self.counters.samples = sorted([*self.counters.samples, *shown])[:num_samples]

    def to_json(self) -> dict[str, Any]:
        """Return JSON-ready values of the counters."""
        return self.counters.to_json()

    def _count_lengths(self, pairs: pl.DataFrame, name: str) -> None:
        chars = pl.max_horizontal(pl.col("src").str.len_chars() + pl.col("tgt").str.len_chars(), 1)
        bins = (chars.log10() * BINS_PER_DECADE + 1e-9).floor().cast(pl.Int64)
        counts = pairs.select(bins.alias("bin"))["bin"].value_counts()
        self.counters.histograms.setdefault(name, Counter()).update(dict(counts.iter_rows()))


def _count_sources(pairs: pl.DataFrame, by_source: dict[str, SourceCounters]) -> None:
    chars = pl.col("src").str.len_chars() + pl.col("tgt").str.len_chars()
    groups = pairs.group_by("source", maintain_order=True).agg(
        pl.len().alias("n"), chars.sum().alias("chars")
    )
    for uri, num_docs, num_chars in groups.iter_rows():
        by_source.setdefault(uri, SourceCounters()).merge(SourceCounters(num_docs, int(num_chars)))
