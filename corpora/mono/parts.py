"""Phases of a build on single parts: read, compare paragraphs, filter, finish; each is atomic and repeatable."""

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

from xling.core.errors import UserError
from xling.core.output import digests
from xling.core.output.parts import read_json, write_json
from xling.corpora.card.counters import SourceCounters
from xling.corpora.card.ledgers import RejectLog
from xling.corpora.common.shards import SCHEMA, TableWriter, read_documents, source_uris, to_row
from xling.corpora.mono.build import Build
from xling.corpora.sources.source import MAX_DOC_CHARS, SOURCES, Context, Shard, cut_long, open_source
from xling.corpora.sources.source import REASONS as READ_REASONS
from xling.corpora.sources.source import STAGE as READ
from xling.corpora.stages import STREAMING, Stage
from xling.corpora.stages import near_duplicates as near
from xling.corpora.stages import paragraphs as dedup
from xling.corpora.stages.filters import Filters
from xling.corpora.stages.langid import LangId
from xling.corpora.stages.perplexity import Perplexity, fit_cutoffs
from xling.text.document import Document, Ledger
from xling.text.lm.train import LmConfig, train_language_model

INPUTS, DOCS, HASHES = "inputs.json", "docs.parquet", "hashes"
SKETCH, PAIRS, ENDPOINTS, SHINGLES = "sketch", "pairs.u64", "ends.u64", "shingles.parquet"
_TRAINED_NOTE = (
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


def run_read(build: Build, index: int) -> None:
    """Fetch and read the shards of one part, run the first stages and write the paragraphs' keys.

    The documents are written too, unless they lie in routed files already.
    """
    with reading(build, "read", index) as (part_folder, _, docs):
        if not _are_stored(build, index):
            docs = _tee(docs, part_folder / DOCS)
        if build.cfg.dedup:
            dedup.hash_shard(docs, part_folder / HASHES, build.plan.scope_of(index).num_ranges)
        else:
            _exhaust(docs)


@contextmanager
def reading(build: Build, phase: str, index: int) -> Iterator[tuple[Path, RejectLog, Iterable[Document]]]:
    """Fetch the shards of one part, and provide its folder, its ledger and the documents after the first stages."""
    context, shards = build.context, build.plan.parts[index]
    for uri, of_source in itertools.groupby(shards, key=lambda shard: shard.source):
        open_source(uri, context).fetch(list(of_source), build.cfg.num_connections)
    with build.workspace.write_part(phase, index) as part_folder, open_log(build, part_folder) as log:
        write_json(part_folder / INPUTS, {shard.name: input_of(context, shard) for shard in shards})
        yield part_folder, log, chain(build.before_dedup, documents(build, index, log), log)
        # Raise UserError where a file is not the one that was planned: the corpus would not be what its plan says.
        for shard in shards:
            planned = build.plan.digests.get(shard.location)
            if planned and not shard.remote and digests.of_file(Path(shard.location)) != planned:
                raise UserError(
                    f"{shard.location} was changed while the corpus was made from it",
                    "files that stay as they are until the command has ended",
                    "run the same command again: it begins again with the new content",
                )


def _are_stored(build: Build, index: int) -> bool:
    """Return whether the documents that ``read`` gives lie in routed files as they are."""
    shards = build.plan.parts[index]
    return not build.before_dedup and all(shard.source.startswith("routed:") for shard in shards)


def run_dedup(build: Build, index: int) -> None:
    """Find the paragraphs of one range of keys that occur in an earlier part of their scope."""
    workspace = build.workspace
    scope, number = build.plan.range_at(index)
    with workspace.write_part("dedup", index) as part_folder:
        folders = [workspace.part("read", i) / HASHES for i in scope.parts]
        dedup.find_duplicates(folders, number, scope.num_ranges, part_folder / DUPLICATES)


def run_filter(build: Build, index: int) -> None:
    """Drop the duplicated paragraphs of one part and run the stages on what is left."""
    workspace = build.workspace
    read_folder = workspace.part("read", index)
    with workspace.write_part("filter", index) as part_folder, open_log(build, part_folder) as log:
        docs: Iterable[Document]
        if _are_stored(build, index):  # the phase read has counted them
            docs = documents(build, index, RejectLog(part_folder, (), num_samples=0, max_chars=0))
        else:
            docs = read_documents(read_folder / DOCS)
        if build.cfg.dedup:
            scope = build.plan.scope_of(index)
            duplicates = [workspace.part("dedup", i) / DUPLICATES for i in scope.ranges]
            docs = dedup.drop_duplicates(
                docs, read_folder / HASHES, index - scope.first_part, duplicates, log
            )
        if not any(isinstance(stage, LangId) for stage in build.after_dedup):
            docs = _with_lang(docs, build.cfg.lang)  # the limits of the filters depend on the language
        docs = _tee(chain(build.after_dedup, docs, log), part_folder / DOCS)
        if build.cfg.near_dedup:
            near.sketch_shard(docs, part_folder / SKETCH, build.cfg.near, build.plan.num_near)
        else:
            _exhaust(docs)
    _delete_input(build, read_folder / DOCS)


def run_near(build: Build, index: int) -> None:
    """Pair documents of all parts that share the hash of one band, in one range of hashes, or of any band."""
    with build.workspace.write_part("near", index) as part_folder:
        endpoints = part_folder / ENDPOINTS if build.cfg.near.min_jaccard else None
        sketches = _sketches(build)
        near.find_pairs(
            sketches, build.plan.near_slices(build.cfg.near.bands, index), part_folder / PAIRS, endpoints
        )


def run_shingle(build: Build, index: int) -> None:
    """Write the shingles of the paired documents of one part, for the exact check."""
    workspace = build.workspace
    with workspace.write_part("shingle", index) as part_folder:
        number = index - len(build.earlier)
        docs = read_documents(
            workspace.part("filter", number) / DOCS if number >= 0 else build.earlier[index]
        )
        sketches = _sketches(build)
        endpoints = _files(build, "near", ENDPOINTS, build.plan.num_near_parts(build.cfg.near.bands))
        near.shingle_shard(docs, index, sketches, endpoints, part_folder / SHINGLES, build.cfg.near)


def run_against(build: Build, index: int) -> None:
    """Hash the documents of one shard of the earlier corpora."""
    with build.workspace.write_part("against", index) as part_folder:
        docs = read_documents(build.earlier[index])
        near.sketch_shard(docs, part_folder / SKETCH, build.cfg.near, build.plan.num_near)


def _sketches(build: Build) -> list[Path]:
    """Return the sketches of the earlier corpora, whose documents come first, and of the parts."""
    return _files(build, "against", SKETCH, len(build.earlier)) + _files(
        build, "filter", SKETCH, len(build.plan.parts)
    )


def _files(build: Build, phase: str, name: str, num_parts: int) -> list[Path]:
    return [build.workspace.part(phase, i) / name for i in range(num_parts)]


def run_fit(build: Build, index: int) -> None:
    """Choose among near-duplicates and train the language model on the reference: the barrier before scoring."""
    num_shingled = len(build.earlier) + len(build.plan.parts)
    with build.workspace.write_part("fit", index) as part_folder:
        if build.cfg.near_dedup:
            near.choose_dropped(
                _files(build, "near", PAIRS, build.plan.num_near_parts(build.cfg.near.bands)),
                _sketches(build),
                part_folder / CHOICE,
                build.cfg.near,
                _files(build, "shingle", SHINGLES, num_shingled if build.cfg.near.min_jaccard else 0),
                build.cfg.memory_mb,
                len(build.earlier),
            )
        write_json(part_folder / "lm.json", _train(build, part_folder / "lm"))


def _train(build: Build, out: Path) -> dict[str, Any]:
    """Train the model that ``lm.model=auto`` means, if there is text enough; the model and what to say of it."""
    lm = build.cfg.lm
    if lm.model != "auto":
        return {"model": "" if lm.model == "none" else lm.model, "note": ""}
    paths = [
        path
        for path in _files(build, "filter", DOCS, len(build.plan.parts))
        if any(uri.startswith(lm.reference) for uri in source_uris(path))
    ]
    docs = (doc for path in paths for doc in read_documents(path) if doc.source.startswith(lm.reference))
    texts = [doc.text for doc in _limited(docs, lm.max_chars)]
    num_chars = sum(map(len, texts))
    if num_chars < lm.min_chars:
        note = f"No perplexity: {num_chars:,} characters of reference text, {lm.min_chars:,} are needed."
        return {"model": "", "note": note}
    out.mkdir()
    settings = LmConfig(build.cfg.lang, (), order=lm.order, pieces=lm.pieces, seed=build.cfg.seed)
    train_language_model(texts, out, settings)
    return {"model": "auto", "note": _TRAINED_NOTE.format(num_chars)}


def _limited(docs: Iterable[Document], num_chars: int) -> Iterator[Document]:
    for doc in docs:
        if num_chars <= 0:
            return
        num_chars -= len(doc.text)
        yield doc


def run_score(build: Build, index: int) -> None:
    """Drop the near-duplicates of one part and score what is left by the language model."""
    workspace = build.workspace
    filter_folder, fit_folder = workspace.part("filter", index), workspace.part("fit", 0)
    with workspace.write_part("score", index) as part_folder, open_log(build, part_folder) as log:
        docs: Iterable[Document] = read_documents(filter_folder / DOCS)
        if build.cfg.near_dedup:
            docs = near.drop_near_duplicates(docs, len(build.earlier) + index, fit_folder / CHOICE, log)
        model = read_json(fit_folder / "lm.json")["model"]
        if model:  # drops nothing yet: the cut-offs are unknown until every part is scored
            docs = Perplexity(str(fit_folder / "lm") if model == "auto" else model)(docs, Ledger())
        _exhaust(_tee(docs, part_folder / DOCS))
    _delete_input(build, filter_folder / DOCS)


def run_cut(build: Build, index: int) -> None:
    """Fit the cut-offs to the perplexities of the corpus, but for what the model was trained on."""
    workspace = build.workspace
    files = [workspace.part("score", i) / DOCS for i in range(len(build.plan.parts))]
    table = pl.scan_parquet(files).select("source", "perplexity").drop_nulls().collect()
    is_reference = table["source"].str.contains("|".join(f"^{re.escape(r)}" for r in build.cfg.lm.reference))
    others = table.filter(~is_reference)
    perplexities = (others if len(others) else table)["perplexity"]
    low, high = build.cfg.lm.percentiles
    with workspace.write_part("cut", index) as part_folder:
        head, tail = fit_cutoffs(perplexities, (low, high)) if len(perplexities) else (0.0, 0.0)
        write_json(part_folder / CUTOFFS, {"head": head, "tail": tail} if tail else {})


def run_finish(build: Build, index: int) -> None:
    """Cut one part into shards of the published size and count what is in them."""
    workspace = build.workspace
    score_folder = workspace.part("score", index)
    cutoffs = read_json(workspace.part("cut", 0) / CUTOFFS)
    with workspace.write_part("finish", index) as part_folder, open_log(build, part_folder) as log:
        docs: Iterator[Document] = read_documents(score_folder / DOCS)
        if cutoffs:
            docs = build.cfg.perplexity(**cutoffs)(docs, log)
        docs = _with_lang(docs, build.cfg.lang)
        for number in itertools.count():
            first = next(docs, None)
            if first is None:
                break
            shard = _first_chars(itertools.chain([first], docs), build.cfg.shard_mb * _MB)
            with _open_export(build, part_folder, number) as export:
                for doc in _tee(shard, part_folder / f"{number:05d}.parquet", passing=False):
                    log.count_seen("corpus", doc)
                    log.counters.count_published(doc, build.cfg.num_samples)
                    export(doc)
    _delete_input(build, score_folder / DOCS)


def open_log(build: Build, folder: Path) -> RejectLog:
    """Return the ledger of a part being built, which keeps dropped samples."""
    return RejectLog(folder, partial_reasons(), build.cfg.num_samples, build.cfg.reject_chars)


def documents(build: Build, index: int, log: RejectLog) -> Iterator[Document]:
    """Yield the documents of the shards of one part, counted by source; oversized ones are cut or dropped here."""
    for shard in build.plan.parts[index]:
        limit, source = build.cfg.max_docs or None, open_source(shard.source, build.context)
        with closing(source.read(shard, log)) as docs:  # type: ignore[type-var]
            for whole in source.with_forms(itertools.islice(docs, limit), log):
                max_chars = min(MAX_DOC_CHARS, build.cfg.max_chars) if source.cuts_long else len(whole.text)
                for doc in cut_long(whole, max_chars, log):
                    log.counters.sources.setdefault(doc.source, SourceCounters()).add(doc)
                    if len(doc.text) > build.cfg.max_chars:
                        log.drop(READ, "longer than max_chars", doc)
                    else:
                        yield doc


def input_of(context: Context, shard: Shard) -> dict[str, Any]:
    """Return the origin of a shard, and the size and digest of its file if it has one."""
    facts: dict[str, Any] = {"location": shard.location, "source": shard.source}
    if shard.checksum and not shard.remote:  # known already
        algorithm, _, digest = shard.checksum.partition(":")
        return facts | {"bytes": shard.num_bytes, algorithm: digest}
    path = context.download(shard).path if shard.remote else Path(shard.location)
    return facts | ({"bytes": path.stat().st_size, "sha256": digests.of_file(path)} if path.is_file() else {})


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


def _tee(docs: Iterable[Document], path: Path, passing: bool = True) -> Iterator[Document]:
    """Write the documents while they pass; ``passing`` as in `TableWriter`."""
    with TableWriter(path, SCHEMA, passing) as table:
        for doc in docs:
            table.add(to_row(doc))
            yield doc


def _with_lang(docs: Iterable[Document], lang: str) -> Iterator[Document]:
    """Give documents that no stage has identified the language of the corpus."""
    for doc in docs:
        doc.lang = doc.lang or lang
        yield doc


def _first_chars(docs: Iterator[Document], num_chars: float) -> Iterator[Document]:
    """Yield documents until they hold about ``num_chars``; at least one."""
    taken = 0
    while taken < num_chars and (doc := next(docs, None)) is not None:
        taken += len(doc.text)
        yield doc


def _exhaust(docs: Iterable[Any]) -> None:
    for _ in docs:
        pass


def _delete_input(build: Build, path: Path) -> None:
    """Delete the input of a part that is complete; only the copy that comes later is needed."""
    if not build.cfg.keep_work:
        path.unlink(missing_ok=True)


@contextmanager
def _open_export(build: Build, folder: Path, number: int) -> Iterator[Callable[[Document], object]]:
    """Provide a function that appends a document in CC-100's format, or does nothing when no export is asked for."""
    if not build.cfg.export:
        yield lambda doc: None
        return
    path = folder / f"{number:05d}.{build.cfg.export}"
    with path.open("wb") as raw, _compressed(raw, build.cfg.export) as handle:
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
