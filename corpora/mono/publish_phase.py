"""The last phase of a build: link the shards, add up the ledgers, and publish with a card."""

import os
import shutil
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from xling.core.output.command_result import Answer
from xling.core.output.manifest import publish
from xling.core.output.parts import read_json, write_json
from xling.corpora.card import publication
from xling.corpora.card.counters import Counters
from xling.corpora.card.ledgers import chars_of_stages, merged_counters, merged_ledger
from xling.corpora.card.publication import STATS
from xling.corpora.common.finished import NothingLeftError
from xling.corpora.common.json_rows import ARRAY_NOTE, COMMA_NOTE, JOINED_NOTE, TWICE_NOTE
from xling.corpora.common.packed_xml import OUTSIDE_NOTE
from xling.corpora.mono.build import PLAN, Build
from xling.corpora.mono.parts import CUTOFFS, INPUTS, meanings, partial_reasons
from xling.corpora.mono.settings import CC_INDEX, STAGE_NAME
from xling.corpora.mono.trust import trust_of
from xling.corpora.sources.cc_index import INDEX_NOTE, RECORDS_NOTE
from xling.corpora.sources.jsonl import LISTED_NOTE
from xling.corpora.sources.source import CUT_NOTE, JOINED_LINES_NOTES, LOST_CHARS_NOTE, ROWS_NOTE
from xling.corpora.sources.text import LIST_NOTE, SHORT_NOTE, TABLE_NOTE, TIMES_NOTE
from xling.corpora.stages import STREAMING, near_duplicates
from xling.corpora.stages import paragraphs as dedup
from xling.corpora.stages.filters import Filters
from xling.corpora.stages.perplexity import Perplexity
from xling.text.document import Ledger

_SAID_NOTES = (
    LIST_NOTE,
    ROWS_NOTE,
    SHORT_NOTE,
    TABLE_NOTE,
    TIMES_NOTE,
    *JOINED_LINES_NOTES,
    CUT_NOTE,
    ARRAY_NOTE,
    JOINED_NOTE,
    COMMA_NOTE,
    TWICE_NOTE,
    LISTED_NOTE,
    OUTSIDE_NOTE,
    LOST_CHARS_NOTE,
)
_PHASES_WITH_LEDGER = ("read", "filter", "score", "finish")


def run_publish(build: Build) -> Answer:
    """Publish the corpus and return a summary of it.

    Raises:
        NothingLeftError: not one document is left; the message says where they went.
    """
    folders = [
        build.workspace.part(phase, i) for phase in _PHASES_WITH_LEDGER for i in range(len(build.plan.parts))
    ]
    ledger = merged_ledger(folders, build.cfg.num_samples)
    assert not ledger.unaccounted_bytes(), (
        f"bytes unaccounted for: {ledger.unaccounted_bytes()} of {ledger.num_bytes}"
    )
    if not ledger.seen["corpus"]:
        raise _nothing_left(build, ledger)
    stats = _stats(build, ledger, merged_counters(folders, build.cfg.num_samples))
    with publish(build.out, STAGE_NAME, build.content) as output:
        _link_shards(build, output.path)
        link_rejects(folders, output.path)
        write_json(output.path / PLAN, asdict(build.plan))
        publication.write(output, stats, ledger, "documents", phases=build.workspace.resource_use())
    if not build.cfg.keep_work:
        shutil.rmtree(build.workspace.root.parent)
    return summary(build.out)


def summary(out: Path) -> Answer:
    """Return a paragraph that summarises a published corpus."""
    stats = read_json(out / STATS)
    notes = stats["ledger"]["notes"]
    text = publication.summary(
        out,
        stats,
        stats["lang"],
        ("documents", "characters"),
        [
            *(f"  {note}: {notes[note]:,}" for note in _SAID_NOTES if notes.get(note)),
            *_crawl_lines(stats),
            *_trust_lines(stats),
        ],
        "before_dedup=repair,detokenise,blocklist,length,lines",
        STREAMING,
    )
    seen, chars = stats["ledger"]["seen"], chars_of_stages(stats)
    read = {"documents": seen["read"], "characters": chars["read"]}
    kept = {"documents": seen["corpus"], "characters": chars["corpus"]}
    return Answer(text, {"lang": stats["lang"], "out": str(out), "read": read, "kept": kept})


def _crawl_lines(stats: dict[str, Any]) -> list[str]:
    """Return what was read of Common Crawl by its index for a clean megabyte; nothing without it."""
    notes, clean = stats["ledger"]["notes"], stats.get("crawl_clean_bytes", 0) / 1e6
    if RECORDS_NOTE not in notes:
        return []
    index, fetched = notes.get(INDEX_NOTE, 0) / 1e6, notes[RECORDS_NOTE] / 1e6
    each = f": {(index + fetched) / clean:,.1f} MB read per clean MB" if clean else ""
    return [f"  Common Crawl: index {index:,.1f} MB, records {fetched:,.1f} MB, clean {clean:,.2f} MB{each}"]


