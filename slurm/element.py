"""What one array element executes: a part of a stage, with its record, its signals and its restarts."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from xling.core import job
from xling.core.errors import UserError
from xling.core.stage import load
from xling.slurm.distributed import init_from_slurm
from xling.slurm.record import Part, Step, open_run

MAX_STALLS = 3
_SIGNALS = {signal.SIGUSR2: "time limit or preemption (SIGUSR2)", signal.SIGTERM: "preemption (SIGTERM)"}


@dataclass(frozen=True)
class Element:
    """One part, named by where its record lies; small enough to be pickled ten thousand times."""

    run: str
    step: str
    phase: str
    index: int

    def __call__(self) -> None:
        """Run the part, and come back when it is preempted or reaches its time limit."""
        step = open_run(Path(self.run)).steps[self.step]
        part = step.part(self.phase, self.index)
        leader = int(os.environ.get("SLURM_PROCID", "0")) == 0
        if part.is_done():
            return
        job.reset()
        os.environ.pop(job.VARIABLE, None)
        if leader:
            _start(part)
            os.environ[job.VARIABLE] = str(part.heartbeat_path)
        if rendezvous := init_from_slurm():
            os.environ.update(rendezvous.environment())
        os.environ.setdefault("OMP_NUM_THREADS", str(step.plan.resources.cpus_per_task))
        try:
            with _signals(step.plan.resources.signal_delay_s * 0.8):
                result = _run(step, self.phase, self.index)
        except job.Stopped:
            reason = job.stop_requested() or "the stage stopped by itself"
            if leader:
                back = _may_come_back()
                reason = reason if back else f"ended by Slurm (cancelled or requeued), after: {reason}"
                part.append("stopped", reason=reason, saved=part.saved())
                if back:
                    _come_back()
        except BaseException as error:
            if leader:
                final = isinstance(error, UserError)
                part.append("failed", reason=_one_line(error), final=final, saved=part.saved())
            raise
        else:
            if leader:
                part.append("done", text=result[:1000] if isinstance(result, str) else "")


def _run(step: Step, phase: str, index: int) -> Any:
    stage = step.plan.stage
    if not stage.phases:
        return load(stage.run)(step.config(index))
    return load(stage.run_part)(step.config(), phase, index)


def _start(part: Part) -> None:
    """Write down that the part starts; after `MAX_STALLS` starts in a row from the same point, give up.

    Raises:
        UserError: the part came back again and again without having saved anything new.
    """
    saved, stalls, last_reason = part.saved(), 0, "killed"
    for event in reversed(part.events()):
        if event["event"] in ("failed", "reset"):
            break  # what fails is counted by its attempts, and the user may ask for a new beginning
        if event["event"] == "stopped":
            last_reason = event["reason"] if stalls == 0 else last_reason
        if event["event"] == "start":
            if event["saved"] < saved:
                break
            stalls += 1
    if stalls >= MAX_STALLS:
        reason = (
            f"came back {stalls} times without progress, last stopped by: {last_reason}; saved units of work:"
            f" {saved}; fix: raise timeout_min, or save more often"
        )
        part.append("failed", reason=reason, final=True, saved=saved)
        raise UserError(reason)
    env = os.environ
    restart, node = env.get("SLURM_RESTART_COUNT", "0"), env.get("SLURMD_NODENAME", "")
    part.append("start", saved=saved, job=job_id(), restart=int(restart), node=node)


def job_id() -> str:
    """Id of the job this process runs in; an element of an array never goes by the id of the whole array."""
    env = os.environ
    if "SLURM_ARRAY_JOB_ID" in env:
        return f"{env['SLURM_ARRAY_JOB_ID']}_{env['SLURM_ARRAY_TASK_ID']}"
    return env.get("SUBMITIT_LOCAL_JOB_ID") or env.get("SLURM_JOB_ID", "")


@contextmanager
def _signals(grace_s: float) -> Iterator[None]:
    """Turn the signals of Slurm into a request to stop.

    A stage that polls gets ``grace_s`` seconds to save; any other stage ends where it stands: what it publishes
    appears whole or not at all, so it only loses time.
    """

    def ask(number: int, _: FrameType | None) -> None:
        if job.stop_requested():
            return
        job.request_stop(_SIGNALS[signal.Signals(number)])
        if not job.is_polling():
            raise job.Stopped
        signal.setitimer(signal.ITIMER_REAL, grace_s)

    def out_of_time(_number: int, _: FrameType | None) -> None:
        raise job.Stopped

    handlers: dict[signal.Signals, Any] = dict.fromkeys(_SIGNALS, ask)
    handlers |= {signal.SIGALRM: out_of_time, signal.SIGCONT: signal.SIG_IGN}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _may_come_back() -> bool:
    """Whether this job may be put back into the queue: not on a laptop, where whoever started it tries again.

    A job that is being cancelled is left alone: requeueing would bring it back to life.
    """
    if not job_id():
        return True
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    shown = subprocess.run(["scontrol", "-o", "show", "job", job_id()], capture_output=True, text=True)
    return "JobState=RUNNING" in shown.stdout


def _come_back() -> None:
    """Put this job back into the queue; Slurm then ends it here."""
    if job_id():
        # The signal that follows is Slurm's way to say yes; waiting for it longer would only cost KillWait.
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        done = subprocess.run(["scontrol", "requeue", job_id()], capture_output=True, text=True)
        if done.returncode == 0:
            time.sleep(60)


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return (text if isinstance(error, UserError) else f"{type(error).__name__}: {text}")[:500]
