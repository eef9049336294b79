"""The last phase of a build: link the shards, add up the ledgers, and publish with a card."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from xling.core.errors import UserError
from xling.core.output.command_result import Answer
from xling.core.output.manifest import publish
from xling.core.output.parts import read_json, write_json
from xling.corpora.card import data_card
from xling.corpora.card.counters import Counters
from xling.corpora.card.ledgers import (
    dropped_by_reason,
    ledger_to_json,
    main_reasons,
    merged_counters,
    merged_ledger,
)
from xling.corpora.card.losses import loss_note, setting_of, tokenised_note
from xling.corpora.common.json_rows import COMMA_NOTE
from xling.corpora.mono.build import PLAN, Build, save_plan
from xling.corpora.mono.parts import CUTOFFS, INPUTS, meanings, partial_reasons
from xling.corpora.mono.settings import STAGE_NAME
from xling.corpora.sources.source import CUT_NOTE, LOST_CHARS_NOTE
from xling.corpora.sources.text import LIST_NOTE
from xling.corpora.stages import STREAMING, Stage, near_duplicates
from xling.corpora.stages import paragraphs as dedup
from xling.corpora.stages.filters import Filters
from xling.corpora.stages.perplexity import Perplexity
from xling.text.document import Ledger

STATS = "stats.json"
_SAID_NOTES = (LIST_NOTE, CUT_NOTE, COMMA_NOTE, LOST_CHARS_NOTE)
_PHASES_WITH_LEDGER = ("read", "filter", "score", "finish")


class NothingLeftError(UserError):
    """Raised when no document passed; ``ledger`` says where they were dropped."""

    ledger: Ledger


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
    with publish(build.out, STAGE_NAME, build.content) as publication:
        _link_shards(build, publication.path)
        _link_rejects(folders, publication.path)
        save_plan(build.plan, publication.path / PLAN)
        write_json(publication.path / STATS, stats)
        data_card.write(publication.path, stats)
        publication.counts |= {
            "documents": ledger.seen["corpus"],
            "characters": ledger.seen_chars["corpus"],
            "dropped": dropped_by_reason(ledger),
            "phases": build.workspace.resource_use(),
        }
    if not build.cfg.keep_work:
        shutil.rmtree(build.workspace.root.parent)
    return summary(build.out)


def summary(out: Path) -> Answer:
    """Return a paragraph that summarises a published corpus."""
    stats = read_json(out / STATS)
    seen, chars = stats["ledger"]["seen"], stats["ledger"]["seen_chars"]
    doc_share, share = (100 * count["corpus"] / max(1, count["read"]) for count in (seen, chars))
    text = (
        f"{stats['lang']}: {seen['corpus']:,} of {seen['read']:,} documents ({doc_share:.1f} %), "
        f"{chars['corpus']:,} of {chars['read']:,} characters ({share:.1f} %) in {out}\n"
        f"  data card: {out / data_card.HTML_FILE}"
    )
    notes = stats["ledger"]["notes"]
    said = [f"  {note}: {notes[note]:,}" for note in _SAID_NOTES if notes.get(note)]
    said.append(tokenised_note(notes, seen["read"], "before_dedup=repair,detokenise,blocklist,length,lines"))
    said.append(
        loss_note(stats, chars["read"], chars["corpus"], "characters", _stage_class)
        or loss_note(stats, seen["read"], seen["corpus"], "documents", _stage_class)
    )
    text = "\n".join([text, *filter(None, said)])
    read = {"documents": seen["read"], "characters": chars["read"]}
    kept = {"documents": seen["corpus"], "characters": chars["corpus"]}
    return Answer(text, {"lang": stats["lang"], "out": str(out), "read": read, "kept": kept})


def _stage_class(name: str) -> type[Stage] | None:
    return STREAMING[name] if name in STREAMING else None  # noqa: SIM401 - a registry raises


def _stats(build: Build, ledger: Ledger, counters: Counters) -> dict[str, Any]:
    cutoffs = read_json(build.workspace.part("cut", 0) / CUTOFFS)
    inputs: dict[str, Any] = {}
    for index in range(len(build.plan.parts)):
        inputs |= read_json(build.workspace.part("read", index) / INPUTS)
    return {
        "lang": build.cfg.lang,
        "config": build.content,
        "sources": build.plan.sources,
        "inputs": inputs,
        "stages": _stages(build, bool(cutoffs)),
        "cutoffs": cutoffs,
        "limits": _limits(build),
        "lm_note": read_json(build.workspace.part("fit", 0) / "lm.json")["note"],
        "reasons": meanings(),
        "partial": sorted(partial_reasons()),
        "ledger": ledger_to_json(ledger),
        "counters": counters.to_json(),
    }


def _limits(build: Build) -> dict[str, float]:
    """Return the filters' limits for the language; empty if they do not run."""
    filters = [stage for stage in build.after_dedup if isinstance(stage, Filters)]
    return filters[0].limits_for(build.cfg.lang).numbers() if filters else {}


def _stages(build: Build, is_scored: bool) -> list[str]:
    """Return the stages in the order of processing."""
    return [
        "read",
        *build.cfg.before_dedup,
        *([dedup.STAGE] if build.cfg.dedup else []),
        *build.cfg.after_dedup,
        *([near_duplicates.STAGE] if build.cfg.near_dedup else []),
        *([Perplexity.name] if is_scored else []),
        "corpus",
    ]


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


def _link_rejects(folders: list[Path], out: Path) -> None:
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
        partial = partial_reasons()
        whole = {key: num for key, num in ledger.dropped.items() if key not in partial}
        stage, reason = max(whole, key=lambda key: (whole[key], key))
        meaning = meanings().get(f"{stage}\t{reason}", "")
        error = NothingLeftError(
            f"none of {ledger.seen['read']:,} documents is left: {main_reasons(ledger, partial)}"
            f"{f' ({reason}: {meaning})' if meaning else ''}",
            fix=f"{setting_of(stage, reason, meaning, _stage_class(stage))}, or give other text",
        )
    error.ledger = ledger
    return error
