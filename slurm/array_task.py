"""Execution of one array element: a part of a stage, with its record, its signals and its restarts."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xling.core import signals
from xling.core.commands.runner import load
from xling.core.errors import UserError
from xling.core.output import lease
from xling.slurm.distributed import init_from_slurm
from xling.slurm.record import Part, Step, open_run

MAX_STALLS = 3
LEASE_WAIT_S = 360.0  # longer than an abandoned lease of another machine lasts
LIMIT_SLACK_S = 60.0  # Slurm sends the signal up to a minute early
SCONTROL_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Element:
    """A part that runs as one element of a job array, named by the folder of its record.

    Attributes:
        run: folder of the run's record.
        key: of the submission, "" outside of Slurm.
    """

    run: str
    step: str
    phase: str
    index: int
    key: str = ""

    def __call__(self) -> None:
        """Run the part, and come back when it is preempted or reaches its time limit."""
        started_at = time.time()
        step = open_run(Path(self.run)).steps[self.step]
        part = step.part(self.phase, self.index)
        is_leader = int(os.environ.get("SLURM_PROCID", "0")) == 0
        if part.is_done() or self._is_superseded(step):
            return
        signals.reset_process_state()
        with _variables_restored(signals.HEARTBEAT_VARIABLE, signals.SLACK_VARIABLE):
            os.environ.pop(signals.HEARTBEAT_VARIABLE, None)
            should_requeue = (
                self._run_as_leader(step, part, started_at)
                if is_leader
                else self._run_as_follower(step, part)
            )
        if should_requeue:
            _requeue()

    def _run_as_follower(self, step: Step, part: Part) -> bool:
        """Run the part in a process that is not the first: it only records that its node cannot be used.

        Returns:
            False, since the first process comes back.
        """
        _set_variables(step)
        os.environ[signals.HEARTBEAT_VARIABLE] = str(part.heartbeat_of(int(os.environ["SLURM_PROCID"])))
        signals.write_first_heartbeat(step.plan.resources.hang_start_s)
        try:
            with signals.stoppable(step.plan.resources.signal_delay_s * 0.8):
                _run(step, self.phase, self.index)
        except signals.Stopped:
            pass
        except signals.BadNodeError as error:
            fields = {"saved": part.num_saved(), "key": self.key, "exclude": _bad_nodes(error)}
            part.append("lost", reason=_one_line(error), **fields)
            raise
        return False

    def _run_as_leader(self, step: Step, part: Part, started_at: float) -> bool:
        """Run the part in the first process; return whether the job should be requeued."""
        _set_variables(step)
        with _variables_restored(lease.OWNER_VARIABLE):
            # Leases are held in the name of the part, so that its restart elsewhere takes them over.
            os.environ[lease.OWNER_VARIABLE] = str(part.events_path)
            with lease.hold(part.lease, str(part), LEASE_WAIT_S):
                if part.is_done() or self._is_superseded(step):
                    return False
                _record_start(part, self.key)
                os.environ[signals.HEARTBEAT_VARIABLE] = str(part.heartbeat_path)
                signals.write_first_heartbeat(step.plan.resources.hang_start_s)
                return self._run_and_record(step, part, started_at)

    def _run_and_record(self, step: Step, part: Part, started_at: float) -> bool:
        """Run the part and record how it ended; return whether the job should be requeued."""
        try:
            with signals.stoppable(step.plan.resources.signal_delay_s * 0.8):
                result = _run(step, self.phase, self.index)
        except signals.Stopped:
            reason = signals.stop_requested() or "the stage stopped by itself"
            resources = step.plan.resources
            end = float(os.environ.get("SLURM_JOB_END_TIME") or started_at + resources.timeout_min * 60)
            reached_limit = time.time() >= end - resources.signal_delay_s - LIMIT_SLACK_S
            may_requeue = _may_requeue()
            reason = reason if may_requeue else f"ended by Slurm (cancelled or requeued), after: {reason}"
            part.append("stopped", reason=reason, saved=part.num_saved(), key=self.key, limit=reached_limit)
            return may_requeue
        except BaseException as error:
            final = isinstance(error, UserError)
            if part.last_event().get("event") != "lost":  # else the watcher has ended the other processes
                fields = {"saved": part.num_saved(), "key": self.key, "exclude": _bad_nodes(error)}
                part.append("failed", reason=_one_line(error), final=final, **fields)
            raise
        part.append("done", text=result[:1000] if isinstance(result, str) else "", key=self.key)
        return False

    def _is_superseded(self, step: Step) -> bool:
        """Return whether the run was cancelled or the part resubmitted meanwhile; this job then does nothing."""
        if not self.key:
            return False
        if step.run.is_cancelled:
            return True
        submissions = [e for e in step.arrays() if e["phase"] == self.phase and self.index in e["indices"]]
        return not submissions or submissions[-1]["key"] != self.key


def _set_variables(step: Step) -> None:
    """Set the variables that stages read: rendezvous, threads, and how late a heartbeat may be."""
    if rendezvous := init_from_slurm():
        os.environ.update(rendezvous.environment())
    os.environ.setdefault("OMP_NUM_THREADS", str(step.plan.resources.cpus_per_task))
    os.environ[signals.SLACK_VARIABLE] = str(step.plan.resources.hang_slack_s)


@contextmanager
def _variables_restored(*names: str) -> Iterator[None]:
    """Give environment variables their old values after the block: the next work of this process is not this part."""
    old_values = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in old_values.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _run(step: Step, phase: str, index: int) -> Any:
    stage = step.plan.stage
    if not stage.phases:
        return load(stage.run)(step.config(index))
    return load(stage.run_part)(step.config(), phase, index)


def _record_start(part: Part, key: str) -> None:
    """Record the start of the part; after `MAX_STALLS` successive time limits without progress, give up.

    Preemption, the loss of a node and a requeue never count: they say nothing about the part.

    Raises:
        UserError: the part used up its time limit again and again without having saved anything new.
    """
    saved, stalls = part.num_saved(), 0
    for event in reversed(part.events()):
        if event["event"] in ("failed", "reset") or int(event.get("saved", saved)) < saved:
            break  # what fails is counted by its attempts, and the user may ask for a new beginning
        stalls += event["event"] == "stopped" and bool(event.get("limit"))
    if stalls >= MAX_STALLS:
        error = UserError(
            f"came back {stalls} times without progress, each time stopped by its time limit; "
            f"saved units of work: {saved}",
            fix="raise timeout_min, or save more often",
        )
        part.append("failed", reason=str(error), final=True, saved=saved, key=key)
        raise error
    env = os.environ
    restart, node = env.get("SLURM_RESTART_COUNT", "0"), env.get("SLURMD_NODENAME", "")
    part.append("start", saved=saved, job=job_id(), restart=int(restart), node=node, key=key)


def job_id() -> str:
    """Return the id of the current job; for an array element its own id, not that of the array."""
    env = os.environ
    if "SLURM_ARRAY_JOB_ID" in env:
        return f"{env['SLURM_ARRAY_JOB_ID']}_{env['SLURM_ARRAY_TASK_ID']}"
    return env.get("SUBMITIT_LOCAL_JOB_ID") or env.get("SLURM_JOB_ID", "")


def _may_requeue() -> bool:
    """Return whether this job may be requeued: not on a laptop, where the caller retries.

    A job that is being cancelled is left alone: requeueing would bring it back to life.
    """
    if not job_id():
        return True
    for number in signals.SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    try:
        command = ["scontrol", "-o", "show", "job", job_id()]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=SCONTROL_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return "JobState=RUNNING" in answer.stdout


def _requeue() -> None:
    """Requeue this job; Slurm then ends it here."""
    if job_id():
        # The signal that follows is Slurm's way to say yes; waiting for it longer would only cost KillWait.
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        with contextlib.suppress(subprocess.TimeoutExpired):
            command = ["scontrol", "requeue", job_id()]
            result = subprocess.run(command, capture_output=True, timeout=SCONTROL_TIMEOUT_S)
            if result.returncode == 0:
                time.sleep(60)


def _bad_nodes(error: BaseException) -> list[str]:
    """Return the nodes that an error says not to use again."""
    return [signals.node_name()] if isinstance(error, signals.BadNodeError) and signals.node_name() else []


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return (text if isinstance(error, UserError) else f"{type(error).__name__}: {text}")[:500]
