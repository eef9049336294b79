"""The reconciler: compares the record of a run with what Slurm says, and does what is missing.

It holds no state of its own. Whoever calls it (a collector job, `xling slurm status`, a line of cron) takes the lease
of the run, reads the record, asks Slurm once, and acts: it submits what is due, writes down what was lost, ends steps,
cancels what a cancelled run left. A second call changes nothing. A submission is written down before it is made;
one whose ids are missing is looked for by its name and made again only when Slurm certainly never got it. A job that
waits or runs is never lost, and while Slurm does not answer nothing is concluded.
"""

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from xling.core.errors import UserError
from xling.core.output import lease
from xling.core.output.command_result import tell
from xling.core.output.records import DiskError
from xling.slurm import submit
from xling.slurm.array_task import job_id
from xling.slurm.record import Event, Part, Run, Step
from xling.slurm.states import NOT_THE_JOBS_FAULT, UNKNOWN, JobState, QueueView, ask_about
from xling.slurm.submission_decisions import (
    array_entry,
    current_entries,
    failed_step,
    has_done_its_parts,
    has_ended,
    has_vanished,
    job_ids_of,
    jobs_for_next_parts,
    jobs_reported,
    newest_parts,
    nodes_to_exclude,
    parts_to_submit,
    reason_of,
)
from xling.slurm.submit import TransientError

FILE_SYSTEM_DELAY_S = 30.0
UNSURE_S = 20.0
"""After so long a job that `sbatch` may have handed over is in the queue of a controller that answers."""
IN_FLIGHT_S = submit.COMMAND_TIMEOUT_S + UNSURE_S
"""The same for a submission whose submitter was killed: its `sbatch` may still be trying."""
PATIENCE_VARIABLE = "XLING_SLURM_PATIENCE_S"
PATIENCE_S = 12 * 3600.0
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 20.0
CANCEL_S = 60.0
START_PATIENCE_S = 300.0
KINDS = ("collect", "array", "barrier")
WANTS_RESOURCES = ("Resources", "Priority", "JobArrayTaskLimit")


class NoAnswerError(TransientError):
    """Raised when Slurm does not answer, or another cluster does."""


class NotSubmittedError(UserError):
    """Raised when Slurm did not answer for too long: the reconciler resumes the run later."""


def reconcile_patiently(run: Run, patience_s: float | None = None) -> None:
    """Reconcile, and retry for hours while Slurm does not answer or a submission is in flight.

    Raises:
        TransientError: it was so for longer than ``patience_s`` seconds.
    """
    if patience_s is None:
        patience_s = float(os.environ.get(PATIENCE_VARIABLE, PATIENCE_S))
    pause, deadline = SHORTEST_PAUSE_S, time.monotonic() + patience_s
    # A controller that comes back ends this job within seconds if its time limit has passed meanwhile.
    soon_over = (
        time.monotonic()
        + 60.0 * min(step.plan.collect.timeout_min for step in run.steps.values())
        - LONGEST_PAUSE_S
    )
    while True:
        try:
            if not reconcile(run, wait_s=CANCEL_S).in_flight:
                return
            last_error: Exception = TransientError("a submission is in flight")
        except (TransientError, DiskError, lease.HeldError) as error:
            last_error = error
            tell(f"xling: {run.name}: {error}; trying again")
        if time.monotonic() > deadline:
            raise TransientError(str(last_error))
        time.sleep(pause)
        pause = SHORTEST_PAUSE_S if time.monotonic() > soon_over else min(2 * pause, LONGEST_PAUSE_S)


@dataclass(frozen=True)
class Result:
    """Result of a reconciliation: whether anything is pending, and the parts that the calling job has to run.

    Attributes:
        in_flight: something is pending, and a further call is needed soon.
        inline_parts: parts that the calling job should run, with the key of their submission.
        has_waiting_jobs: a job, of anybody whom Slurm shows, waits for resources.
    """

    in_flight: bool = False
    inline_parts: tuple[tuple[Part, str], ...] = ()
    has_waiting_jobs: bool = False


