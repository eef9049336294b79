"""Preview of a submission: the graph, node-hours, and every batch script."""

from collections.abc import Sequence
from dataclasses import asdict

from xling.core.commands.runner import Phase
from xling.core.errors import UserError
from xling.core.output.command_result import Answer
from xling.slurm import submit
from xling.slurm.record import Run, Step

KEY = "KEY"
"""Stands in a plan for what makes the name of each submission unique."""


def describe(run: Run) -> Answer:
    """Describe the whole plan; the number of parts of a step may only be known when earlier steps have ended."""
    phases_of_steps = {name: _phases(step) for name, step in run.steps.items()}
    hours = sum(_node_hours(run.steps[name], phases) for name, phases in phases_of_steps.items())
    count = len(run.steps)
    lines = [f"run {run.name}: {count} step{'s' * (count > 1)}, at most {hours:,.1f} node-hours where known"]
    lines += [_line(step, phases_of_steps[name]) for name, step in run.steps.items()]
    for name, step in run.steps.items():
        lines += _scripts(step, phases_of_steps[name])
    steps = [
        {
            "step": name,
            "stage": step.plan.stage.name,
            "after": list(step.plan.after),
            "phases": {phase.name: phase.num_parts for phase in phases_of_steps[name]},
            "resources": asdict(step.plan.resources),
        }
        for name, step in run.steps.items()
    ]
    return Answer("\n".join(lines), {"run": run.name, "node_hours": round(hours, 2), "steps": steps})


def _phases(step: Step) -> Sequence[Phase]:
    """Return the phases known now; () if they depend on the output of an earlier step."""
    try:
        return step.phases()
    except UserError:
        if not step.plan.after:
            raise
        return ()


def _node_hours(step: Step, phases: Sequence[Phase]) -> float:
    return sum(step.plan.resources.node_hours(phase.num_parts) for phase in phases)


def _line(step: Step, phases: Sequence[Phase]) -> str:
    resources = step.plan.resources
    after = f", after {', '.join(step.plan.after)}" if step.plan.after else ""
    parts = (
        ", ".join(f"{phase.name}[{phase.num_parts or '?'}]" for phase in phases)
        or "parts known once it starts"
    )
    gpus = f", {resources.gpus_per_node} GPUs" if resources.gpus_per_node else ""
    memory = f"{resources.mem_gb:g} GiB" if resources.mem_gb else "all memory of a node"
    memory = "the site's memory" if resources.mem_gb is None else memory
    per_part = (
        f"{resources.nodes} node{'s' * (resources.nodes > 1)} x {resources.tasks_per_node} task"
        f"{'s' * (resources.tasks_per_node > 1)} x {resources.cpus_per_task} CPUs{gpus}, {memory},"
        f" {resources.timeout_min} min"
    )
    if resources.tasks_per_job > 1:
        per_part += f" for {resources.tasks_per_job} parts"
    hours = f"{_node_hours(step, phases):,.1f}" if phases else f"{resources.node_hours():,.1f} per part"
    return f"  {step.name} (xling {step.plan.stage.name}{after}): {parts}; each {per_part}; node-hours <= {hours}"


def _scripts(step: Step, phases: Sequence[Phase]) -> list[str]:
    """Return the batch scripts of a step: each phase, the collector and the barrier; job ids appear as <names>."""
    base = f"{step.run.name}.{step.name}"
    before = ":".join(f"<{name} barrier>" for name in step.plan.after)
    lines = _titled_script(f"{base}.barrier", submit.jobs_of(step, "barrier", KEY))
    if before:
        lines += _titled_script(
            f"{base}.collect (starts the step)", submit.jobs_of(step, "collect", KEY, f"afterok:{before}")
        )
    for phase in phases:
        if not phase.num_parts:
            continue  # how many follows from the phase before
        parts = [step.part(phase.name, 0)]
        size = min(step.plan.resources.num_jobs(phase.num_parts), step.plan.resources.max_array_size)
        lines += _titled_script(f"{base}.{phase.name}", submit.jobs_of(step, "array", KEY, parts=parts), size)
        behind = submit.jobs_of(step, "collect", KEY, f"afterany:<{phase.name} array>")
        lines += _titled_script(f"{base}.collect (behind {phase.name})", behind)
    return lines


def _titled_script(title: str, executor: submit.Executor, num_elements: int = 1) -> list[str]:
    return ["", f"==> {title} <==", submit.script(executor, num_elements).rstrip()]
