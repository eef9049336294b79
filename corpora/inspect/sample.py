"""Sampling from several corpora with the languages balanced by alpha: ``xling corpus sample``.

The share of a language is its size to the power alpha, as in XLM-R (Conneau et al. 2020, section 3.1). Below
1, small languages are drawn more than once and large ones in part. The request is only approximated,
since documents are whole. The realised shares, alpha and epochs are reported for each language.
"""

import math
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xxhash

from xling.core import languages
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import Answer
from xling.core.sampling import alpha_shares, realised_alpha, rng
from xling.core.settings import values
from xling.core.settings.values import COUNT, COUNT_OR_NONE, POSITIVE, Lang, Range, ranged
from xling.corpora.common.shards import (
    SCHEMA,
    TableWriter,
    corpus_shards,
    read_corpus,
    read_documents,
    to_row,
    write_documents,
)
from xling.pages import tabular
from xling.text.document import Document

_MB = 1 << 20
_STAGE_NAME = "corpus sample"
_FINEWEB2_WEIGHTS = ("1:1", "2:2", "3:3", "5:5", "100:8", "1000:1")


@dataclass(frozen=True)
class SampleConfig:
    """Settings of ``xling corpus sample``.

    Attributes:
        corpora: language -> directory made by ``xling corpus mono``.
        out: directory to publish.
        alpha: 1 keeps the natural shares, 0 makes them equal.
        num_chars: characters to draw in all; 0 draws as many as there are.
        max_epochs: maximum number of times a document may be drawn.
        shard_mb: text per shard, MB, before compression; a shard is shuffled in memory.
        rehydrate: weights of documents by the number N of near-duplicates that they represent, within a
            language: the weight of the largest listed number up to N applies. Empty weighs all equally.
            ``1:1,2:2,3:3,5:5,100:8,1000:1`` are the weights of FineWeb-2 (Penedo et al. 2025), also called
            ``fineweb2``.
        seed: seed of the choice of documents and of their order.
    """

    corpora: dict[Lang, str]
    out: str
    alpha: float = ranged(0.3, Range(least=0, most=1))
    num_chars: int = ranged(0, COUNT_OR_NONE)
    max_epochs: float = ranged(20.0, POSITIVE)
    rehydrate: tuple[str, ...] = ()
    shard_mb: int = ranged(64, COUNT)
    seed: int = 1


@dataclass(frozen=True)
class DrawnLanguage:
    """Result of sampling one language: available and drawn characters."""

    num_chars: int
    drawn_chars: int
    num_docs: int
    share: float

    @property
    def epochs(self) -> float:
        """Number of passes over the corpus."""
        return self.drawn_chars / self.num_chars


def run(cfg: SampleConfig) -> Answer:
    """Draw, shuffle and publish; return a table of what came out.

    Raises:
        UserError: no corpus, an unknown language, a number out of range.
    """
    _check(cfg)
    weights = _weights(cfg.rehydrate)
    out = Path(cfg.out)
    corpora: dict[str, Path] = {}
    for code, path in cfg.corpora.items():
        lang = languages.get(code).code
        if lang in corpora:
            raise UserError(f"corpora.{code}: {lang} is given twice", "each language once")
        corpora[lang] = Path(path)
    if published := manifest.up_to_date(out, _STAGE_NAME, cfg, corpora.values()):
        return _make_answer(published.counts)
    sizes = {lang: sum(len(doc.text) for doc in read_corpus(path)) for lang, path in corpora.items()}
    weighted_sizes = {
        lang: sum(len(doc.text) * _weight(doc, weights) for doc in read_corpus(path))
        for lang, path in corpora.items()
    }
    if weights and weighted_sizes == sizes:
        raise UserError(
            f"rehydrate={','.join(cfg.rehydrate)} changes nothing here: each document has the weight 1",
            "corpora of documents that had near-duplicates, built with near_dedup=true",
            "leave it out",
        )
    shares = alpha_shares(sizes, cfg.alpha)
    total = cfg.num_chars or sum(sizes.values())
    epochs = {lang: min(cfg.max_epochs, shares[lang] * total / weighted_sizes[lang]) for lang in sizes}
    num_shards = max(
        1, math.ceil(sum(epochs[lang] * weighted_sizes[lang] for lang in sizes) / (cfg.shard_mb * _MB))
    )
    with manifest.publish(out, _STAGE_NAME, cfg, corpora.values()) as publication:
        drawn = _write_shuffle_parts(cfg, publication.path, corpora, epochs, num_shards)
        _shuffle_parts(cfg, publication.path, num_shards)
        results = {lang: DrawnLanguage(sizes[lang], *drawn[lang], shares[lang]) for lang in sizes}
        text = report(results, cfg)
        (publication.path / "sampling.md").write_text(text + "\n", encoding="utf-8")
        publication.counts |= {"report": text} | {
            lang: {
                "there": d.num_chars,
                "characters": d.drawn_chars,
                "documents": d.num_docs,
                "epochs": round(d.epochs, 4),
            }
            for lang, d in results.items()
        }
    return _make_answer(publication.counts)