def reconcile(run: Run, wait_s: float = 0.0, raise_refusals: bool = False, ended_step: str = "") -> Result:
    """Perform all actions that are due now.

    Args:
        run: of Slurm; nothing happens for others.
        ended_step: the step of which this job has just ended a part: it may take on what comes next.
        wait_s: how long to wait for another reconciler, and for records that a slow file system shows late.
        raise_refusals: raise where Slurm refuses a submission, instead of ending its step.

    Raises:
        NoAnswerError: Slurm does not answer, or this shell speaks to another cluster.
        TransientError: it did not take a submission.
        HeldError: another reconciler is at work.
    """
    if run.cluster != "slurm":
        return Result()
    run.check_owner()
    if not Path(run.directory).is_dir():
        raise UserError(
            f"{run.name} was started in {run.directory}, which is not there",
            fix="move it back, or start again",
        )
    # Jobs start where their submitter stands.
    with (
        contextlib.chdir(run.directory),
        lease.hold(run.path / "reconcile", f"reconciling {run.name}", wait_s),
    ):
        return _Reconciler(
            run, ask_slurm(run), wait_s > 0 and not ended_step, raise_refusals, ended_step
        ).reconcile_all_steps()


def ask_slurm(run: Run) -> QueueView:
    """Ask Slurm about the jobs of a run; a run without jobs asks nothing.

    Raises:
        NoAnswerError: it does not answer, or another cluster does.
    """
    if not any(step.jobs() for step in run.steps.values()):
        return QueueView()
    view = view_of(run)
    if not view.answers:
        raise NoAnswerError(f"Slurm does not answer: {view.failure}")
    return view


def view_of(run: Run) -> QueueView:
    """Ask Slurm about the jobs of a run; an answer from another cluster counts as no answer."""
    view = ask_about(job for step in run.steps.values() for entry in step.jobs() for job in entry["jobs"])
    if view.answers and run.slurm and view.cluster and view.cluster != run.slurm:
        why = (
            f"{run.name} is on cluster {run.slurm}, this shell speaks to {view.cluster}; fix: set SLURM_CONF"
        )
        return QueueView(False, why)
    return view


