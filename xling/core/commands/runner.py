"""Stages of the pipeline as phases and parts: the same code runs in process, in a pool or as array jobs.

A stage is a module-level configuration dataclass plus functions named in a `Stage`. A simple stage is one
phase with one part. A corpus stage has several phases. The parts of one phase are independent of each other
(array elements), and a phase starts when every part of the phase before it has ended (a barrier).
"""

import contextlib
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from xling.core import signals
from xling.core.commands import inputs, processes
from xling.core.commands.stage_type import Phase as Phase
from xling.core.commands.stage_type import Stage as Stage
from xling.core.commands.stage_type import phases_of as phases_of
from xling.core.commands.table import COMMANDS, OTHER_WORDS
from xling.core.output import lease, manifest
from xling.core.progress import Progress
from xling.core.registry import Registry
from xling.core.registry import load as load
from xling.core.settings import unused

_MIN_SECONDS = 20.0  # of work that is left, from which on processes are started unasked


def _find_problem(name: str, stage: Any) -> str:
    """Say why what another package names for a command cannot be it."""
    words = name.split()
    if not 1 <= len(words) <= 2:
        return "has a name that is not one word or two"
    if words[0] in OTHER_WORDS:
        return "has a name that is taken"
    is_fine = isinstance(stage, Stage) and stage.name == name
    return "" if is_fine else f"is not a Stage of the name {name!r}"


STAGES: Registry[Stage] = Registry("command", plugin="command", find_problem=_find_problem)
for _stage in COMMANDS:
    STAGES.add(_stage.name, _stage)


def run_part(name: str, cfg: Any, phase: str, index: int) -> Any:
    """Run one part of the stage called ``name``, as a pool worker or an array element does."""
    stage = STAGES[name]
    if not stage.phases:
        return load(stage.run)(cfg)
    return load(stage.run_part)(cfg, phase, index)


def run_local(name: str, cfg: Any, num_workers: int | None = 1) -> Any:
    """Run every phase of a stage on this machine and return the result of the last part.

    Args:
        name: a name in `STAGES`.
        cfg: the resolved configuration of that stage.
        num_workers: processes for the parts of a phase; 1 runs them in this process. None is one for each core where
            the stage allows it and the first part takes long.

    Raises:
        UserError: another process writes to the same output, or an input or an optional package is missing.
        Stopped: SIGTERM was received; saved work is valid.
    """
    stage = STAGES[name]
    if stage.extra:
        inputs.require(stage.extra, f"xling {name}")
    unused.check(name, cfg)
    inputs.check_inputs_exist(stage.reads, cfg)
    cfg = inputs.import_hub_inputs(stage.reads, cfg, load)
    signals.reset_process_state()
    out = Path(getattr(cfg, "out", None) or "")
    is_writer = (
        out.name and os.environ.get("RANK", "0") == "0" and not os.environ.get(manifest.ONLY_WHY_VARIABLE)
    )
    lease_held = lease.hold(out, f"xling {name}") if is_writer else contextlib.nullcontext()
    with signals.stoppable(), lease_held, inputs.standard_input(cfg, out) as cfg:
        if not os.environ.get(manifest.ONLY_WHY_VARIABLE):
            if stage.check:
                load(stage.check)(cfg)
            if stage.plan:
                cfg = load(stage.plan)(cfg)
        return _run_phases(stage, cfg, num_workers) if stage.phases else load(stage.run)(cfg)


def _run_phases(stage: Stage, cfg: Any, num_workers: int | None) -> Any:
    name, result, phase_index = stage.name, None, 0
    while phase_index < len(phases := phases_of(stage, cfg)):
        phase = phases[phase_index]
        if phase.num_parts == 1:
            with processes.allowed(num_workers or (_num_cores() if stage.uses_cores else 1)):
                result = run_part(name, cfg, phase.name, 0)
        else:
            with Progress(f"{name}: {phase.name}", phase.num_parts, "parts") as progress:
                for result in _part_results(stage, cfg, phase, num_workers):  # noqa: B007 - returned
                    progress.update()
        phase_index += 1
    return result


def _num_cores() -> int:
    return len(os.sched_getaffinity(0))


def _part_results(stage: Stage, cfg: Any, phase: Phase, num_workers: int | None) -> Iterator[Any]:
    name, left = stage.name, list(range(phase.num_parts))
    if num_workers is None:
        started_at = time.monotonic()
        yield run_part(name, cfg, phase.name, left.pop(0))
        is_long = (time.monotonic() - started_at) * len(left) > _MIN_SECONDS
        num_workers = _num_cores() if stage.uses_cores and is_long else 1
    num_workers = min(num_workers, len(left))
    run = partial(run_part, name, cfg, phase.name)
    yield from map(run, left) if num_workers == 1 else processes.in_order(run, left, num_workers)
