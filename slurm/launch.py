"""Submitting stages, sweeps and pipelines: ``cluster=slurm``, and the same code as ``local`` and ``debug``.

Every step of a run is a small graph that drives itself::

    array of parts --afterany--> collector --> array of the parts that failed, or of the next phase --> ...
                                          `--> barrier (submitted on hold) is released: the step has ended well
    barrier of a step --afterok--> collector that starts the next step

The barrier's id is known when the run is submitted, so the whole pipeline stands in the queue as ``afterok``
dependencies although the number of parts of a later step may be known only when the earlier ones have ended.
No job waits while it occupies a node.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from submitit import LocalExecutor

from xling.core.answer import Answer
from xling.core.config import to_dict
from xling.core.errors import UserError, unknown
from xling.core.pipeline import Pipeline
from xling.core.stage import STAGES, Stage
from xling.slurm import queue
from xling.slurm.element import Element
from xling.slurm.jobs import COLLECT, Site, read_site
from xling.slurm.record import Part, Run, Step, StepPlan, check_names, new_name, open_run
from xling.slurm.states import job_states

CLUSTERS = ("local", "slurm", "debug", "plan")
FILE_SYSTEM_DELAY_S = 30.0


def submit(name: str, cfg: Any, cluster: str, settings: Mapping[str, str] | None = None) -> Answer:
    """Submit one stage and return what to tell the user.

    Args:
        name: a name in `xling.core.stage.STAGES`.
        cfg: its resolved configuration.
        cluster: ``slurm`` queues it, ``local`` runs it in subprocesses, ``debug`` in this process, ``plan`` only
            says what would be submitted.
        settings: ``profile`` (path of a site profile), ``run`` (name of the run), any field of `Resources`.
    """
    return submit_stage(STAGES[name], [cfg], cluster, settings)


def submit_sweep(
    name: str, cfgs: Sequence[Any], cluster: str, settings: Mapping[str, str] | None = None
) -> Answer:
    """Submit one stage under several configurations as one array.

    Raises:
        UserError: the stage has several parts itself, or two configurations write to the same place.
    """
    stage = STAGES[name]
    if stage.phases:
        raise UserError(
            f"a sweep over {name!r}", "stages of one part", "put each configuration into a pipeline"
        )
    places = [str(getattr(cfg, "out", position)) for position, cfg in enumerate(cfgs)]
    for place in places:
        if places.count(place) > 1:
            raise UserError(
                f"the sweep writes to out={place} more than once", "an out= with each swept key in it"
            )
    return submit_stage(stage, cfgs, cluster, settings)


def submit_pipeline(pipeline: Pipeline, cluster: str, settings: Mapping[str, str] | None = None) -> Answer:
    """Submit every step of a pipeline as a graph; ``settings`` hold for each of its steps."""
    site, given, run_name = _settings(settings)
    plans = {
        name: _plan(site, STAGES[step.stage], [pipeline.settings(name)], step.after, given)
        for name, step in pipeline.steps.items()
    }
    return _launch(site, plans, cluster, run_name or new_name(site.folder, "pipeline"))


def submit_stage(
    stage: Stage, cfgs: Sequence[Any], cluster: str, settings: Mapping[str, str] | None = None
) -> Answer:
    """Like `submit`, for a stage that need not be registered."""
    site, given, run_name = _settings(settings)
    plans = {stage.name.replace(" ", "-"): _plan(site, stage, cfgs, (), given)}
    return _launch(site, plans, cluster, run_name or new_name(site.folder, stage.name))


def _settings(settings: Mapping[str, str] | None) -> tuple[Site, dict[str, str], str]:
    given = dict(settings or {})
    return read_site(given.pop("profile", "")), given, given.pop("run", "")


def _plan(
    site: Site, stage: Stage, cfgs: Sequence[Any], after: tuple[str, ...], given: Mapping[str, str]
) -> StepPlan:
    configs = tuple(to_dict(cfg) for cfg in cfgs)
    return StepPlan(stage, configs, after, site.resources(stage.name, given), site.resources(COLLECT))


def _launch(site: Site, plans: dict[str, StepPlan], cluster: str, name: str) -> Answer:
    if cluster not in CLUSTERS:
        raise unknown("cluster", cluster, CLUSTERS)
    check_names(name)
    run = Run(site.folder.absolute() / name, cluster, plans)
    if cluster == "plan":
        from xling.slurm.plan import describe

        return describe(run)
    run.create()
    if cluster != "slurm":
        return run_here(run)
    try:
        start(run, list(run.steps))
    except BaseException:
        # A graph of which a part was refused would wait for ever.
        stop(run)
        raise
    barriers = {step.name: step.barrier() for step in run.steps.values()}
    told = ", ".join(f"{step} {barrier}" for step, barrier in barriers.items())
    text = f"submitted {name} (barriers: {told}); watch it with: xling slurm status {name}"
    return Answer(text, {"run": name, "cluster": cluster, "barriers": barriers})


def start(run: Run, names: Sequence[str]) -> None:
    """Submit the steps called ``names``, whose order is the run's: barriers on hold, then what starts each."""
    for name in names:
        step = run.steps[name]
        jobs = queue.small(step.log, f"{run.name}.{name}.barrier", step.plan.collect, hold=True)
        step.submitted("barrier", queue.submit(jobs, [Barrier(str(run.path), name)]))
    for name in names:
        step = run.steps[name]
        if before := [run.steps[n].barrier() for n in step.plan.after if n in names]:
            collect(step, "afterok:" + ":".join(before))
        else:
            advance(step)


