"""Entry point of Slurm jobs: ``python -m xling.slurm.entry KIND RUN STEP KEY``.

``KIND`` is ``array``, ``collect`` or ``barrier``. What the job has to do follows from the record of the run,
where the submission with this key was written down before it was made. ``cluster=local`` starts its processes by
``python -m xling.slurm.entry part RUN STEP PHASE INDEX``.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from xling.core import signals
from xling.core.errors import UserError
from xling.core.output import lease
from xling.core.output.command_result import tell
from xling.core.output.records import write_private
from xling.slurm import reconcile, submission_decisions
from xling.slurm.array_task import Element, job_id
from xling.slurm.record import Event, Step, open_run
from xling.slurm.submission_decisions import current_entries, has_ended, newest_parts
from xling.slurm.submit import TransientError

RECORD_DELAY_S = 60.0
LEASE_WAIT_S = 5.0
END_PATIENCE_S = 600.0
"""How long a job that has ended its part waits for an absent controller, which could give the node to nobody else."""
END_PAUSE_S = 1.0
MAX_LOOKERS = 200
"""In longer arrays only the element that ends a phase calls the reconciler, which limits the requests to Slurm."""


def main(words: Sequence[str]) -> int:
    """Run one job and return its exit code."""
    kind, run, step_name, key = words[:4]
    opened = open_run(Path(run))
    opened.check_owner()
    step = opened.steps[step_name]
    if kind == "part":
        return _run_element(Element(run, step_name, phase=key, index=int(words[4])))
    if kind == "barrier":
        print(f"step {step.name} of {step.run.name} has ended well", flush=True)
        return 0
    if kind == "collect":
        reconcile.reconcile_patiently(step.run)
        return 0
    # A slow shared file system may show a submission late.
    deadline = time.monotonic() + RECORD_DELAY_S
    while not (entries := [entry for entry in step.jobs() if entry["key"] == key]):
        if time.monotonic() > deadline:
            raise UserError(
                f"{step.path}/jobs.jsonl has no submission {key}",
                fix="look for a damaged line in it, then: xling slurm reconcile RUN",
            )
        time.sleep(1)
    entry = entries[0]
    indices = submission_decisions.indices_of_this_job(step, entry)
    return _run_elements(
        [Element(run, step_name, entry["phase"], index, key) for index in indices], step, entry
    )


def _run_elements(elements: Sequence[Element], step: Step, entry: Event) -> int:
    """Run parts one after the other, then those that the reconciler assigns to this job; return the exit code."""
    exit_code, available_job = 0, AvailableJob(step, time.time())
    while elements:
        for element in elements:
            if element.key != entry["key"] and available_job.is_late():
                return exit_code
            exit_code = _run_element(element) or exit_code
            if signals.stop_requested():
                return exit_code
        is_single_task = int(os.environ.get("SLURM_NTASKS", "1")) == 1
        # A container has no commands of Slurm: the collector, which runs outside, goes on.
        may_go_on = is_single_task and not exit_code and not step.plan.resources.container
        elements = _next_elements(step, entry, available_job) if may_go_on else []
    return exit_code


def _run_element(element: Element) -> int:
    """Run a part; return the exit code of its error."""
    try:
        element()
    except Exception as error:
        if not isinstance(error, UserError):
            traceback.print_exc()
        tell(f"xling: {error}")
        return error.exit_code if isinstance(error, UserError) else 1
    return 0


def _next_elements(step: Step, entry: Event, available_job: AvailableJob) -> list[Element]:
    """Return the parts that this job runs next; it calls the reconciler itself to reduce queueing.

    A controller that was killed may have lost the collector, so this job waits for one that is away.
    """
    calls_reconciler = len(entry["indices"]) <= MAX_LOOKERS or all(
        p.is_done() for p, _, _ in reversed(submission_decisions.newest_parts(step))
    )
    # First: another job may be the one that ends the phase.
    stays_available = (calls_reconciler or has_begun(step)) and available_job.announce()
    result = (
        _reconcile(step, "" if available_job.is_late() else step.name)
        if calls_reconciler
        else reconcile.Result()
    )
    if result.has_waiting_jobs:
        available_job.withdraw_all()
    folder = str(step.run.path)
    elements = [Element(folder, step.name, p.phase, p.index, key) for p, key in result.inline_parts]
    if stays_available and not elements:
        return available_job.wait()
    available_job.withdraw()
    return elements


def _reconcile(step: Step, ended_step: str) -> reconcile.Result:
    """Call the reconciler; wait while the controller is away."""
    deadline = time.monotonic() + END_PATIENCE_S
    while True:
        try:
            return reconcile.reconcile(step.run, wait_s=LEASE_WAIT_S, ended_step=ended_step)
        except (TransientError, UserError, OSError) as error:
            waits = time.monotonic() < deadline and _is_controller_away(error, step)
            tell(f"xling: {error}; {'trying again' if waits else 'the collector goes on'}")
            if not waits:
                return reconcile.Result()
            time.sleep(END_PAUSE_S)


def _is_controller_away(error: Exception, step: Step) -> bool:
    """Return whether the controller does not answer, or another job is waiting for it with the lease."""
    if isinstance(error, lease.HeldError):
        return not reconcile.view_of(step.run).answers
    return isinstance(error, reconcile.NoAnswerError)


# Jobs that stay for the next phase of their step, so that it does not wait in the queue.
#
# A job that has ended its parts, while other jobs of the phase still run, writes down until when it stays. The job that
# ends the phase calls the reconciler, which gives the parts of the next phase to all jobs that stay. A job leaves after
# ``stay_s`` seconds, when half of its time limit has passed, when a job waits for resources, or when parts got an array
# of their own.

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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
