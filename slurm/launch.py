"""Submitting stages, sweeps and pipelines: ``cluster=slurm``, and the same code as ``local`` and ``debug``.

Every step of a run is a small graph that drives itself::

    array of parts --afterany--> collector --> array of the parts that failed, or of the next phase --> ...
                                          `--> barrier (submitted on hold) is released: the step has ended well
    barrier of a step --afterok--> collector that starts the next step

The barrier's id is known when the run is submitted. So the whole pipeline is in the queue as ``afterok``
dependencies, even if the number of parts of a later step is only known when the earlier ones have ended.
No job waits while it occupies a node. What each collector does is in `xling.slurm.reconcile`.
"""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from submitit.local.local import start_controller

from xling.core.commands.needs import missing_inputs, with_what_is_there
from xling.core.commands.pipeline import Pipeline
from xling.core.commands.runner import STAGES, Stage
from xling.core.errors import UserError, unknown
from xling.core.output import lease
from xling.core.output.command_result import Answer
from xling.core.settings import unused
from xling.core.settings.config import to_dict
from xling.slurm import reconcile
from xling.slurm.array_task import Element
from xling.slurm.options import snapshot
from xling.slurm.record import Run, Step, StepPlan, check_names, new_name
from xling.slurm.resources import COLLECTOR, Site, read_site
from xling.slurm.states import cluster_name
from xling.slurm.submission_decisions import array_entry, parts_to_submit, reason_of
from xling.slurm.sweep import check_outputs, distinct

CLUSTERS = ("local", "slurm", "debug", "plan")


def submit(name: str, cfg: Any, cluster: str, settings: Mapping[str, str] | None = None) -> Answer:
    """Submit one stage and return what to tell the user.

    Args:
        name: a name in `xling.core.commands.runner.STAGES`.
        cfg: its resolved configuration.
        cluster: ``slurm`` queues it, ``local`` runs it in subprocesses, ``debug`` in this process, ``plan`` only
            says what would be submitted.
        settings: ``profile`` (path of a site profile), ``run`` (name of the run), any field of `Resources`.
    """
    return submit_stage(STAGES[name], [cfg], cluster, settings)


def check_settings(name: str, settings: Mapping[str, str]) -> None:
    """Raise UserError for settings that `submit` would refuse; nothing is submitted."""
    site, resource_settings, _ = _split_settings(settings)
    site.resources(name, resource_settings)


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
    check_outputs(cfgs)
    return submit_stage(stage, cfgs, cluster, settings)


def submit_pipeline(
    pipelines: Pipeline | Sequence[Pipeline], cluster: str, settings: Mapping[str, str] | None = None
) -> Answer:
    """Submit every step of a pipeline as a graph; ``settings`` hold for each of its steps.

    Several are the same pipeline under several settings: a step is one array, with an element for each of its settings.

    Raises:
        UserError: a step of several parts has several settings, two settings of a step write to the same place, or an
            input is missing that no step makes.
    """
    site, resource_settings, run_name = _split_settings(settings)
    checked = [
        _checked(each, cluster) for each in ([pipelines] if isinstance(pipelines, Pipeline) else pipelines)
    ]
    plans = {}
    for name, step in {name: step for each, _ in checked for name, step in each.steps.items()}.items():
        cfgs = distinct([configs[name] for _, configs in checked if name in configs])
        stage = STAGES[step.stage]
        if len(cfgs) > 1 and stage.phases:
            raise UserError(f"a sweep over {name} (xling {stage.name})", "steps of one part")
        plans[name] = _step_plan(site, stage, cfgs, step.after, resource_settings)
    return _start_run(site, plans, cluster, run_name or new_name(site.folder, "pipeline"))


def submit_stage(
    stage: Stage, cfgs: Sequence[Any], cluster: str, settings: Mapping[str, str] | None = None
) -> Answer:
    """Submit a stage that need not be registered; see `submit`."""
    site, resource_settings, run_name = _split_settings(settings)
    plans = {stage.name.replace(" ", "-"): _step_plan(site, stage, cfgs, (), resource_settings)}
    return _start_run(site, plans, cluster, run_name or new_name(site.folder, stage.name))


def _checked(pipeline: Pipeline, cluster: str) -> tuple[Pipeline, dict[str, Any]]:
    """Return a pipeline with the settings of its steps, without what may be missing; a plan may lack its inputs."""
    configs = {name: pipeline.settings(name) for name in pipeline.steps}
    if cluster == "plan" and missing_inputs(pipeline, configs):
        return pipeline, configs
    return with_what_is_there(pipeline, configs)


def _split_settings(settings: Mapping[str, str] | None) -> tuple[Site, dict[str, str], str]:
    resource_settings = dict(settings or {})
    return (
        read_site(resource_settings.pop("profile", "")),
        resource_settings,
        resource_settings.pop("run", ""),
    )


