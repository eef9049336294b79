"""The last phase of a build: link the shards, add up the ledgers, and publish with a card."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from xling.core.errors import UserError
from xling.core.output.answer import Answer
from xling.core.output.manifest import publish
from xling.core.output.parts import Workspace, read_json, write_json
from xling.corpora.card import data_card
from xling.corpora.card.ledgers import ledger_to_json, merged_ledger
from xling.corpora.card.statistics import Counters
from xling.corpora.mono.parts import CUTOFFS, meanings, partial_reasons
from xling.corpora.mono.plan import FILE_NAME as PLAN
from xling.corpora.mono.plan import Plan, save_plan
from xling.corpora.mono.settings import STAGE_NAME, MonoConfig
from xling.corpora.stages import near_duplicates
from xling.corpora.stages import paragraphs as dedup
from xling.corpora.stages.filters import Filters
from xling.corpora.stages.perplexity import Perplexity
from xling.text.document import Ledger

STATS = "stats.json"
_LEDGERED = ("read", "filter", "score", "finish")


class NothingLeftError(UserError):
    """Raised when no document passed; ``ledger`` says where they were dropped."""

    ledger: Ledger


def run_publish(cfg: MonoConfig, plan: Plan) -> Answer:
    """Publish the corpus and return a summary of it.

    Raises:
        UserError: not one document is left; the message says where they went.
    """
    workspace, out = cfg.workspace(), cfg.directory
    folders = [workspace.part(phase, i) for phase in _LEDGERED for i in range(len(plan.parts))]
    ledger = merged_ledger(folders, cfg.num_samples)
    assert not ledger.unaccounted_bytes(), (
        f"bytes unaccounted for: {ledger.unaccounted_bytes()} of {ledger.num_bytes}"
    )
    if not ledger.seen["corpus"]:
        raise _nothing_left(cfg, ledger)
    counters = Counters()
    for folder in folders:
        counters.merge(Counters.from_json(read_json(folder / "counters.json")), cfg.num_samples)
    stats = _stats(cfg, plan, ledger, counters)
    with publish(out, STAGE_NAME, cfg.content()) as publication:
        _link_shards(cfg, plan, workspace, publication.path)
        _link_rejects(folders, publication.path)
        save_plan(plan, publication.path / PLAN)
        write_json(publication.path / STATS, stats)
        data_card.write(publication.path, stats)
        publication.counts |= {
            "documents": ledger.seen["corpus"],
            "characters": ledger.seen_chars["corpus"],
            "dropped": {f"{s}/{r}": n for (s, r), n in sorted(ledger.dropped.items())},
            "phases": workspace.resource_use(),
        }
    if not cfg.keep_work:
        shutil.rmtree(workspace.root.parent)
    return summary(out)


def summary(out: Path) -> Answer:
    """Return a paragraph that summarises a published corpus."""
    stats = read_json(out / STATS)
    seen, chars = stats["ledger"]["seen"], stats["ledger"]["seen_chars"]
    share = 100 * chars["corpus"] / max(1, chars["read"])
    text = (
        f"{stats['lang']}: {seen['corpus']:,} of {seen['read']:,} documents, {chars['corpus']:,} of "
        f"{chars['read']:,} characters ({share:.1f} %) in {out}\n  data card: {out / data_card.HTML_FILE}"
    )
    read = {"documents": seen["read"], "characters": chars["read"]}
    kept = {"documents": seen["corpus"], "characters": chars["corpus"]}
    return Answer(text, {"lang": stats["lang"], "out": str(out), "read": read, "kept": kept})


def _stats(cfg: MonoConfig, plan: Plan, ledger: Ledger, counters: Counters) -> dict[str, Any]:
    cutoffs = read_json(cfg.workspace().part("cut", 0) / CUTOFFS)
    inputs: dict[str, Any] = {}
    for index in range(len(plan.parts)):
        inputs |= read_json(cfg.workspace().part("read", index) / "inputs.json")
    return {
        "lang": cfg.lang,
        "config": cfg.content(),
        "sources": plan.sources,
        "inputs": inputs,
        "stages": _stages(cfg, bool(cutoffs)),
        "cutoffs": cutoffs,
        "limits": _limits(cfg),
        "lm_note": read_json(cfg.workspace().part("fit", 0) / "lm.json")["note"],
        "reasons": meanings(),
        "partial": sorted(partial_reasons()),
        "ledger": ledger_to_json(ledger),
        "counters": counters.to_json(),
    }


def _limits(cfg: MonoConfig) -> dict[str, float]:
    """Return the filters' limits for the language; empty if they do not run."""
    stages = [stage for stage in cfg.stages(cfg.after_dedup) if isinstance(stage, Filters)]
    return stages[0].limits_for(cfg.lang).numbers() if stages else {}


def _stages(cfg: MonoConfig, is_scored: bool) -> list[str]:
    """Return the stages in the order of processing."""
    return [
        "read",
        *cfg.before_dedup,
        *([dedup.STAGE] if cfg.dedup else []),
        *cfg.after_dedup,
        *([near_duplicates.STAGE] if cfg.near_dedup else []),
        *([Perplexity.name] if is_scored else []),
        "corpus",
    ]


def _link_shards(cfg: MonoConfig, plan: Plan, workspace: Workspace, out: Path) -> None:
    shards = out / "shards"
    shards.mkdir()
    number = 0
    for index in range(len(plan.parts)):
        for piece in sorted(workspace.part("finish", index).glob("[0-9]*.parquet")):
            link(piece, shards / f"{cfg.lang}-{number:05d}.parquet")
            number += 1
    if cfg.export:
        pieces = [
            sorted(workspace.part("finish", i).glob(f"[0-9]*.{cfg.export}")) for i in range(len(plan.parts))
        ]
        _join((path for part in pieces for path in part), out / f"{cfg.lang}.{cfg.export}")


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


def _join(pieces: Iterable[Path], target: Path) -> None:
    with target.open("wb") as whole:
        for piece in pieces:
            with piece.open("rb") as handle:
                shutil.copyfileobj(handle, whole, 1 << 20)


def _nothing_left(cfg: MonoConfig, ledger: Ledger) -> NothingLeftError:
    if not ledger.seen["read"]:
        notes = ", ".join(f"{name}: {count}" for name, count in ledger.notes.most_common(3))
        error = NothingLeftError(
            f"no document in {', '.join(cfg.uris)}" + (f" ({notes})" if notes else ""),
            fix="check source=, lang= and what the notes say about unread files",
        )
        error.ledger = ledger
        return error
    partial = partial_reasons()
    whole = [(n, key) for key, n in ledger.dropped.items() if key not in partial]
    reasons = ", ".join(f"{stage}/{reason} {n:,}" for n, (stage, reason) in sorted(whole, reverse=True)[:3])
    error = NothingLeftError(
        f"none of {ledger.seen['read']:,} documents is left: {reasons}",
        fix="check that the source is in the language, loosen settings.STAGE.KEY=..., or give more text",
    )
    error.ledger = ledger
    return error
