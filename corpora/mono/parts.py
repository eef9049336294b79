"""Phases of a build on single parts: read, compare paragraphs, filter, finish; each is atomic and repeatable."""

from __future__ import annotations

import gzip
import itertools
import lzma
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import polars as pl
import zstandard

from xling.core.output.manifest import sha256
from xling.core.output.parts import read_json, write_json
from xling.corpora.card.ledgers import RejectLog
from xling.corpora.card.statistics import SourceCounters
from xling.corpora.common.download import fetch_all
from xling.corpora.common.shards import SCHEMA, TableWriter, read_documents, source_uris, to_row
from xling.corpora.mono.plan import Plan
from xling.corpora.mono.settings import MonoConfig
from xling.corpora.sources.source import REASONS as READ_REASONS
from xling.corpora.sources.source import SOURCES, Context, Shard, open_source
from xling.corpora.sources.source import STAGE as READ
from xling.corpora.stages import STREAMING, Stage
from xling.corpora.stages import near_duplicates as near
from xling.corpora.stages import paragraphs as dedup
from xling.corpora.stages.filters import Filters
from xling.corpora.stages.langid import LangId
from xling.corpora.stages.perplexity import Perplexity, fit_cutoffs
from xling.text.document import Document, Ledger
from xling.text.lm.train import LmConfig, train_language_model

DOCS, HASHES = "docs.parquet", "hashes"
SKETCH, PAIRS, ENDS, SHINGLES = "sketch", "pairs.u64", "ends.u64", "shingles.parquet"
_TRAINED = (
    "Language model trained on {:,} characters of this corpus; those documents read too well, stand apart on "
    "the left and are left out when the cut-offs are fitted."
)
DUPLICATES, CHOICE, CUTOFFS = "duplicates.u64", "choice.u64", "cutoffs.json"
_MB = 1 << 20


def partial_reasons() -> set[tuple[str, str]]:
    """Return the stages and reasons that drop only a part of a document."""
    pairs = {(dedup.STAGE, reason) for reason in dedup.PARTIAL_REASONS}
    pairs |= {(near.STAGE, reason) for reason in near.PARTIAL_REASONS}
    return pairs | {(name, reason) for name, cls in STREAMING.items() for reason in cls.partial}


def meanings() -> dict[str, str]:
    """Map ``stage<TAB>reason`` to its explanation, for every stage."""
    explained = {f"{dedup.STAGE}\t{reason}": text for reason, text in dedup.REASONS.items()}
    explained |= {f"{near.STAGE}\t{reason}": text for reason, text in near.REASONS.items()}
    explained |= {f"{READ}\t{reason}": text for reason, text in READ_REASONS.items()}
    for source in SOURCES.values():
        explained |= {f"{READ}\t{reason}": text for reason, text in source.reasons.items()}
    for name, cls in STREAMING.items():
        explained |= {f"{name}\t{reason}": text for reason, text in cls.reasons.items()}
    return explained


def run_read(cfg: MonoConfig, plan: Plan, index: int) -> None:
    """Fetch and read the shards of one part, run the first stages and write the paragraphs' keys.

    The documents are written too, unless they lie in routed files already.
    """
    workspace, shards = cfg.workspace(), plan.parts[index]
    context = cfg.context()
    fetch_all([context.download(shard) for shard in shards if shard.remote], cfg.num_connections)
    with workspace.write_part("read", index) as part_folder, open_log(cfg, part_folder) as log:
        write_json(part_folder / "inputs.json", {shard.name: input_of(context, shard) for shard in shards})
        docs = chain(cfg.stages(cfg.before_dedup), documents(cfg, shards, log), log)
        if not _are_stored(cfg, shards):
            docs = _written(docs, part_folder / DOCS)
        if cfg.dedup:
            dedup.hash_shard(docs, part_folder / HASHES, plan.scope_of(index).num_ranges)
        else:
            _exhaust(docs)


def _are_stored(cfg: MonoConfig, shards: list[Shard]) -> bool:
    """Return whether the documents of ``read`` lie in routed files as they are."""
    return not cfg.before_dedup and all(shard.source.startswith("routed:") for shard in shards)