def _trust_lines(stats: dict[str, Any]) -> list[str]:
    """Return how far the language can be trusted; nothing without rates of its identification."""
    if not (trust := stats.get("identification")):
        return []
    share = f"at {trust['prior']:.3g} of the crawl, threshold {trust['threshold']:g}"
    return [f"  expected precision of {trust['lang']} {share}: {trust['says']}"]


def _crawl_clean_bytes(build: Build) -> int:
    """Return the bytes of published text that came by the index of Common Crawl."""
    if not build.cfg.reads_index:
        return 0
    folders = [build.workspace.part("finish", index) for index in range(len(build.plan.parts))]
    shards = [path for folder in folders for path in sorted(folder.glob("[0-9]*.parquet"))]
    if not shards:
        return 0
    text = pl.scan_parquet(shards).filter(pl.col("source").str.starts_with(f"{CC_INDEX}:"))
    return int(text.select(pl.col("text").str.len_bytes().sum()).collect().item())


def _stats(build: Build, ledger: Ledger, counters: Counters) -> dict[str, Any]:
    cutoffs = read_json(build.workspace.part("cut", 0) / CUTOFFS)
    inputs: dict[str, Any] = {}
    for index in range(len(build.plan.parts)):
        inputs |= read_json(build.workspace.part("read", index) / INPUTS)
    filters = [stage for stage in build.after_dedup if isinstance(stage, Filters)]
    return publication.stats_of(
        ledger,
        counters,
        lang=build.cfg.lang,
        config=build.content,
        sources=build.plan.sources,
        inputs=inputs,
        stages=[
            "read",
            *build.cfg.before_dedup,
            *([dedup.STAGE] if build.cfg.dedup else []),
            *build.cfg.after_dedup,
            *([near_duplicates.STAGE] if build.cfg.near_dedup else []),
            *([Perplexity.name] if cutoffs else []),
            "corpus",
        ],
        cutoffs=cutoffs,
        limits=filters[0].limits_for(build.cfg.lang).numbers() if filters else {},
        identification=trust.to_json() if (trust := trust_of(build)) else {},
        lm_note=read_json(build.workspace.part("fit", 0) / "lm.json")["note"],
        reasons=meanings(),
        partial=sorted(partial_reasons()),
        **({"crawl_clean_bytes": _crawl_clean_bytes(build)} if build.cfg.reads_index else {}),
    )


def _link_shards(build: Build, out: Path) -> None:
    lang, ending = build.cfg.lang, build.cfg.export
    folders = [build.workspace.part("finish", index) for index in range(len(build.plan.parts))]
    (out / "shards").mkdir()
    shards = [path for folder in folders for path in sorted(folder.glob("[0-9]*.parquet"))]
    for number, path in enumerate(shards):
        link(path, out / "shards" / f"{lang}-{number:05d}.parquet")
    if ending:
        texts = [piece for folder in folders for piece in sorted(folder.glob(f"[0-9]*.{ending}"))]
        _join(texts, out / f"{lang}.{ending}")


def link_rejects(folders: list[Path], out: Path) -> None:
    """Link the dropped texts of some parts into a folder that is published."""
    (out / "rejects").mkdir()
    for folder in folders:
        path = folder / "rejects.parquet"
        if path.is_file() and pq.ParquetFile(path).metadata.num_rows:
            link(path, out / "rejects" / f"{folder.parent.name}-{folder.name}.parquet")


def link(source: Path, target: Path) -> None:
    """Link a file under a second name, so that a kill in between loses nothing; copy if links fail."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _join(paths: Iterable[Path], target: Path) -> None:
    with target.open("wb") as output:
        for path in paths:
            with path.open("rb") as handle:
                shutil.copyfileobj(handle, output, 1 << 20)


def _nothing_left(build: Build, ledger: Ledger) -> NothingLeftError:
    if not ledger.seen["read"]:
        notes = ", ".join(f"{name}: {count}" for name, count in ledger.notes.most_common(3))
        error = NothingLeftError(
            f"no document in {', '.join(build.uris)}" + (f" ({notes})" if notes else ""),
            fix="check source=, lang= and what the notes say about unread files",
        )
    else:
        said, setting = publication.nothing_left(
            ledger, "documents", meanings(), STREAMING, partial_reasons()
        )
        error = NothingLeftError(said, fix=f"{setting}, or give other text")
    error.ledger = ledger
    return error