def stop(run: Run) -> list[str]:
    """Call a run off: nothing of it is submitted any more, and what is queued is cancelled."""
    (run.path / "cancelled").touch()
    ids: list[str] = []
    for step in run.steps.values():
        # Collectors first: one that has just submitted an array sees the mark and cancels it itself.
        for entry in sorted(step.jobs(), key=lambda e: e["kind"] == "array"):
            ids += [identity for identity in entry["jobs"] if identity not in ids]
    active = [identity for identity, state in job_states(ids).items() if state.is_active]
    queue.cancel(active)
    for step in run.steps.values():
        if not step.outcome():
            step.end("cancelled", "by the user")
    return active


@dataclass(frozen=True)
class Barrier:
    """The job that others hang on: it runs when its step has ended well and ends well itself."""

    run: str
    step: str

    def __call__(self) -> None:
        """Say so in the log."""
        print(f"step {self.step} of {self.run} has ended well", flush=True)


@dataclass(frozen=True)
class Collector:
    """The job behind an array: it decides what comes next."""

    run: str
    step: str

    def __call__(self) -> None:
        """Look at the parts and submit what comes next; a step that cannot go on is ended with the reason."""
        step = open_run(Path(self.run)).steps[self.step]
        if step.run.is_cancelled or step.outcome():
            return
        try:
            settle(step)
            advance(step)
        except BaseException as error:
            fail(step, f"cannot go on: {type(error).__name__}: {' '.join(str(error).split())}")
            raise


def collect(step: Step, dependency: str) -> None:
    """Queue a collector."""
    jobs = queue.small(step.log, f"{step.run.name}.{step.name}.collect", step.plan.collect, dependency)
    step.submitted("collect", queue.submit(jobs, [Collector(str(step.run.path), step.name)]))


def advance(step: Step) -> None:
    """Submit what comes next for a step none of whose parts is queued or runs, or end it."""
    parts, failed = decide(step)
    if parts:
        last = submit_parts(step, parts)
        collect(step, "afterany:" + last)
        if step.run.is_cancelled:
            stop(step.run)
    elif failed:
        fail(step, f"{len(failed)} part(s) failed: " + "; ".join(f"{p}: {reason_of(p)}" for p in failed[:20]))
    else:
        step.end("done")
        queue.call("scontrol", "release", step.barrier())


def fail(step: Step, reason: str) -> None:
    """End a step and everything that waits for it; its barrier never runs."""
    step.end("failed", reason)
    barriers = [step.barrier()]
    for other in step.run.after(step.name):
        other.end("failed", f"not started: step {step.name} failed")
        barriers.append(other.barrier())
    queue.cancel([b for b in barriers if b])


def submit_parts(step: Step, parts: Sequence[Part]) -> str:
    """Submit parts as one array, or as several in a row where the site limits their length.

    Returns the id of the last one: when it has ended, all have.
    """
    size, last, resources = step.plan.resources.max_array_size, "", step.plan.resources
    round_number = len(step.arrays())
    for first in range(0, len(parts), size):
        chunk = parts[first : first + size]
        name = f"{step.run.name}.{step.name}.{parts[0].phase}"
        jobs = queue.executor(step.log, name, resources, f"afterany:{last}" if last else "")
        ids = queue.submit(jobs, _elements(step, chunk))
        _write_down(step, chunk, ids, round_number)
        last = ids[0].partition("_")[0]
    return last


