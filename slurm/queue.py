"""Handing work to Slurm through submitit: arrays of parts, the collector behind them, and barriers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from submitit import SlurmExecutor
from submitit.core.utils import CommandFunction, FailedJobError, FailedSubmissionError

from xling.core.errors import UserError
from xling.slurm.jobs import Resources


class Executor(SlurmExecutor):  # type: ignore[misc]
    """submitit's executor; it can also write batch scripts where no Slurm is installed."""

    @classmethod
    def affinity(cls) -> int:
        """Always usable: `submit` reports a missing Slurm itself."""
        return 2


def executor(folder: Path, name: str, resources: Resources, dependency: str = "", **more: Any) -> Executor:
    """An executor for jobs called ``name`` whose scripts and logs go to ``folder``."""
    parameters: dict[str, Any] = {
        "job_name": name,
        "nodes": resources.nodes,
        "ntasks_per_node": resources.tasks_per_node,
        "cpus_per_task": resources.cpus_per_task,
        "mem": f"{round(resources.mem_gb * 1024)}M",
        "time": resources.timeout_min,
        "signal_delay_s": resources.signal_delay_s,
        "array_parallelism": resources.array_parallelism,
        "wckey": None,
        # srun does not take over cpus-per-task from the batch script since Slurm 22.05.
        "srun_args": [f"--cpus-per-task={resources.cpus_per_task}", "--kill-on-bad-exit=1"],
        "additional_parameters": {"requeue": True, **more.pop("additional_parameters", {})},
        **more,
    }
    if resources.gpus_per_node:
        parameters["gpus_per_node"] = resources.gpus_per_node
    for key in ("partition", "account", "qos", "gres", "constraint"):
        if value := getattr(resources, key):
            parameters[key] = value
    if resources.setup:
        parameters["setup"] = list(resources.setup)
    if dependency:
        parameters["dependency"] = dependency
        parameters["additional_parameters"]["kill-on-invalid-dep"] = "yes"
    made = Executor(folder)
    made.update_parameters(**parameters)
    return made


def small(
    folder: Path, name: str, resources: Resources, dependency: str = "", hold: bool = False
) -> Executor:
    """An executor for the jobs that only look after others: no srun, since they submit jobs themselves."""
    additional = {"hold": True} if hold else {}
    return executor(folder, name, resources, dependency, use_srun=False, additional_parameters=additional)


def submit(jobs: Executor, work: Sequence[Callable[[], None]]) -> list[str]:
    """Submit callables as one job or as one array; returns their ids in order.

    Raises:
        UserError: Slurm is not here, or refused.
    """
    try:
        with _clean_environment():
            return [job.job_id for job in jobs.submit_array(work)]
    except FileNotFoundError:
        raise UserError(
            "cluster=slurm, and no sbatch is here", "cluster=local", "log in to the cluster"
        ) from None
    except (FailedJobError, FailedSubmissionError) as error:
        raise UserError(f"Slurm refused the job: {' '.join(str(error).split())}") from None


def call(*command: str) -> str:
    """Run one of Slurm's commands and return its output.

    Raises:
        UserError: it failed.
    """
    try:
        return str(CommandFunction(list(command), verbose=False, env={**os.environ, "LC_ALL": "C"})())
    except FileNotFoundError:
        raise UserError(f"no {command[0]} is here", fix="log in to the cluster") from None
    except FailedJobError as error:
        raise UserError(f"{command[0]} failed: {' '.join(str(error).split())}") from None


def cancel(ids: Sequence[str]) -> None:
    """Cancel jobs; ones that have ended already are no error."""
    if ids:
        subprocess.run(["scancel", "--quiet", *ids], capture_output=True, check=False)


def script(jobs: Executor, num_elements: int = 1) -> str:
    """The batch script as `submit` would hand it over."""
    if num_elements > 1:
        jobs.parameters["map_count"] = num_elements
    text: str = jobs._make_submission_file_text(jobs._submitit_command_str, "")
    return text


@contextmanager
def _clean_environment() -> Iterator[None]:
    """Without the variables of the job we may be in: sbatch would read them as settings of the new one."""
    ours = {
        k: v for k, v in os.environ.items() if k.startswith(("SLURM_", "SUBMITIT_")) and k != "SLURM_CONF"
    }
    for key in ours:
        del os.environ[key]
    try:
        yield
    finally:
        os.environ.update(ours)