def _step_plan(
    site: Site,
    stage: Stage,
    cfgs: Sequence[Any],
    steps_before: tuple[str, ...],
    resource_settings: Mapping[str, str],
) -> StepPlan:
    for cfg in cfgs:
        unused.check(stage.name, cfg)
    configs = tuple(to_dict(cfg) for cfg in cfgs)
    resources = site.resources(stage.name, resource_settings)
    # A site that refuses --mem refuses it of the small job too.
    without_mem = resources.mem_gb is None and "mem_gb" not in site.stages.get(COLLECTOR, {})
    collector = site.resources(COLLECTOR, {"mem_gb": "none"} if without_mem else {})
    return StepPlan(stage, configs, steps_before, resources, collector)


def _start_run(site: Site, plans: dict[str, StepPlan], cluster: str, name: str) -> Answer:
    if cluster not in CLUSTERS:
        raise unknown("cluster", cluster, CLUSTERS)
    check_names(name)
    run = Run(site.folder.absolute() / name, cluster, plans)
    if cluster == "plan":
        from xling.slurm.preview import describe

        return describe(run)
    run.slurm = cluster_name() if cluster == "slurm" else ""
    run.create()
    if cluster != "slurm":
        return run_here(run)
    if any(step.plan.resources.snapshot for step in run.steps.values()):
        try:
            snapshot(run.code)
        except UserError:
            shutil.rmtree(run.path)
            raise
    try:
        for step in run.steps.values():
            step.hold_leases()
        reconcile.submit_first_jobs(run)
    except (UserError, KeyboardInterrupt) as error:
        has_jobs = any(e["jobs"] or not e.get("void") for s in run.steps.values() for e in s.jobs())
        if has_jobs and isinstance(error, (reconcile.NotSubmittedError, KeyboardInterrupt)):
            raise  # the record is there, and the reconciler goes on
        if has_jobs:
            reconcile.cancel_run(run)  # a graph of which a part was refused would wait for ever
        for step in run.steps.values():
            if has_jobs:
                step.end("failed", str(error))
            step.release_leases()
        if not has_jobs:
            shutil.rmtree(run.path)
        raise
    barriers = {step.name: step.barrier() for step in run.steps.values()}
    told = ", ".join(f"{step} {barrier}" for step, barrier in barriers.items())
    text = f"submitted {name} (barriers: {told}); watch it with: xling slurm status {name}"
    return Answer(text, {"run": name, "cluster": cluster, "barriers": barriers})


def run_here(run: Run) -> Answer:
    """Run the same steps in subprocesses under submitit's controller (local), or in this process (debug)."""
    run.check_owner()
    for step in run.steps.values():
        if step.outcome().get("state") == "done":
            continue
        with contextlib.ExitStack() as leases:
            for out in step.outputs():
                leases.enter_context(lease.hold(out, f"step {step.name} of run {run.name}"))
            _run_step(step)
    return Answer(f"{run.name} has ended well", {"run": run.name, "cluster": run.cluster})


def _run_step(step: Step) -> None:
    while True:
        parts, failed = parts_to_submit(step)
        if not parts:
            break
        step.record_submission("array", ["-"] * len(parts), **array_entry(parts, len(step.arrays())))
        _run_parts(step, [Element(str(step.run.path), step.name, part.phase, part.index) for part in parts])
        for part in parts:
            if part.last_event().get("event") in (None, "start", "reset"):
                part.append("lost", reason="its process was killed", counts=True, saved=part.num_saved())
    if failed:
        text = "; ".join(f"{p}: {reason_of(p)}" for p in failed)
        step.end("failed", text)
        raise UserError(f"{len(failed)} part(s) of {step.run.name} failed: {text}", fix=f"see {step.log}")
    step.end("done")


def _run_parts(step: Step, elements: Sequence[Element]) -> None:
    """Run elements and wait for them; the outcome of each is in its part's record."""
    resources = step.plan.resources
    if step.run.cluster == "debug":
        for element in elements:
            with contextlib.suppress(Exception):
                element()
        return
    width = min(resources.array_parallelism, os.cpu_count() or 1)
    for first in range(0, len(elements), width):
        processes = [_start_process(step, element) for element in elements[first : first + width]]
        try:
            for process in processes:
                process.wait()
        except KeyboardInterrupt:
            for process in processes:
                process.send_signal(signal.SIGINT)
            raise


def _start_process(step: Step, element: Element) -> subprocess.Popen[bytes]:
    """Start an element under submitit's controller, which knows time limits and logs; nothing is pickled."""
    resources = step.plan.resources
    words = ["part", element.run, element.step, element.phase, str(element.index)]
    process: subprocess.Popen[bytes] = start_controller(
        step.log, shlex.join([sys.executable, "-u", "-m", "xling.slurm.entry", *words]),
        timeout_min=resources.timeout_min, signal_delay_s=resources.signal_delay_s,
        cuda_devices=",".join(map(str, range(resources.gpus_per_node))),
    )  # fmt: skip
    return process
