"""Decisions from the record of a step: its newest submissions, what to submit next, what has failed for good."""

import os
import time
from collections.abc import Sequence

from xling.core import signals
from xling.core.output import lease
from xling.slurm.array_task import job_id
from xling.slurm.record import Event, Part, Step
from xling.slurm.states import JobState, QueueView

SILENT_S = 120.0
"""A job that Slurm shows as running has ended if its part began, has no lease, and left no sign for so long.

A job that asks to be requeued keeps running for up to 100 s after its part (`xling.slurm.array_task`).
"""
START_SLACK_S = 30.0
"""The clocks of the controller and of a node may differ by so much."""


def current_entries(step: Step) -> list[Event]:
    """Return the submissions since the user last requeued the step."""
    entries = step.jobs()
    last = max((n for n, entry in enumerate(entries) if entry["kind"] == "reset"), default=-1)
    return [entry for entry in entries[last + 1 :] if not entry.get("void")]


def newest_parts(step: Step) -> list[tuple[Part, Event, str]]:
    """Return the parts of the newest phase with their newest submission and job id."""
    arrays = [entry for entry in current_entries(step) if entry["kind"] == "array" and entry["jobs"]]
    parts: dict[int, tuple[Part, Event, str]] = {}
    for entry in arrays:
        if entry["phase"] == arrays[-1]["phase"]:
            for job, index in zip(entry["jobs"], entry["indices"], strict=True):
                parts[index] = (step.part(entry["phase"], index), entry, job)
    return list(parts.values())


def parts_to_submit(step: Step) -> tuple[list[Part], list[Part]]:
    """Return the parts of the first incomplete phase to submit, and those that have failed for good.

    A part that fails is tried ``max_attempts`` times in all; saving something new starts the count again.
    """
    for phase in step.phases():
        missing = [p for p in (step.part(phase.name, i) for i in range(phase.num_parts)) if not p.is_done()]
        if missing:
            failed = [p for p in missing if _is_hopeless(p, step.plan.resources.max_attempts)]
            return [p for p in missing if p not in failed], failed
    return [], []


def _is_hopeless(part: Part, max_attempts: int) -> bool:
    """Return whether a part failed for good: by a mistake of the user, or too often from the same point."""
    saved, failures = part.num_saved(), 0
    for event in reversed(part.events()):
        if event["event"] == "reset":
            break
        if event["event"] == "failed" or (event["event"] == "lost" and event.get("counts", True)):
            if event.get("final"):
                return True
            failures += event.get("saved", 0) >= saved
    return failures >= max_attempts


def nodes_to_exclude(parts: Sequence[Part]) -> list[str]:
    """Return the nodes on which one of the parts hung, since the user last requeued it."""
    nodes = set[str]()
    for part in parts:
        for event in reversed(part.events()):
            if event["event"] == "reset":
                break
            nodes.update(str(node) for node in event.get("exclude", ()))
    return sorted(nodes)


def reason_of(part: Part) -> str:
    """Return why a part has not succeeded, as far as known."""
    return next((str(e["reason"]) for e in reversed(part.events()) if e.get("reason")), "no record")


def failed_step(step: Step) -> str:
    """Return the name of the step whose failure kept a step from being started, or its own."""
    reason = str(step.outcome().get("reason", ""))
    inherited = reason.removeprefix("not started: step ").removesuffix(" failed")
    return inherited if inherited != reason else step.name


def array_entry(parts: Sequence[Part], round_number: int) -> Event:
    """Return the log entry of a submission of parts."""
    saved = {str(p.index): p.num_saved() for p in parts if p.num_saved()}
    indices = [part.index for part in parts]
    return {"phase": parts[0].phase, "indices": indices, "saved": saved, "round": round_number}


def jobs_reported(step: Step, entry: Event) -> list[str]:
    """Return the jobs that parts of a submission reported to run in."""
    if entry["kind"] != "array":
        return []
    parts = (step.part(entry["phase"], index) for index in entry["indices"])
    jobs = [str(e["job"]) for p in parts for e in p.events() if e.get("key") == entry["key"] and e.get("job")]
    return jobs[:1]


def indices_of_this_job(step: Step, entry: Event) -> list[int]:
    """Return the parts of a submission that the job of this process runs."""
    parts_per_job = step.plan.resources.tasks_per_job
    start = int(os.environ.get("SLURM_ARRAY_TASK_ID", "0")) * parts_per_job
    return list(entry["indices"][start : start + parts_per_job])


def job_ids_of(step: Step, entry: Event, array_id: str) -> list[str]:
    """Return the job of each part of a submission, or the job itself for one that is not an array."""
    indices, parts_per_job = entry.get("indices", [0]), step.plan.resources.tasks_per_job
    size = step.plan.resources.num_jobs(len(indices))
    return [
        f"{array_id}_{position // parts_per_job}" if size > 1 else array_id
        for position in range(len(indices))
    ]


def has_done_its_parts(step: Step, job: str) -> bool:
    """Return whether a job has done all that it was submitted for: it ends now, whatever Slurm says."""
    arrays = [entry for entry in current_entries(step) if entry["kind"] == "array"]
    return all(
        step.part(entry["phase"], index).is_done()
        for entry in arrays
        for job_of_part, index in zip(entry["jobs"], entry["indices"], strict=False)
        if job_of_part == job
    )


def jobs_for_next_parts(step: Step, num_parts: int, view: QueueView) -> list[str]:
    """Return the jobs that can run the next parts at once: this job and the jobs that stay.

    The list is empty unless each job gets at most ``inline_parts`` parts, or ``array_parallelism`` jobs stay.
    """
    name, resources = os.environ.get("SLURM_JOB_NAME", ""), step.plan.resources
    staying = (job for job in step.staying() if job != job_id() and has_done_its_parts(step, job))
    jobs = [job_id(), *(job for job in staying if view.state(job, name).state == "RUNNING")]
    enough = num_parts <= resources.inline_parts * len(jobs) or len(jobs) >= resources.array_parallelism > 1
    return jobs[:num_parts] if resources.inline_parts and enough else []


def has_ended(part: Part, key: str) -> bool:
    """Return whether the newest event of a part's submission is its end."""
    last = part.last_event()
    if last.get("event") not in ("failed", "lost", "stopped"):
        return False
    return not key or last.get("key") == key


def has_vanished(step: Step, job: str, state: JobState) -> bool:
    """Return whether a job has ended that Slurm shows as running.

    A controller that was killed within seconds of the end of a job has forgotten it. It learns of it when the node
    registers again, which takes 2,000 s unless the site sets another ``SlurmdTimeout``.
    """
    if state.state not in ("RUNNING", "COMPLETING") or state.ran_s < SILENT_S or job in step.staying():
        return False
    earliest_start, last_signs = time.time() - state.ran_s - START_SLACK_S, [0.0]
    for entry in step.arrays():
        for index in (i for i, owner in zip(entry["indices"], entry["jobs"], strict=False) if owner == job):
            part = step.part(entry["phase"], index)
            if lease.holder_of(part.lease):
                return False
            events = part.events()
            events_of_job = (
                e for e in events if e.get("key") == entry["key"] and e.get("time", 0.0) > earliest_start
            )
            # A job that runs again after its part is done does not start it.
            if part.is_done() or any(event["event"] == "start" for event in events_of_job):
                beat = signals.read_heartbeat(part.heartbeat_path)
                last_signs += [float(events[-1]["time"]), beat.time if beat else 0.0]
    return bool(max(last_signs)) and time.time() - max(last_signs) > SILENT_S