def run_dedup(cfg: MonoConfig, plan: Plan, index: int) -> None:
    """Find the paragraphs of one range of keys that occur in an earlier part of their scope."""
    workspace = cfg.workspace()
    scope, number = plan.range_at(index)
    with workspace.write_part("dedup", index) as part_folder:
        folders = [workspace.part("read", i) / HASHES for i in scope.parts]
        dedup.find_duplicates(folders, number, scope.num_ranges, part_folder / DUPLICATES)


def run_filter(cfg: MonoConfig, plan: Plan, index: int) -> None:
    """Drop the duplicated paragraphs of one part and run the stages on what is left."""
    workspace = cfg.workspace()
    read = workspace.part("read", index)
    with workspace.write_part("filter", index) as part_folder, open_log(cfg, part_folder) as log:
        shards, again = plan.parts[index], RejectLog(part_folder, (), num_samples=0, max_chars=0)
        docs: Iterable[Document] = (
            documents(cfg, shards, again) if _are_stored(cfg, shards) else read_documents(read / DOCS)
        )
        if cfg.dedup:
            scope = plan.scope_of(index)
            duplicates = [workspace.part("dedup", i) / DUPLICATES for i in scope.ranges]
            docs = dedup.drop_duplicates(docs, read / HASHES, index - scope.first_part, duplicates, log)
        if LangId.name not in cfg.after_dedup:
            docs = _named(docs, cfg.lang)  # the limits of the filters depend on the language
        docs = _written(chain(cfg.stages(cfg.after_dedup), docs, log), part_folder / DOCS)
        if cfg.near_dedup:
            near.sketch_shard(docs, part_folder / SKETCH, cfg.near, plan.num_near)
        else:
            _exhaust(docs)
    _delete_input(cfg, read / DOCS)


def run_near(cfg: MonoConfig, plan: Plan, index: int) -> None:
    """Pair documents of all parts that share the hash of one band, in one range of hashes, or of any band."""
    workspace = cfg.workspace()
    with workspace.write_part("near", index) as part_folder:
        ends = part_folder / ENDS if cfg.near.min_jaccard else None
        sketches = _all(cfg, "filter", SKETCH, len(plan.parts))
        near.find_pairs(sketches, plan.near_slices(cfg, index), part_folder / PAIRS, ends)


def run_shingle(cfg: MonoConfig, plan: Plan, index: int) -> None:
    """Write the shingles of the paired documents of one part, for the exact check."""
    workspace = cfg.workspace()
    with workspace.write_part("shingle", index) as part_folder:
        docs = read_documents(workspace.part("filter", index) / DOCS)
        sketches = _all(cfg, "filter", SKETCH, len(plan.parts))
        ends = _all(cfg, "near", ENDS, plan.num_near_parts(cfg))
        near.shingle_shard(docs, index, sketches, ends, part_folder / SHINGLES, cfg.near)


def _all(cfg: MonoConfig, phase: str, name: str, num_parts: int) -> list[Path]:
    workspace = cfg.workspace()
    return [workspace.part(phase, i) / name for i in range(num_parts)]


def run_fit(cfg: MonoConfig, plan: Plan, index: int) -> None:
    """Choose among near-duplicates and train the language model on the reference: the barrier before scoring."""
    workspace = cfg.workspace()
    num_parts = len(plan.parts)
    with workspace.write_part("fit", index) as part_folder:
        if cfg.near_dedup:
            near.choose_dropped(
                _all(cfg, "near", PAIRS, plan.num_near_parts(cfg)),
                _all(cfg, "filter", SKETCH, num_parts),
                part_folder / CHOICE,
                cfg.near,
                _all(cfg, "shingle", SHINGLES, num_parts if cfg.near.min_jaccard else 0),
                cfg.memory_mb,
            )
        write_json(part_folder / "lm.json", _train(cfg, plan, part_folder / "lm"))