@dataclass
class _Reconciler:
    """One reconciliation under the lease of the run."""

    run: Run
    view: QueueView
    waits_for_records: bool
    raise_refusals: bool
    ended_step: str = ""
    in_flight: bool = False
    inline_parts: list[tuple[Part, str]] = field(default_factory=list)
    cancelled: set[str] = field(default_factory=set)  # ids cancelled in this pass: the view still shows them

    def reconcile_all_steps(self) -> Result:
        self._reconcile_steps()
        crowded = any(j.is_waiting and j.reason in WANTS_RESOURCES for j in self.view.jobs.values())
        return Result(self.in_flight, tuple(self.inline_parts), crowded)

    def _reconcile_steps(self) -> None:
        for step in self.run.steps.values():
            self._find_job_ids(step)
            self._end_vanished(step)
        if self.run.is_cancelled:
            self._cancel_all()
            return
        self._release_put_aside()
        for step in self.run.steps.values():
            if not step.outcome():
                self._ensure(step, "barrier")
        for step in self.run.steps.values():
            if step.outcome():
                self._cancel_leftover_jobs(step)
            else:
                self._continue_step(step)

    def state(self, step: Step, entry: Event, job: str) -> JobState:
        if job in self.cancelled:
            return JobState("CANCELLED")
        return self.view.state(job, step.job_name(entry))

    def _active_jobs(self, step: Step, kind: str) -> list[str]:
        """Return the ids of waiting or running jobs of one kind, without this job."""
        jobs = [
            (e, i) for e in current_entries(step) if e["kind"] == kind for i in e["jobs"] if i != job_id()
        ]
        return list(dict.fromkeys(i for e, i in jobs if self.state(step, e, i).is_active))

    def _end_vanished(self, step: Step) -> None:
        """Cancel jobs that only the controller takes for running, and record that their parts were lost."""
        jobs = {vanished: entry for entry in step.arrays() for vanished in entry["jobs"]}
        for vanished, entry in jobs.items():
            if not has_vanished(step, vanished, self.state(step, entry, vanished)):
                continue
            for part, newest_entry, job in newest_parts(step):
                if job == vanished and not part.is_done() and not has_ended(part, newest_entry["key"]):
                    reason = "its process has ended, and Slurm has not noticed"
                    fields = {"job": job, "key": newest_entry["key"], "saved": part.num_saved()}
                    part.append("lost", reason=reason, counts=False, **fields)
            submit.cancel([vanished])
            self.cancelled.add(vanished)

    def _find_job_ids(self, step: Step) -> None:
        """Find the ids of submissions whose submitter did not record them."""
        for entry in step.jobs():
            if not entry["key"] or entry["jobs"]:
                continue
            name = step.job_name(entry)
            jobs_by_name = self.view.jobs_named(name) or jobs_reported(step, entry)
            if jobs_by_name and not entry.get("void"):
                step.mark_accepted(entry["key"], job_ids_of(step, entry, jobs_by_name[0].partition("_")[0]))
            elif jobs_by_name:  # it came after all: its parts see that and do nothing
                submit.cancel([i for i in jobs_by_name if self.view.state(i, name).is_active])
            elif not entry.get("void"):
                surely_lost = time.time() - entry["time"] > (UNSURE_S if entry.get("unsure") else IN_FLIGHT_S)
                if surely_lost:
                    step.mark_void(entry["key"], "Slurm never got it")
                else:
                    self.in_flight = True

    def _is_in_flight(self, step: Step, kind: str) -> bool:
        return any(
            e["kind"] == kind and e["key"] and not e["jobs"] and not e.get("void")
            for e in current_entries(step)
        )

    def _submit(self, step: Step, kind: str, dependency: str = "", parts: Sequence[Part] = ()) -> list[str]:
        """Record the submission, make it, and record its ids."""
        fields = array_entry(parts, len(step.arrays())) if parts else {}
        exclude = nodes_to_exclude(parts)
        if exclude:
            with contextlib.suppress(UserError):
                return self._submit_once(step, kind, fields, dependency, parts, exclude)
            # Refused: without these nodes the cluster is too small.
        return self._submit_once(step, kind, fields, dependency, parts)

    def _submit_once(
        self, step: Step, kind: str, fields: Event, dependency: str, parts: Sequence[Part], exclude: Sequence[str] = ()
    ) -> list[str]:  # fmt: skip
        key = step.record_intent(kind, **fields)
        try:
            size = step.plan.resources.num_jobs(len(parts)) if parts else 1
            array_id = submit.submit(submit.jobs_of(step, kind, key, dependency, parts, exclude), size)
        except TransientError as error:
            if error.unsure:
                step.mark_unsure(key)
            else:
                step.mark_void(key, str(error))
            raise
        except UserError as error:
            step.mark_void(key, str(error))
            raise
        ids = job_ids_of(step, fields, array_id)
        step.mark_accepted(key, ids)
        return ids

    def _ensure(self, step: Step, kind: str, dependency: str = "") -> None:
        if not self._active_jobs(step, kind) and not self._is_in_flight(step, kind):
            self._submit(step, kind, dependency)

    def _continue_step(self, step: Step) -> None:
        """Perform the next action for a step that has not ended."""
        preceding_steps = [self.run.steps[name] for name in step.plan.after]
        if failed := [b for b in preceding_steps if b.outcome().get("state") not in (None, "done")]:
            self._end_step(step, "failed", f"not started: step {failed_step(failed[0])} failed")
            return
        if waiting := [b for b in preceding_steps if not b.outcome()]:
            if all(b.barrier() for b in waiting):
                self._ensure(step, "collect", "afterok:" + ":".join(b.barrier() for b in waiting))
            return
        if self._is_in_flight(step, "array"):
            return
        active_jobs = self._active_jobs(step, "array")
        if not all(has_done_its_parts(step, job) for job in reversed(active_jobs)):
            array_ids = dict.fromkeys(job.partition("_")[0] for job in active_jobs)
            self._ensure(step, "collect", "afterany:" + ":".join(array_ids))
            return
        try:
            if self._record_lost_parts(step):
                self._submit_next_parts(step)
        except (TransientError, DiskError):
            raise
        except Exception as error:
            if self.raise_refusals:
                raise
            text = " ".join(str(error).split())
            kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
            self._end_step(step, "failed", f"cannot go on: {kind}{text}")

    def _record_lost_parts(self, step: Step) -> bool:
        """Record the job's outcome for parts that ended without a record; return False if records may be late.

        A part whose job has COMPLETED has written its record; a slow shared file system may show it late.
        """
        deadline = time.monotonic() + FILE_SYSTEM_DELAY_S
        for part, entry, job in newest_parts(step):
            if part.is_done() or has_ended(part, entry["key"]):
                continue
            state = self.state(step, entry, job)
            if state.state == UNKNOWN and lease.holder_of(part.lease, str(part.events_path)):
                self.in_flight = True  # the controller lost its state, and the part runs on
                return False
            while state.state == "COMPLETED" and not part.is_done() and time.monotonic() < deadline:
                if not self.waits_for_records:
                    self.in_flight = True
                    return False
                time.sleep(1)
            if not part.is_done() and not has_ended(part, entry["key"]):
                reason = ", ".join(filter(None, [f"the job left no result: {state.state}", state.reason]))
                fields = {"job": job, "key": entry["key"], "node": state.node, "saved": part.num_saved()}
                has_started = any(event.get("key") == entry["key"] for event in part.events())
                may_wait = entry.get("inline") or step.plan.resources.tasks_per_job > 1
                is_ours = has_started or not (may_wait or state.state == UNKNOWN)
                counts = is_ours and state.state not in NOT_THE_JOBS_FAULT
                part.append("lost", reason=reason, counts=counts, **fields)
        return True

    def _submit_next_parts(self, step: Step) -> None:
        """Submit the next parts of a step without queued or running parts, or end the step."""
        parts, failed = parts_to_submit(step)
        if (
            parts
            and self.ended_step == step.name
            and (helpers := jobs_for_next_parts(step, len(parts), self.view))
        ):
            fields = array_entry(parts, len(step.arrays())) | {"name": os.environ.get("SLURM_JOB_NAME", "")}
            jobs = [helpers[position % len(helpers)] for position in range(len(parts))]
            key = step.record_intent("array", inline=True, **fields)
            step.mark_accepted(key, jobs)
            self.inline_parts = [
                (part, key) for part, job in zip(parts, jobs, strict=True) if job == job_id()
            ]
            masters_of = dict.fromkeys(job.partition("_")[0] for job in jobs)
            self._ensure(step, "collect", "afterany:" + ":".join(masters_of))
        elif parts:
            array_ids: list[str] = []
            resources = step.plan.resources
            for start in range(0, len(parts), size := resources.max_array_size * resources.tasks_per_job):
                chunk = parts[start : start + size]
                ids = self._submit(step, "array", f"afterany:{array_ids[-1]}" if array_ids else "", chunk)
                array_ids.append(ids[0].partition("_")[0])
            self._ensure(step, "collect", "afterany:" + array_ids[-1])
        elif failed:
            reasons = "; ".join(f"{p}: {reason_of(p)}" for p in failed[:20])
            self._end_step(step, "failed", f"{len(failed)} part(s) failed: {reasons}")
        else:
            self._release_barrier(step)  # before the outcome: whoever finds none does both again
            self._end_step(step, "done")

    def _release_put_aside(self) -> None:
        """Release jobs that Slurm holds because a node could not start them."""
        for step in self.run.steps.values():
            for job in (i for kind in ("array", "collect") for i in self._active_jobs(step, kind)):
                if self.view.jobs[job].is_put_aside:
                    submit.run_succeeds("scontrol", "release", job)

    def _release_barrier(self, step: Step) -> None:
        for job in self._active_jobs(step, "barrier")[-1:]:
            job_state = self.view.jobs.get(job)
            held = job_state is None or job_state.reason.startswith("JobHeld") or job_state.is_put_aside
            if job not in self.cancelled and held:
                submit.run_command("scontrol", "release", job)
                self.cancelled.add(job)

    def _end_step(self, step: Step, state: str, reason: str = "") -> None:
        step.end(state, reason)
        step.release_leases()
        self._cancel_leftover_jobs(step)

    def _cancel_leftover_jobs(self, step: Step) -> None:
        barriers = self._active_jobs(step, "barrier")
        if step.outcome()["state"] == "done":
            self._release_barrier(step)  # again, where the controller has forgotten it
            barriers = barriers[:-1]
        remaining_jobs = [*barriers, *self._active_jobs(step, "collect")]
        # A controller that was killed puts jobs back into the queue whose part has ended.
        remaining_jobs += [i for i in self._active_jobs(step, "array") if self.view.jobs[i].is_waiting]
        if remaining_jobs:
            submit.cancel(remaining_jobs)
            self.cancelled |= set(remaining_jobs)

    def _cancel_all(self) -> None:
        remaining_jobs = [i for s in self.run.steps.values() for k in KINDS for i in self._active_jobs(s, k)]
        submit.cancel(remaining_jobs)
        for step in self.run.steps.values():
            if not step.outcome() and not remaining_jobs and not self.in_flight:
                step.end("cancelled", "by the user")
                step.release_leases()
        self.in_flight |= bool(remaining_jobs)


