"""Jobs that stay for the next phase of their step, so that it does not wait in the queue.

A job that has ended its parts, while other jobs of the phase still run, writes down until when it stays. The job that
ends the phase calls the reconciler, which gives the parts of the next phase to all jobs that stay. A job leaves after
``stay_s`` seconds, when half of its time limit has passed, when a job waits for resources, or when parts got an array
of their own.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import defaultdict

from xling.core.errors import UserError
from xling.core.output.records import write_private
from xling.slurm import reconcile
from xling.slurm.array_task import Element, job_id
from xling.slurm.record import Event, Step
from xling.slurm.submission_decisions import current_entries, has_ended, newest_parts
from xling.slurm.submit import TransientError

POLL_S = 1.0
RECONCILE_S = 15.0
"""The jobs that stay ask Slurm in turns, one of them after so many seconds, for parts that failed or were killed."""


class AvailableJob:
    """Time in which the job of this process takes further parts after its own.

    Args:
        started_at: when the job began, in seconds since the epoch.
    """

    def __init__(self, step: Step, started_at: float) -> None:
        self.step, self.stay_s = step, step.plan.resources.stay_s
        limit = step.plan.resources.timeout_min * 60.0
        self.half_time = float(os.environ.get("SLURM_JOB_END_TIME") or started_at + limit) - limit / 2
        self.stays_until, self.known_key = 0.0, ""
        self.path = step.staying_path / job_id()

    def is_late(self) -> bool:
        """Return whether half of the time limit has passed: a further part needs a job of its own."""
        return time.time() > self.half_time

    def announce(self) -> bool:
        """Record that this job can be given parts, where another phase follows; return whether it did."""
        if not self.stay_s or self.is_late() or self.step.is_sweep:
            return False
        array = _newest_array(self.step)
        if not array or self.step.phases()[-1].name == array["phase"]:
            return False
        self.stays_until, self.known_key = min(time.time() + self.stay_s, self.half_time), array["key"]
        self.path.parent.mkdir(mode=0o700, exist_ok=True)
        write_private(self.path, f'{{"until": {self.stays_until:.1f}}}\n')
        return True

    def wait(self) -> list[Element]:
        """Return the parts that were given to this job, [] when it should end."""
        next_look = self._next_reconcile()
        while self.path.exists() and time.time() < self.stays_until and not self.step.outcome():
            if parts_for_this_job(self.step):
                break
            array = _newest_array(self.step)
            if array.get("key") != self.known_key and not array.get("inline"):
                break
            if time.time() > next_look:
                self._reconcile()
                next_look = self._next_reconcile()
            time.sleep(POLL_S)
        self.withdraw()
        return parts_for_this_job(self.step)

    def withdraw(self) -> None:
        """Remove what `announce` recorded."""
        self.path.unlink(missing_ok=True)

    def withdraw_all(self) -> None:
        """Let all jobs that stay leave."""
        for job in self.step.staying():
            (self.path.parent / job).unlink(missing_ok=True)

    def _next_reconcile(self) -> float:
        return time.time() + RECONCILE_S * max(1, len(self.step.staying()))

    def _reconcile(self) -> None:
        """Call the reconciler; let all leave if a job waits for resources."""
        with contextlib.suppress(TransientError, UserError, OSError):
            if reconcile.reconcile(self.step.run, ended_step=self.step.name).has_waiting_jobs:
                self.withdraw_all()


def parts_for_this_job(step: Step) -> list[Element]:
    """Return the parts that the reconciler gave to the job of this process and that have not ended."""
    name = os.environ.get("SLURM_JOB_NAME", "")
    return [
        Element(str(step.run.path), step.name, part.phase, part.index, entry["key"])
        for part, entry, job in newest_parts(step)
        if job == job_id() and entry.get("inline") and entry.get("name") == name
        if not part.is_done() and not has_ended(part, entry["key"])
    ]


def _newest_array(step: Step) -> Event:
    """Return the newest submission of parts, {} if the user has requeued the step since."""
    return next((entry for entry in reversed(current_entries(step)) if entry["kind"] == "array"), {})


def has_begun(step: Step) -> bool:
    """Return whether each job of the newest phase runs or has run."""
    begun = defaultdict[str, bool](bool)
    for part, entry, job in newest_parts(step):
        has_event = (event.get("key") == entry["key"] for event in part.events())
        begun[job] |= bool(entry.get("inline")) or any(has_event)
    return all(begun.values())
