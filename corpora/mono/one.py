"""The build of one language: from sources to a clean monolingual corpus with a data card.

Phases, with a barrier between them:

- ``plan`` lists the shards.
- ``read`` (map over parts) downloads, reads and hashes.
- ``dedup`` (map over ranges of keys) finds the paragraphs that occur twice.
- ``filter`` (map) drops them and runs the other stages.
- ``near`` (map over bands and ranges of hashes) pairs near-duplicate documents.
- ``fit`` chooses among them and trains the language model.
- ``score`` (map) scores every document with it.
- ``cut`` fits the cut-offs.
- ``finish`` (map) splits by them and writes the published shards.
- ``publish`` links them beside the card.

Every part is complete or absent, so that a killed run resumes and ends in the same bytes.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from xling.core.commands.runner import Phase
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.answer import Answer
from xling.core.output.parts import run_unless_published
from xling.corpora.mono.parts import (
    run_cut,
    run_dedup,
    run_filter,
    run_finish,
    run_fit,
    run_near,
    run_read,
    run_score,
    run_shingle,
)
from xling.corpora.mono.plan import (
    FILE_NAME,
    Plan,
    announce,
    announce_default,
    make_plan,
    other_files,
    read_plan,
    save_plan,
    still_true,
)
from xling.corpora.mono.publish_phase import run_publish, summary
from xling.corpora.mono.settings import STAGE_NAME, MonoConfig

_STEPS = {
    "read": run_read,
    "dedup": run_dedup,
    "filter": run_filter,
    "near": run_near,
    "shingle": run_shingle,
    "fit": run_fit,
    "score": run_score,
    "cut": run_cut,
    "finish": run_finish,
}


def phases(cfg: MonoConfig) -> Sequence[Phase]:
    """Return the phases known so far: the plan, and then those that it determines."""
    path = _plan_path(cfg)
    if not path.is_file():
        return (Phase("plan"), Phase("publish")) if _published(cfg) else (Phase("plan"),)
    return phases_of_plan(cfg, read_plan(path))


def phases_of_plan(cfg: MonoConfig, plan: Plan) -> Sequence[Phase]:
    """Return the phases of a build with its plan."""
    num_parts = len(plan.parts)
    return (
        Phase("plan"),
        Phase("read", num_parts),
        *([Phase("dedup", plan.num_ranges)] if cfg.dedup else []),
        Phase("filter", num_parts),
        *([Phase("near", plan.num_near_parts(cfg))] if cfg.near_dedup else []),
        *([Phase("shingle", num_parts)] if cfg.near_dedup and cfg.near.min_jaccard else []),
        Phase("fit"),
        Phase("score", num_parts),
        Phase("cut"),
        Phase("finish", num_parts),
        Phase("publish"),
    )


def run_part(cfg: MonoConfig, phase: str, index: int) -> Answer | None:
    """Run one part of one phase; a part that is there already is left as it is.

    Returns:
        A summary from ``publish``, else nothing.
    """
    return run_unless_published(
        lambda: _run_part(cfg, phase, index),
        cfg.workspace,
        lambda: _published(cfg),
        lambda: summary(cfg.directory) if phase == "publish" else None,
    )


def _run_part(cfg: MonoConfig, phase: str, index: int) -> Answer | None:
    if phase == "plan":
        make(cfg)
        return None
    path = _plan_path(cfg)
    if phase == "publish":
        if path.is_file():
            return run_publish(cfg, read_plan(path))
        done = summary(cfg.directory)
        return Answer(f"{done}\n  up to date: nothing to do", done.data)
    if not path.is_file():
        if _published(cfg):
            return None
        raise UserError(f"no plan for {cfg.directory}", fix="run the phase plan first")
    if not cfg.workspace().part(phase, index).is_dir():
        _STEPS[phase](cfg, read_plan(path), index)
    return None


def _plan_path(cfg: MonoConfig) -> Path:
    return cfg.workspace().root / FILE_NAME


def _published(cfg: MonoConfig) -> Plan | None:
    """Return the plan of the published corpus if it was made with these settings from these files, else None.

    Raises:
        UserError: it was made with others, and ``overwrite=true`` was not given.
    """
    content, changed = cfg.content(), list[str]()
    path, plan = cfg.directory / FILE_NAME, None
    if path.is_file() and (cfg.directory / manifest.FILE_NAME).is_file():
        plan, recorded = read_plan(path), manifest.read(cfg.directory).config.get("source")
        if plan.digests and not (recorded == content["source"] and still_true(plan, cfg)):
            changed = other_files(plan, make_plan(cfg))
            content["source"] = content["source"] if changed else recorded
    if changed:
        manifest.check_may_replace(cfg.directory, changed)
        return None
    if manifest.up_to_date(cfg.directory, STAGE_NAME, content) is None or plan is None:
        return None
    return plan if plan.digests or still_true(plan, cfg) else None


def make(cfg: MonoConfig, aloud: bool = True) -> None:
    """Write the plan of a build that is not published, and say it on standard error if it is to be ``aloud``."""
    path = _plan_path(cfg)
    if path.is_file():
        plan = read_plan(path)
        if still_true(plan, cfg):
            if aloud:
                announce(plan, cfg)
            return
        shutil.rmtree(path.parent)  # parts of other input
    elif _published(cfg):
        return
    cfg.check_langid()
    announce_default(cfg)
    plan = make_plan(cfg)
    save_plan(plan, path)
    if aloud:
        announce(plan, cfg)
