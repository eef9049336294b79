"""The build of one language: from sources to a clean monolingual corpus with a data card.

Phases, with a barrier between them:

- ``plan`` lists the shards.
- ``read`` (map over parts) downloads, reads and hashes.
- ``dedup`` (map over ranges of keys) finds the paragraphs that occur twice.
- ``filter`` (map) drops them and runs the other stages.
- ``against`` (map over the shards of earlier corpora) hashes their documents.
- ``near`` (map over bands and ranges of hashes) pairs near-duplicate documents.
- ``fit`` chooses among them and trains the language model.
- ``score`` (map) scores every document with it.
- ``cut`` fits the cut-offs.
- ``finish`` (map) splits by them and writes the published shards.
- ``publish`` links them beside the card.

Every part is complete or absent, so that a killed run resumes and ends in the same bytes.
"""

import shutil
from collections.abc import Sequence
from dataclasses import replace

from xling.core.commands.runner import Phase
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import Answer
from xling.core.output.parts import run_unless_published
from xling.corpora.common.finished import finished, tidied, unchanged
from xling.corpora.mono import parts
from xling.corpora.mono.build import PLAN, Build, Plan, read_plan
from xling.corpora.mono.plan import announce, is_current, make_plan, save_new_plan
from xling.corpora.mono.publish_phase import run_publish, summary
from xling.corpora.mono.settings import STAGE_NAME

_STEPS = {
    "read": parts.run_read,
    "dedup": parts.run_dedup,
    "filter": parts.run_filter,
    "against": parts.run_against,
    "near": parts.run_near,
    "shingle": parts.run_shingle,
    "fit": parts.run_fit,
    "score": parts.run_score,
    "cut": parts.run_cut,
    "finish": parts.run_finish,
}


def phases(build: Build) -> Sequence[Phase]:
    """Return the phases known so far: the plan, and then those that it determines."""
    if not build.plan.parts:
        return (Phase("plan"), Phase("publish")) if published_plan(build) else (Phase("plan"),)
    num_parts, num_earlier = len(build.plan.parts), len(build.earlier)
    return (
        Phase("plan"),
        Phase("read", num_parts),
        *([Phase("dedup", build.plan.num_ranges)] if build.cfg.dedup else []),
        Phase("filter", num_parts),
        *([Phase("against", num_earlier)] if num_earlier else []),
        *([Phase("near", build.plan.num_near_parts(build.cfg.near.bands))] if build.cfg.near_dedup else []),
        *(
            [Phase("shingle", num_earlier + num_parts)]
            if build.cfg.near_dedup and build.cfg.near.min_jaccard
            else []
        ),
        Phase("fit"),
        Phase("score", num_parts),
        Phase("cut"),
        Phase("finish", num_parts),
        Phase("publish"),
    )


def run_part(build: Build, phase: str, index: int) -> Answer | None:
    """Run one part of one phase; a part that is there already is left as it is.

    Returns:
        A summary from ``publish``, else nothing.
    """
    return run_unless_published(
        lambda: _run_tidily(build, phase, index),
        lambda: build.workspace,
        lambda: published_plan(build),
        lambda: summary(build.out) if phase == "publish" else None,
    )


def _run_tidily(build: Build, phase: str, index: int) -> Answer | None:
    is_over = phase == "read" and len(build.plan.parts) == 1
    with tidied(lambda: build.workspace, build.cfg.keep_work, is_over):
        return _run_part(build, phase, index)


def _run_part(build: Build, phase: str, index: int) -> Answer | None:
    if phase == "plan":
        ensure_plan(build)
        return None
    if phase == "publish":
        return run_publish(build) if build.plan.parts else unchanged(summary(build.out))
    if not build.plan.parts:
        if published_plan(build):
            return None
        raise UserError(f"no plan for {build.out}", fix="run the phase plan first")
    if not build.workspace.part(phase, index).is_dir():
        _STEPS[phase](build, index)
    return None


def published_plan(build: Build) -> Plan | None:
    """Return the plan of the published corpus if it was made with these settings from these files, else None.

    Raises:
        UserError: it was made with others, and ``overwrite=true`` was not given.
    """
    path, plan = build.out / PLAN, None
    if path.is_file() and (build.out / manifest.FILE_NAME).is_file():
        plan = read_plan(path)
    recorded = finished(
        build.out,
        STAGE_NAME,
        build.content,
        plan.digests if plan else {},
        lambda: plan is not None and is_current(plan, build),
        lambda: make_plan(build).digests,
    )
    if recorded is None or plan is None:
        return None
    return plan if plan.digests or is_current(plan, build) else None


def ensure_plan(build: Build, aloud: bool = True) -> Build:
    """Return a build with its plan, unless it is published; the plan is saved, and written on standard error."""
    if build.plan.parts:
        if is_current(build.plan, build):
            if aloud:
                announce(build.plan, build)
            return build
        shutil.rmtree(build.workspace.root)  # parts of other input
    elif published_plan(build):
        return build
    return replace(build, plan=save_new_plan(build, build.after_dedup, aloud))