def _make_answer(counts: dict[str, Any]) -> Answer:
    return Answer(counts["report"], {key: value for key, value in counts.items() if key != "report"})


def report(results: dict[str, DrawnLanguage], cfg: SampleConfig) -> str:
    """Return a Markdown table of requested and drawn shares and epochs per language, with the alpha below."""
    total = sum(d.drawn_chars for d in results.values()) or 1
    rows = []
    for lang, d in sorted(results.items(), key=lambda item: -item[1].num_chars):
        shares = [f"{100 * d.share:.2f} %", f"{100 * d.drawn_chars / total:.2f} %"]
        rows.append([lang, f"{d.num_chars:,}", *shares, f"{d.epochs:.2f}"])
    lines = tabular.markdown_grid(
        [["lang", "characters", "asked", "drawn", "epochs"], *rows], [False, *[True] * 4]
    )
    sizes = {lang: d.num_chars for lang, d in results.items()}
    alpha = realised_alpha(sizes, {lang: d.drawn_chars for lang, d in results.items()})
    realised = "not defined for one size" if math.isnan(alpha) else f"{alpha:.3f}"
    capped = [lang for lang, d in results.items() if d.epochs >= cfg.max_epochs * 0.99]
    note = f"; held at max_epochs={cfg.max_epochs:g}: {', '.join(capped)}" if capped else ""
    return "\n".join([*lines, "", f"alpha asked {cfg.alpha:g}, realised {realised}{note}"])


def _check(cfg: SampleConfig) -> None:
    if not cfg.corpora:
        raise UserError("no corpora given", "corpora.LANG=DIRECTORY for each language")
    values.check(cfg)
    for path in cfg.corpora.values():
        corpus_shards(Path(path))


def _weights(rules: tuple[str, ...]) -> list[tuple[int, float]]:
    """Return minimum cluster sizes and weights, largest size first.

    Raises:
        UserError: no pairs of numbers.
    """
    if rules == ("fineweb2",):
        rules = _FINEWEB2_WEIGHTS
    pairs = [pair.split(":") for pair in rules]
    try:
        weights = [(int(least), float(weight)) for least, weight in pairs]
    except ValueError:
        weights = [(0, 0.0)]
    if any(least < 1 or not 0 < weight < math.inf for least, weight in weights):
        raise UserError(
            f"rehydrate={','.join(rules)}", "SIZE:WEIGHT pairs above 0, such as 1:1,2:2,5:5; or fineweb2"
        )
    return sorted(weights, reverse=True)


def _weight(doc: Document, weights: list[tuple[int, float]]) -> float:
    size = doc.meta.get("cluster_size", 1)
    return next((weight for least, weight in weights if size >= least), 1.0)


def _write_shuffle_parts(
    cfg: SampleConfig, out: Path, corpora: dict[str, Path], epochs: dict[str, float], num_shards: int
) -> dict[str, tuple[int, int]]:
    """Write every copy of a document into a shard drawn for it; characters and documents per language."""
    drawn_langs, weights = {}, _weights(cfg.rehydrate)
    with ExitStack() as stack:
        (out / "scattered").mkdir()
        tables = [
            stack.enter_context(TableWriter(out / "scattered" / f"{i:05d}.parquet", SCHEMA))
            for i in range(num_shards)
        ]
        for lang, path in corpora.items():
            num_chars = num_docs = 0
            for doc in read_corpus(path):
                times = min(cfg.max_epochs, epochs[lang] * _weight(doc, weights))
                # The whole epochs, and once more with the remaining probability.
                number = xxhash.xxh64_intdigest(doc.id.encode(), seed=cfg.seed) / 2**64
                for copy in range(int(times) + (number < times - int(times))):
                    key = f"{lang}/{doc.id}/{copy}".encode()
                    tables[xxhash.xxh64_intdigest(key, seed=cfg.seed) % num_shards].add(to_row(doc))
                    num_chars += len(doc.text)
                    num_docs += 1
            drawn_langs[lang] = (num_chars, num_docs)
    return drawn_langs


def _shuffle_parts(cfg: SampleConfig, out: Path, num_shards: int) -> None:
    (out / "shards").mkdir()
    for i in range(num_shards):
        source = out / "scattered" / f"{i:05d}.parquet"
        docs = list(read_documents(source))
        order = rng(cfg.seed, "sample", i).permutation(len(docs))
        write_documents(out / "shards" / f"sample-{i:05d}.parquet", (docs[i] for i in order.tolist()))
        source.unlink()
    (out / "scattered").rmdir()