def _train(cfg: MonoConfig, plan: Plan, out: Path) -> dict[str, Any]:
    """Train the model that ``lm.model=auto`` means, if there is text enough; the model and what to say of it."""
    if cfg.lm.model != "auto":
        return {"model": "" if cfg.lm.model == "none" else cfg.lm.model, "note": ""}
    paths = [
        path
        for path in _all(cfg, "filter", DOCS, len(plan.parts))
        if any(map(cfg.is_reference, source_uris(path)))
    ]
    docs = (doc for path in paths for doc in read_documents(path))
    texts = [doc.text for doc in _limited((d for d in docs if cfg.is_reference(d.source)), cfg.lm.max_chars)]
    num_chars = sum(map(len, texts))
    if num_chars < cfg.lm.min_chars:
        note = f"No perplexity: {num_chars:,} characters of reference text, {cfg.lm.min_chars:,} are needed."
        return {"model": "", "note": note}
    out.mkdir()
    settings = LmConfig(cfg.lang, (), order=cfg.lm.order, pieces=cfg.lm.pieces, seed=cfg.seed)
    train_language_model(texts, out, settings)
    return {"model": "auto", "note": _TRAINED.format(num_chars)}


def _limited(docs: Iterable[Document], num_chars: int) -> Iterator[Document]:
    for doc in docs:
        if num_chars <= 0:
            return
        num_chars -= len(doc.text)
        yield doc


def run_score(cfg: MonoConfig, plan: Plan, index: int) -> None:
    """Drop the near-duplicates of one part and score what is left by the language model."""
    workspace = cfg.workspace()
    source, fit = workspace.part("filter", index), workspace.part("fit", 0)
    with workspace.write_part("score", index) as part_folder, open_log(cfg, part_folder) as log:
        docs: Iterable[Document] = read_documents(source / DOCS)
        if cfg.near_dedup:
            docs = near.drop_near_duplicates(docs, index, fit / CHOICE, log)
        model = read_json(fit / "lm.json")["model"]
        if model:  # drops nothing yet: the cut-offs are unknown until every part is scored
            docs = Perplexity(str(fit / "lm") if model == "auto" else model)(docs, Ledger())
        _exhaust(_written(docs, part_folder / DOCS))
    _delete_input(cfg, source / DOCS)


def run_cut(cfg: MonoConfig, plan: Plan, index: int) -> None:
    """Fit the cut-offs to the perplexities of the corpus, but for what the model was trained on."""
    workspace = cfg.workspace()
    files = [workspace.part("score", i) / DOCS for i in range(len(plan.parts))]
    table = pl.scan_parquet(files).select("source", "perplexity").drop_nulls().collect()
    is_reference = table["source"].str.contains("|".join(f"^{re.escape(r)}" for r in cfg.lm.reference))
    others = table.filter(~is_reference)
    values = (others if len(others) else table)["perplexity"]
    low, high = cfg.lm.percentiles
    with workspace.write_part("cut", index) as part_folder:
        head, tail = fit_cutoffs(values, (low, high)) if len(values) else (0.0, 0.0)
        write_json(part_folder / CUTOFFS, {"head": head, "tail": tail} if tail else {})


def run_finish(cfg: MonoConfig, plan: Plan, index: int) -> None:
    """Cut one part into shards of the published size and count what is in them."""
    workspace = cfg.workspace()
    source = workspace.part("score", index)
    cutoffs = read_json(workspace.part("cut", 0) / CUTOFFS)
    with workspace.write_part("finish", index) as part_folder, open_log(cfg, part_folder) as log:
        docs: Iterator[Document] = read_documents(source / DOCS)
        if cutoffs:
            docs = cfg.perplexity(**cutoffs)(docs, log)
        docs = _named(docs, cfg.lang)
        for number in itertools.count():
            first = next(docs, None)
            if first is None:
                break
            piece = _take(itertools.chain([first], docs), cfg.shard_mb * _MB)
            with _open_export(cfg, part_folder, number) as text:
                for doc in _written(piece, part_folder / f"{number:05d}.parquet", passing=False):
                    log.count_seen("corpus", doc)
                    log.counters.count_published(doc, cfg.num_samples)
                    text(doc)
    _delete_input(cfg, source / DOCS)


def open_log(cfg: MonoConfig, folder: Path) -> RejectLog:
    """Return the ledger of a part being built, which keeps dropped samples."""
    return RejectLog(folder, partial_reasons(), cfg.num_samples, cfg.reject_chars)