def _elements(step: Step, parts: Sequence[Part]) -> list[Element]:
    return [Element(str(step.run.path), step.name, part.phase, part.index) for part in parts]


def _write_down(step: Step, parts: Sequence[Part], ids: Sequence[str], round_number: int) -> None:
    saved = {str(p.index): p.saved() for p in parts if p.saved()}
    facts = {"phase": parts[0].phase, "indices": [p.index for p in parts], "saved": saved}
    step.submitted("array", ids, **facts, round=round_number)


def decide(step: Step) -> tuple[list[Part], list[Part]]:
    """Of the first phase that is not complete: the parts to submit, and the parts that have failed for good.

    A part that fails is tried ``max_attempts`` times in all; saving something new starts the count again.
    """
    for phase in step.phases():
        missing = [p for p in (step.part(phase.name, i) for i in range(phase.num_parts)) if not p.is_done()]
        if not missing:
            continue
        attempts = _attempts(step, phase.name)
        hopeless = {
            p.index
            for p in missing
            if p.last().get("final")
            or attempts.get((p.index, p.saved()), 0) >= step.plan.resources.max_attempts
        }
        again = [p for p in missing if p.index not in hopeless]
        return again, [p for p in missing if p.index in hopeless]
    return [], []


def _attempts(step: Step, phase: str) -> dict[tuple[int, int], int]:
    """Submissions by part and by what the part had saved at the time, since the last new beginning."""
    counted: dict[tuple[int, int], int] = {}
    for entry in step.jobs():
        if entry["kind"] == "reset":
            counted.clear()
        if entry["kind"] == "array" and entry["phase"] == phase:
            for index in entry["indices"]:
                key = (index, entry["saved"].get(str(index), 0))
                counted[key] = counted.get(key, 0) + 1
    return counted


def settle(step: Step) -> None:
    """Write down for parts that ended without a word what became of their job.

    A part whose job has COMPLETED has written its record; a slow shared file system may show it late.
    """
    arrays = step.arrays()
    if not arrays:
        return
    entries = [a for a in arrays if a["round"] == arrays[-1]["round"]]
    parts = {
        j: step.part(a["phase"], i) for a in entries for j, i in zip(a["jobs"], a["indices"], strict=True)
    }
    silent = {
        j: part for j, part in parts.items() if part.last().get("event") in (None, "start", "reset", "lost")
    }
    states = job_states(silent)
    deadline = time.monotonic() + FILE_SYSTEM_DELAY_S
    for identity, part in silent.items():
        state = states[identity]
        while state.state == "COMPLETED" and not part.is_done() and time.monotonic() < deadline:
            time.sleep(1)
        if not part.is_done():
            reason = ", ".join(filter(None, [f"the job left no result: {state.state}", state.reason]))
            part.append("lost", job=identity, reason=reason, node=state.node)


def reason_of(part: Part) -> str:
    """Why a part has not ended well, as far as it is known."""
    return next((str(e["reason"]) for e in reversed(part.events()) if e.get("reason")), "no record")


def run_here(run: Run) -> Answer:
    """The same decisions with submitit's own executors: subprocesses (local) or this process (debug)."""
    for step in run.steps.values():
        while True:
            parts, failed = decide(step)
            if not parts:
                break
            _write_down(step, parts, ["-"] * len(parts), len(step.arrays()))
            _run_parts(step, _elements(step, parts))
        if failed:
            text = "; ".join(f"{p}: {reason_of(p)}" for p in failed)
            step.end("failed", text)
            raise UserError(f"{len(failed)} part(s) of {run.name} failed: {text}", fix=f"see {step.log}")
        step.end("done")
    return Answer(f"{run.name} has ended well", {"run": run.name, "cluster": run.cluster})


def _run_parts(step: Step, elements: Sequence[Element]) -> None:
    """Run elements and wait for them; how each ended stands in its part's record."""
    resources = step.plan.resources
    if step.run.cluster == "debug":
        for element in elements:
            with contextlib.suppress(Exception):
                element()
        return
    here = LocalExecutor(step.log)
    here.update_parameters(timeout_min=resources.timeout_min, signal_delay_s=resources.signal_delay_s)
    width = min(resources.array_parallelism, os.cpu_count() or 1)
    for first in range(0, len(elements), width):
        jobs = [here.submit(element) for element in elements[first : first + width]]
        try:
            for job in jobs:
                job.wait()
        except KeyboardInterrupt:
            for job in jobs:
                job.cancel(check=False)
            raise
