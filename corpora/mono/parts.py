"""The parts of a build: read, compare paragraphs, filter, finish. Each is complete or absent, and repeatable."""

from __future__ import annotations

import gzip
import itertools
import lzma
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import zstandard

from corpora.document import Document, StreamingStage
from corpora.fetch import fetch_all
from corpora.mono.config import MonoConfig
from corpora.mono.plan import Plan
from corpora.mono.tally import SourceTally
from corpora.mono.work import RejectLog, write_json
from corpora.shards import SCHEMA, TableWriter, read_documents, to_row
from corpora.sources.source import STAGE as READ
from corpora.sources.source import Context, Shard, open_source
from corpora.stages import load_all
from corpora.stages import paragraphs as dedup
from corpora.stages.langid import LangId
from xling.core.manifest import sha256

DOCS = "docs.parquet"
HASHES = "hashes"
_MB = 1 << 20


def partial_reasons() -> set[tuple[str, str]]:
    """The stages and reasons that drop a piece of a document and keep the rest."""
    pairs = {(dedup.STAGE, reason) for reason in dedup.PARTIAL}
    return pairs | {(name, reason) for name, cls in load_all().items() for reason in cls.partial}


def meanings() -> dict[str, str]:
    """``stage<TAB>reason`` -> what it means, of every stage."""
    found = {f"{dedup.STAGE}\t{reason}": text for reason, text in dedup.REASONS.items()}
    for name, cls in load_all().items():
        found |= {f"{name}\t{reason}": text for reason, text in cls.reasons.items()}
    return found


def run_read(cfg: MonoConfig, plan: Plan, index: int) -> None:
    """Fetch and read the shards of one part, run the first stages and write the paragraphs' keys."""
    work, shards = cfg.work(), plan.parts[index]
    context = cfg.context()
    fetch_all([context.download(shard) for shard in shards if shard.remote], cfg.num_connections)
    with work.making("read", index) as made, _log(cfg, made) as log:
        write_json(made / "inputs.json", {shard.name: _input(context, shard) for shard in shards})
        docs = _chain(cfg.stages(cfg.before_dedup), _documents(cfg, shards, log), log)
        docs = _written(docs, made / DOCS)
        if cfg.dedup:
            dedup.hash_shard(docs, made / HASHES, plan.num_partitions)
        else:
            _exhaust(docs)


def run_dedup(cfg: MonoConfig, plan: Plan, index: int) -> None:
    """Find the keys of one range that occur in two or more documents of all parts."""
    work = cfg.work()
    with work.making("dedup", index) as made:
        folders = [work.part("read", i) / HASHES for i in range(len(plan.parts))]
        dedup.find_duplicates([dedup.partition_file(f, index) for f in folders], made / "duplicates.u64")


def run_filter(cfg: MonoConfig, plan: Plan, index: int) -> None:
    """Drop the duplicated paragraphs of one part and run the stages on what is left."""
    work = cfg.work()
    read = work.part("read", index)
    with work.making("filter", index) as made, _log(cfg, made) as log:
        docs: Iterable[Document] = read_documents(read / DOCS)
        if cfg.dedup:
            found = [work.part("dedup", p) / "duplicates.u64" for p in range(plan.num_partitions)]
            docs = dedup.drop_duplicates(docs, read / HASHES, found, log)
        docs = _chain(cfg.stages(cfg.after_dedup), docs, log)
        _exhaust(_written(docs, made / DOCS))
    _spare(cfg, read / DOCS)


def run_finish(cfg: MonoConfig, plan: Plan, index: int) -> None:
    """Cut one part into shards of the published size and count what is in them."""
    work = cfg.work()
    source = work.part("filter", index)
    with work.making("finish", index) as made, _log(cfg, made) as log:
        docs: Iterator[Document] = read_documents(source / DOCS)
        for number in itertools.count():
            first = next(docs, None)
            if first is None:
                break
            piece = _take(itertools.chain([first], docs), cfg.shard_mb * _MB)
            with _open_export(cfg, made, number) as text:
                for doc in _written(piece, made / f"{number:05d}.parquet"):
                    log.enter("corpus", doc)
                    log.tally.published(doc, cfg.num_samples)
                    text(doc)
    _spare(cfg, source / DOCS)


def _log(cfg: MonoConfig, folder: Path) -> RejectLog:
    return RejectLog(folder, partial_reasons(), cfg.num_samples, cfg.reject_chars)


def _documents(cfg: MonoConfig, shards: list[Shard], log: RejectLog) -> Iterator[Document]:
    """The documents of several shards, counted by source; endless ones are dropped here."""
    context = cfg.context()
    for shard in shards:
        docs = open_source(shard.source, context).read(shard, log)
        limit = cfg.max_docs or None
        for doc in itertools.islice(docs, limit):
            log.tally.sources.setdefault(doc.source, SourceTally()).add(doc)
            if len(doc.text) > cfg.max_chars:
                log.drop(READ, "longer than max_chars", doc)
            else:
                yield doc


def _input(context: Context, shard: Shard) -> dict[str, Any]:
    """Where a shard came from, and the size and digest of its file if it has one."""
    path = context.download(shard).path if shard.remote else Path(shard.location)
    facts: dict[str, Any] = {"location": shard.location, "source": shard.source}
    return facts | ({"bytes": path.stat().st_size, "sha256": sha256(path)} if path.is_file() else {})


def _chain(stages: Iterable[StreamingStage], docs: Iterable[Document], log: RejectLog) -> Iterable[Document]:
    for stage in stages:
        docs = stage(docs, log)
        if stage.name == LangId.name:
            docs = _identified(docs, log)
    return docs


def _identified(docs: Iterable[Document], log: RejectLog) -> Iterator[Document]:
    """Count the languages of the documents that language identification lets pass."""
    for doc in docs:
        log.tally.identified(doc)
        yield doc


def _written(docs: Iterable[Document], path: Path) -> Iterator[Document]:
    """Write the documents while they pass."""
    with TableWriter(path, SCHEMA) as table:
        for doc in docs:
            table.add(to_row(doc))
            yield doc


def _take(docs: Iterator[Document], num_chars: float) -> Iterator[Document]:
    """Documents until they hold about ``num_chars``; at least one."""
    taken = 0
    while taken < num_chars and (doc := next(docs, None)) is not None:
        taken += len(doc.text)
        yield doc


def _exhaust(docs: Iterable[Any]) -> None:
    for _ in docs:
        pass


def _spare(cfg: MonoConfig, path: Path) -> None:
    """Delete the input of a part that is complete; only the copy that comes later is needed."""
    if not cfg.keep_work:
        path.unlink(missing_ok=True)


@contextmanager
def _open_export(cfg: MonoConfig, folder: Path, number: int) -> Iterator[Callable[[Document], object]]:
    """A function that appends a document in CC-100's format, or does nothing when no export is asked for."""
    if not cfg.export:
        yield lambda doc: None
        return
    with (folder / f"{number:05d}.{cfg.export}").open("wb") as raw, _compressed(raw, cfg.export) as handle:
        yield lambda doc: handle.write((doc.text + "\n\n").encode())


def _compressed(raw: BinaryIO, ending: str) -> BinaryIO:
    """A writer of streams that may be joined end to end; the same text gives the same bytes."""
    match ending.rpartition(".")[2]:
        case "gz":
            return cast(BinaryIO, gzip.GzipFile("", "wb", 6, raw, mtime=0))
        case "xz":
            return cast(BinaryIO, lzma.LZMAFile(raw, "wb"))
        case "zst":
            return cast(BinaryIO, zstandard.ZstdCompressor().stream_writer(raw, closefd=False))
    return raw