def documents(cfg: MonoConfig, shards: list[Shard], log: RejectLog) -> Iterator[Document]:
    """Yield the documents of several shards, counted by source; oversized ones are dropped here."""
    context = cfg.context()
    for shard in shards:
        limit = cfg.max_docs or None
        with closing(open_source(shard.source, context).read(shard, log)) as docs:  # type: ignore[type-var]
            for doc in itertools.islice(docs, limit):
                log.counters.sources.setdefault(doc.source, SourceCounters()).add(doc)
                if len(doc.text) > cfg.max_chars:
                    log.drop(READ, "longer than max_chars", doc)
                else:
                    yield doc


def input_of(context: Context, shard: Shard) -> dict[str, Any]:
    """Return the origin of a shard, and the size and digest of its file if it has one."""
    if shard.checksum and not shard.remote:  # known already
        algorithm, _, digest = shard.checksum.partition(":")
        return {
            "location": shard.location,
            "source": shard.source,
            "bytes": shard.num_bytes,
            algorithm: digest,
        }
    path = context.download(shard).path if shard.remote else Path(shard.location)
    facts: dict[str, Any] = {"location": shard.location, "source": shard.source}
    return facts | ({"bytes": path.stat().st_size, "sha256": sha256(path)} if path.is_file() else {})


def chain(stages: Iterable[Stage], docs: Iterable[Document], log: RejectLog) -> Iterable[Document]:
    """Yield the documents that pass all stages; the counters take identified languages and filter values."""
    counts = {LangId.name: log.counters.count_identified, Filters.name: log.counters.count_statistics}
    for stage in stages:
        docs = stage(docs, log)
        if stage.name in counts:
            docs = _counted(docs, counts[stage.name])
    return docs


def _counted(docs: Iterable[Document], count: Callable[[Document], None]) -> Iterator[Document]:
    """Count the documents that a stage lets pass; the log counts those that it drops."""
    for doc in docs:
        count(doc)
        yield doc


def _written(docs: Iterable[Document], path: Path, passing: bool = True) -> Iterator[Document]:
    """Write the documents while they pass; ``passing`` as in `TableWriter`."""
    with TableWriter(path, SCHEMA, passing) as table:
        for doc in docs:
            table.add(to_row(doc))
            yield doc


def _named(docs: Iterable[Document], lang: str) -> Iterator[Document]:
    """Give documents that no stage has identified the language of the corpus."""
    for doc in docs:
        doc.lang = doc.lang or lang
        yield doc


def _take(docs: Iterator[Document], num_chars: float) -> Iterator[Document]:
    """Yield documents until they hold about ``num_chars``; at least one."""
    taken = 0
    while taken < num_chars and (doc := next(docs, None)) is not None:
        taken += len(doc.text)
        yield doc


def _exhaust(docs: Iterable[Any]) -> None:
    for _ in docs:
        pass


def _delete_input(cfg: MonoConfig, path: Path) -> None:
    """Delete the input of a part that is complete; only the copy that comes later is needed."""
    if not cfg.keep_work:
        path.unlink(missing_ok=True)


@contextmanager
def _open_export(cfg: MonoConfig, folder: Path, number: int) -> Iterator[Callable[[Document], object]]:
    """Provide a function that appends a document in CC-100's format, or does nothing when no export is asked for."""
    if not cfg.export:
        yield lambda doc: None
        return
    with (folder / f"{number:05d}.{cfg.export}").open("wb") as raw, _compressed(raw, cfg.export) as handle:
        yield lambda doc: handle.write((doc.text + "\n\n").encode())


def _compressed(raw: BinaryIO, ending: str) -> BinaryIO:
    """Return a writer whose compressed streams can be concatenated; equal text gives equal bytes."""
    match ending.rpartition(".")[2]:
        case "gz":
            return cast(BinaryIO, gzip.GzipFile("", "wb", 6, raw, mtime=0))
        case "xz":
            return cast(BinaryIO, lzma.LZMAFile(raw, "wb"))
        case "zst":
            return cast(BinaryIO, zstandard.ZstdCompressor().stream_writer(raw, closefd=False))
    return raw