def submit_first_jobs(run: Run) -> None:
    """Submit the first jobs of a new or resumed run, waiting for a short absence of Slurm.

    Raises:
        UserError: Slurm refused, or did not answer for longer than that.
    """
    pause, deadline = 0.5, time.monotonic() + float(os.environ.get(PATIENCE_VARIABLE, START_PATIENCE_S))
    while True:
        try:
            if not reconcile(run, wait_s=CANCEL_S, raise_refusals=True).in_flight:
                return
            problem = "a submission is in flight"
        except TransientError as error:
            problem = str(error)
        if time.monotonic() > deadline:
            raise NotSubmittedError(
                f"{run.name} is not completely submitted: {problem}",
                fix=f"later: xling slurm reconcile {run.name}",
            )
        tell(f"xling: {problem}; trying again")
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_S)


def cancel_run(run: Run) -> tuple[list[str], str]:
    """Cancel a run: submit nothing more and cancel its queued jobs.

    Returns:
        The jobs that were cancelled, and why it is not certain that all have ended, "" where it is.
    """
    (run.path / "cancelled").touch()
    if run.cluster != "slurm":
        for step in run.steps.values():
            if not step.outcome():
                step.end("cancelled", "by the user")
        return [], ""
    ended_jobs: list[str] = []
    deadline = time.monotonic() + CANCEL_S
    while True:
        try:
            preceding_steps = active_jobs(run, ask_slurm(run))
            ended_jobs += [job for job in preceding_steps if job not in ended_jobs]
            if not reconcile(run, wait_s=max(1.0, deadline - time.monotonic())).in_flight:
                return ended_jobs, ""
            problem = f"{len(preceding_steps)} job(s) have not ended yet"
        except (TransientError, lease.HeldError, DiskError) as error:
            problem = str(error)
            if isinstance(error, NoAnswerError):
                return ended_jobs, problem
        if time.monotonic() > deadline:
            return ended_jobs, problem
        time.sleep(0.5)


def active_jobs(run: Run, view: QueueView) -> list[str]:
    """Return the waiting or running jobs of a run."""
    active = [
        job
        for step in run.steps.values()
        for entry in step.jobs()
        for job in entry["jobs"]
        if view.state(job, step.job_name(entry)).is_active
    ]
    return list(dict.fromkeys(active))
