"""Handing work to Slurm through submitit: arrays of parts, the collector behind them, and barriers.

submitit writes the batch scripts. What they run is `xling.slurm.entry`, which reads what to do from the record of the
run: a job needs no pickle, and one whose submitter was killed right behind ``sbatch`` runs all the same.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from submitit import SlurmExecutor

from xling.core.errors import UserError
from xling.core.output.manifest import write_atomic
from xling.slurm import options
from xling.slurm.record import Part, Step
from xling.slurm.resources import Resources

COMMAND_TIMEOUT_S = 120.0
_TRANSIENT = re.compile(
    r"timed out|time(out| limit) .*(rpc|connect)|unable to contact|connection (refused|reset|failure)|connect failure"
    r"|communication (connection|shutdown)|zero bytes|temporarily|try again|resource temporarily|standby"
    r"|unable to (receive|send) message|protocol authentication|munge|invalid authentication credential"
    r"|no route to host|network is (down|unreachable)|name resolution|unable to (resolve|establish)"
    r"|submit ?(job)? ?limit|maxsubmit|maxjobcount|slurm_persist|i/o error|stale file handle|too many|did not answer"
    # All errors of Slurm's protocol but versions that do not fit (slurm_errno.h, 1000 to 1013 and 5000 to 5005).
    r"|unexpected (message|missing socket)|message (send|receive) failure|(insane|zero) (length )?message"
    r"|message length|entire message|header lengths|can't find an address|submissions disabled"
    r"|prologslurmctld is still running"
    # The controller was killed after it was asked, and has lost the job that this one waits for.
    r"|dependency problem",
    re.IGNORECASE,
)


_NEVER_SENT = re.compile(
    r"unable to contact|connection refused|connect failure|standby|munge|authentication|limit|temporarily|resolution"
    r"|dependency problem",
    re.IGNORECASE,
)


class TransientError(Exception):
    """Raised when Slurm did not answer or cannot take the job now: retrying later may succeed.

    Attributes:
        unsure: whether Slurm may have got the request all the same.
    """

    def __init__(self, reason: str, unsure: bool = True) -> None:
        super().__init__(reason)
        self.unsure = unsure


class Executor(SlurmExecutor):  # type: ignore[misc]
    """submitit's executor; it can also write batch scripts where no Slurm is installed.

    Attributes:
        entry_arguments: arguments of `xling.slurm.entry`.
        container_words: words before the Python that runs it, which start a container.
    """

    entry_arguments: Sequence[str] = ()
    container_words: Sequence[str] = ()

    @classmethod
    def affinity(cls) -> int:
        """Always usable: `submit` reports a missing Slurm itself."""
        return 2

    @property
    def _submitit_command_str(self) -> str:
        before = f"{shlex.join(self.container_words)} " if self.container_words else ""
        return f"{before}{self.python} -u -m xling.slurm.entry {shlex.join(self.entry_arguments)}"


def make_executor(
    folder: Path,
    name: str,
    words: Sequence[str],
    resources: Resources,
    dependency: str = "",
    container: Sequence[str] = (),
    code: Path | None = None,
    watch: bool = False,
    exclude: Sequence[str] = (),
    **submitit_parameters: Any,
) -> Executor:
    """Return an executor for jobs called ``name`` that run ``entry_arguments``.

    Args:
        words: arguments of `xling.slurm.entry`.
        dependency: as sbatch takes it.
        container: as `xling.slurm.options.container_words` returns it; empty for none.
        code: folder with the copy of the package that the jobs import; default: the installed one.
        watch: start the watcher beside the part.
        exclude: nodes on which the jobs must not run.
    """
    parameters = _parameters_of(resources, name) | submitit_parameters
    parameters["additional_parameters"] = {
        "requeue": True, **options.sbatch_parameters(options.with_excluded_nodes(resources.sbatch, exclude)),
        **submitit_parameters.get("additional_parameters", {}),
    }  # fmt: skip
    setup = [*resources.setup, *([options.snapshot_setup(code)] if code else [])]
    if watch:
        setup.append(options.watch_setup(words[1:]))
    if setup:
        parameters["setup"] = setup
    if dependency:
        parameters["dependency"] = dependency
        parameters["additional_parameters"]["kill-on-invalid-dep"] = "yes"
    new_executor = Executor(folder)
    new_executor.entry_arguments = words
    if container:
        new_executor.python, is_pyxis = resources.container_python, resources.container_runtime == "pyxis"
        new_executor.container_words = () if is_pyxis else container
        parameters["srun_args"] += container if is_pyxis else []
    new_executor.update_parameters(**parameters)
    return new_executor


def _parameters_of(resources: Resources, name: str) -> dict[str, Any]:
    """Return what a job asks for as submitit's parameters."""
    # Slurm hands sbatch --export on to srun, which would lose what the lines of setup export, and the copied code.
    srun = ({"export": "ALL"} if "export" in resources.sbatch else {}) | resources.srun
    parameters: dict[str, Any] = {
        "job_name": name,
        "nodes": resources.nodes,
        "ntasks_per_node": resources.tasks_per_node,
        "cpus_per_task": resources.cpus_per_task,
        "time": resources.timeout_min,
        "signal_delay_s": resources.signal_delay_s,
        "array_parallelism": resources.array_parallelism,
        "wckey": None,
        # srun does not take over cpus-per-task from the batch script since Slurm 22.05.
        "srun_args": [
            f"--cpus-per-task={resources.cpus_per_task}", "--kill-on-bad-exit=1", *options.srun_words(srun)
        ],
    }  # fmt: skip
    if resources.mem_gb is not None:
        parameters["mem"] = f"{round(resources.mem_gb * 1024)}M" if resources.mem_gb else "0"
    if resources.gpus_per_node:
        parameters["gpus_per_node"] = resources.gpus_per_node
    named = ("partition", "account", "qos", "gres", "constraint")
    return parameters | {key: value for key in named if (value := getattr(resources, key))}


