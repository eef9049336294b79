"""Counts for the data card besides the ledger: lengths, perplexities, languages and sources; mergeable."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import xxhash

from xling.text.document import Document

BINS_PER_DECADE = 10


def log_bin(value: float) -> int:
    """Return the bin of a positive value, ten bins per decade: bin b holds 10^(b/10) up to 10^((b+1)/10)."""
    return math.floor(BINS_PER_DECADE * math.log10(value)) if value > 0 else -1


@dataclass
class SourceCounters:
    """Documents read from one source."""

    num_docs: int = 0
    num_chars: int = 0
    first_date: str = ""
    last_date: str = ""

    def add(self, doc: Document) -> None:
        """Count one document."""
        self.num_docs += 1
        self.num_chars += len(doc.text)
        if day := doc.date[:10]:
            self.first_date = min(self.first_date or day, day)
            self.last_date = max(self.last_date, day)

    def merge(self, other: SourceCounters) -> None:
        """Add another part's counts."""
        self.num_docs += other.num_docs
        self.num_chars += other.num_chars
        dates = [d for d in (self.first_date, other.first_date) if d]
        self.first_date = min(dates, default="")
        self.last_date = max(self.last_date, other.last_date)


@dataclass
class Counters:
    """Counts of one part, or of a whole corpus.

    Attributes:
        histograms: name -> bin of `log_bin` -> documents; names are ``length kept``, ``length dropped``,
            ``perplexity kept`` and ``perplexity dropped``.
        statistics: of the filters -> value in hundredths -> documents that reached the filters.
        confusion: ``declared<TAB>identified`` language -> documents.
        sources: URI -> what was read.
        kept: URI -> what was published.
        buckets: ``head``, ``middle``, ``tail`` -> documents.
        samples: some published texts: ``(number, id, text)``, those whose id hashes to the least numbers, so
            that they are a random choice that does not depend on the parts.
    """

    histograms: dict[str, Counter[int]] = field(default_factory=dict)
    statistics: dict[str, Counter[int]] = field(default_factory=dict)
    confusion: Counter[str] = field(default_factory=Counter)
    sources: dict[str, SourceCounters] = field(default_factory=dict)
    kept: dict[str, SourceCounters] = field(default_factory=dict)
    buckets: Counter[str] = field(default_factory=Counter)
    samples: list[tuple[int, str, str]] = field(default_factory=list)

    def count_value(self, name: str, value: float) -> None:
        """Add ``value`` to a histogram."""
        self.histograms.setdefault(name, Counter())[log_bin(value)] += 1

    def dropped(self, doc: Document) -> None:
        """Count a document that was dropped as a whole."""
        self.count_value("length dropped", max(len(doc.text), 1))
        if "perplexity" in doc.meta:
            self.count_value("perplexity dropped", doc.meta["perplexity"])

    def count_published(self, doc: Document, num_samples: int) -> None:
        """Count a document of the corpus; it may become one of ``num_samples`` shown."""
        number = xxhash.xxh64_intdigest(doc.id.encode()) >> 1
        if len(self.samples) < num_samples or number < self.samples[-1][0]:
            self.samples = sorted([*self.samples, (number, doc.id, doc.text[:1000])])[:num_samples]
        self.count_value("length kept", len(doc.text))
        if "perplexity" in doc.meta:
            self.count_value("perplexity kept", doc.meta["perplexity"])
        self.kept.setdefault(doc.source, SourceCounters()).add(doc)
        if bucket := doc.meta.get("bucket"):
            self.buckets[bucket] += 1

    def count_statistics(self, doc: Document) -> None:
        """Count the values of the filters."""
        for name, value in doc.meta["filters"].items():
            self.statistics.setdefault(name, Counter())[round(100 * value)] += 1

    def count_identified(self, doc: Document) -> None:
        """Count the language that was found beside the one that the source declares."""
        self.confusion[f"{doc.meta.get('declared_lang', '')}\t{doc.lang}"] += 1

    def count_read_pairs(self, pairs: pl.DataFrame) -> None:
        """Count sentence pairs that came in, a frame at a time; the length of one is that of both sides."""
        _count_sources(pairs, self.sources)

    def drop_pairs(self, pairs: pl.DataFrame) -> None:
        """Count sentence pairs that went out."""
        self._count_lengths(pairs, "length dropped")

    def count_published_pairs(self, pairs: pl.DataFrame, num_samples: int) -> None:
        """Count sentence pairs of the corpus; some may become one of ``num_samples`` shown."""
        _count_sources(pairs, self.kept)
        self._count_lengths(pairs, "length kept")
        samples = (
            pairs.with_columns((pl.col("id").hash(3) // 2).alias("number")).sort("number").head(num_samples)
        )
        shown = [
            (number, name, f"{src[:500]}\n{tgt[:500]}")
            for number, name, src, tgt in samples.select("number", "id", "src", "tgt").iter_rows()
        ]
        self.samples = sorted([*self.samples, *shown])[:num_samples]

    def _count_lengths(self, pairs: pl.DataFrame, name: str) -> None:
        chars = pl.max_horizontal(pl.col("src").str.len_chars() + pl.col("tgt").str.len_chars(), 1)
        bins = (chars.log10() * BINS_PER_DECADE + 1e-9).floor().cast(pl.Int64)
        counts = pairs.select(bins.alias("bin"))["bin"].value_counts()
        self.histograms.setdefault(name, Counter()).update(dict(counts.iter_rows()))

    def merge(self, other: Counters, num_samples: int) -> None:
        """Add another part's counts; ``num_samples`` samples stay."""
        for name, bins in other.histograms.items():
            self.histograms.setdefault(name, Counter()).update(bins)
        for name, values in other.statistics.items():
            self.statistics.setdefault(name, Counter()).update(values)
        self.confusion.update(other.confusion)
        self.buckets.update(other.buckets)
        for mine, theirs in ((self.sources, other.sources), (self.kept, other.kept)):
            for uri, counted in theirs.items():
                mine.setdefault(uri, SourceCounters()).merge(counted)
        self.samples = sorted([*self.samples, *other.samples])[:num_samples]

    def to_json(self) -> dict[str, Any]:
        """Return JSON-ready values; `from_json` reads them back."""
        return {
            "histograms": _with_texts(self.histograms),
            "statistics": _with_texts(self.statistics),
            "confusion": dict(self.confusion),
            "sources": {uri: vars(counted) for uri, counted in self.sources.items()},
            "kept": {uri: vars(counted) for uri, counted in self.kept.items()},
            "buckets": dict(self.buckets),
            "samples": self.samples,
        }

    @staticmethod
    def of_stats(stats: dict[str, Any]) -> Counters:
        """Return the counters of a corpus from its ``stats.json``; versions until 0.2 called them ``tally``."""
        return Counters.from_json(stats["counters"] if "counters" in stats else stats["tally"])

    @staticmethod
    def from_json(data: dict[str, Any]) -> Counters:
        """Return the counters written by `to_json`."""
        return Counters(
            histograms=_with_numbers(data["histograms"]),
            statistics=_with_numbers(data.get("statistics", {})),
            confusion=Counter(data["confusion"]),
            sources={uri: SourceCounters(**counted) for uri, counted in data["sources"].items()},
            kept={uri: SourceCounters(**counted) for uri, counted in data["kept"].items()},
            buckets=Counter(data["buckets"]),
            samples=[(number, name, text) for number, name, text in data["samples"]],
        )


def _count_sources(pairs: pl.DataFrame, by_source: dict[str, SourceCounters]) -> None:
    chars = pl.col("src").str.len_chars() + pl.col("tgt").str.len_chars()
    groups = pairs.group_by("source", maintain_order=True).agg(
        pl.len().alias("n"), chars.sum().alias("chars")
    )
    for uri, num_docs, num_chars in groups.iter_rows():
        by_source.setdefault(uri, SourceCounters()).merge(SourceCounters(num_docs, int(num_chars)))


def _with_texts(tables: dict[str, Counter[int]]) -> dict[str, dict[str, int]]:
    return {name: {str(b): n for b, n in sorted(table.items())} for name, table in tables.items()}


def _with_numbers(tables: dict[str, dict[str, int]]) -> dict[str, Counter[int]]:
    return {name: Counter({int(b): n for b, n in table.items()}) for name, table in tables.items()}