def jobs_of(
    step: Step,
    kind: str,
    key: str,
    dependency: str = "",
    parts: Sequence[Part] = (),
    exclude: Sequence[str] = (),
) -> Executor:
    """Return the batch script of a submission that does not run on the nodes in ``exclude``."""
    entry_arguments = (kind, str(step.run.path), step.name, key)
    name = step.job_name({"kind": kind, "key": key} | ({"phase": parts[0].phase} if parts else {}))
    resources = step.plan.resources
    code = step.run.code if resources.snapshot else None
    if kind != "array":  # without srun, since these jobs submit jobs themselves
        held = {"hold": True} if kind == "barrier" else {}
        return make_executor(
            step.log, name, entry_arguments, step.plan.collect, dependency, code=code, use_srun=False,
            additional_parameters=held,
        )  # fmt: skip
    container: list[str] = []
    if resources.container:
        container = options.container_words(
            resources.container_runtime, resources.container, resources.mounts, Path(step.run.directory), step.run.path,
            resources.gpus_per_node > 0,
        )  # fmt: skip
    watch = resources.hang_slack_s > 0
    return make_executor(
        step.log, name, entry_arguments, resources, dependency, container, code, watch, exclude
    )


def submit(jobs: Executor, num_elements: int = 1) -> str:
    """Submit one job, or an array of several elements; return its id.

    Raises:
        UserError: Slurm is not here, or refused.
        TransientError: Slurm did not answer. The job may have been queued all the same: only its name tells.
    """
    path = jobs.folder / f"{jobs.parameters['job_name']}.sh"
    write_atomic(path, script(jobs, num_elements))
    text = run_command("sbatch", str(path))
    match = re.search(r"job (\d+)", text)
    if not match:
        raise TransientError(f"sbatch printed {text.strip()!r} and no job id")
    return match[1]


def run_command(*command: str) -> str:
    """Run one of Slurm's commands and return its output.

    Raises:
        UserError: Slurm is not here, or refused.
        TransientError: it did not answer.
    """
    if not shutil.which(command[0]):
        raise UserError(
            f"cluster=slurm, and no {command[0]} is here", "cluster=local", "log in to the cluster"
        )
    try:
        # `timeout` ends the command also when this process is killed meanwhile.
        result = subprocess.run(
            ["timeout", f"{COMMAND_TIMEOUT_S:.0f}", *command],
            capture_output=True, text=True, errors="replace", timeout=COMMAND_TIMEOUT_S + 5, env=environment(),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise TransientError(f"{command[0]} did not answer within {COMMAND_TIMEOUT_S:.0f} s") from None
    except OSError as error:
        raise TransientError(f"{command[0]}: {error.strerror}") from None
    if result.returncode == 0:
        return result.stdout
    reason = " ".join((result.stderr or result.stdout).split()) or f"exit code {result.returncode}"
    if result.returncode == 124 or _TRANSIENT.search(reason):
        raise TransientError(f"{command[0]}: {reason}", unsure=not _NEVER_SENT.search(reason))
    raise UserError(
        f"Slurm refused the command {command[0]}: {reason}", fix="change the slurm.* setting that it names"
    )


def cancel(ids: Sequence[str]) -> None:
    """Ask Slurm to cancel jobs; ended ones are not an error, and success is not checked."""
    for first in range(0, len(ids), 500):
        run_succeeds("scancel", "--quiet", *ids[first : first + 500])


def run_succeeds(*command: str) -> bool:
    """Run one of Slurm's commands; return whether it succeeded."""
    try:
        result = subprocess.run(
            command, capture_output=True, check=False, timeout=COMMAND_TIMEOUT_S, env=environment()
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0


def script(jobs: Executor, num_elements: int = 1) -> str:
    """Return the batch script as `submit` hands it over."""
    if num_elements > 1:
        jobs.parameters["map_count"] = num_elements
    text: str = jobs._make_submission_file_text(jobs._submitit_command_str, "")
    return text


def environment() -> dict[str, str]:
    """Return the environment without the variables of the current job, which sbatch would read as settings."""
    ours = ("SLURM_", "SUBMITIT_")
    return {k: v for k, v in os.environ.items() if not k.startswith(ours) or k == "SLURM_CONF"}
