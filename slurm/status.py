"""Status of a run as a table: stage, state, progress, tokens/s, time left and the reason of a failure."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median

from xling.core import signals
from xling.core.errors import UserError
from xling.core.output.command_result import Answer, tell
from xling.slurm import submission_decisions
from xling.slurm.reconcile import KINDS, view_of
from xling.slurm.record import Event, Part, Run, Step
from xling.slurm.states import NO_ANSWER, JobState, QueueView
from xling.slurm.watch import node_by_rank

SILENT_AFTER_S = 600
LATE_AFTER_S = 5.0
STARTED_AFTER_S = 90.0
"""After so many seconds of a job, `status` names the processes without an update."""
"""The clocks of nodes may differ by so much."""
SLOW_RATIO, SLOW_LEAST_S = 1.5, 0.02
"""A process is slow if its own work in an update takes so many times as long as that of others, and so much longer."""
_MAX_TROUBLES = 20


@dataclass(frozen=True)
class StepStatus:
    """One line of the table; every field as the user reads it."""

    step: str
    stage: str
    state: str
    parts: str = ""
    progress: str = ""
    tokens_per_s: str = ""
    left: str = ""
    reason: str = ""


def submitted_parts(step: Step) -> list[tuple[Part, str]]:
    """Return the parts that were submitted at least once, each with its newest job id."""
    newest: dict[tuple[str, int], str] = {}
    for entry in step.arrays():
        if entry["jobs"]:
            newest |= {(entry["phase"], i): j for j, i in zip(entry["jobs"], entry["indices"], strict=True)}
    return [(step.part(phase, index), job) for (phase, index), job in newest.items()]


def runs_table(runs: Sequence[Run]) -> Answer:
    """Return one line per run."""
    rows = [["run", "submitted", "state", "steps", "now"]]
    for run in runs:
        try:
            view = view_of(run) if run.cluster == "slurm" else QueueView()
            steps = [step_status(step, view) for step in run.steps.values()]
        except UserError as error:
            tell(f"xling: {run.name}: {error}")
            continue
        done = sum(step.state == "DONE" for step in steps)
        now = next((s for s in steps if s.state not in ("DONE", "WAITING")), steps[-1])
        text = " ".join(filter(None, [now.step, now.progress or now.parts, now.reason]))
        rows.append([run.name, time_of_day(run.created), now.state, f"{done}/{len(steps)}", text[:100]])
    return Answer(table(rows), [dict(zip(rows[0], row, strict=True)) for row in rows[1:]])


def run_status(run: Run) -> Answer:
    """Return one line per step, and below it one per part with problems."""
    view = view_of(run) if run.cluster == "slurm" else QueueView()
    statuses = [step_status(step, view) for step in run.steps.values()]
    rows = [["step", "stage", "state", "parts", "progress", "tokens/s", "left", "reason"]]
    rows += [
        [s.step, s.stage, s.state, s.parts, s.progress, s.tokens_per_s, s.left, s.reason] for s in statuses
    ]
    lines = [
        f"{run.name} on {run.cluster}, submitted {time_of_day(run.created)}, records in {run.path}",
        table(rows),
    ]
    problems = [text for step in run.steps.values() for text in _problems_of_parts(step, view)]
    if problems:
        lines += ["", "parts in trouble:", *problems[:_MAX_TROUBLES]]
    if len(problems) > _MAX_TROUBLES:
        lines.append(f"  ... and {len(problems) - _MAX_TROUBLES} more")
    facts = {"run": run.name, "cluster": run.cluster, "steps": [asdict(step) for step in statuses]}
    return Answer("\n".join(lines), facts | {"trouble": [text.strip() for text in problems]})


def step_status(step: Step, view: QueueView) -> StepStatus:
    """Return the state of one step from its record and from what Slurm says about its jobs."""
    status, outcome = partial(StepStatus, step.name, step.plan.stage.name), step.outcome()
    newest = submission_decisions.newest_parts(step)
    counted = Counter(
        _part_state(part, view.state(j, step.job_name(entry)), entry) for part, entry, j in newest
    )
    parts = ", ".join(
        [f"{counted['done']}/{len(newest)}", *(f"{n} {s}" for s, n in counted.items() if s != "done")]
    )
    parts = f"{newest[0][0].phase} {parts}".removeprefix("run ") if newest else ""
    if outcome:
        return status(outcome["state"].upper(), parts, reason=outcome["reason"])
    states = [(part, view.state(j, step.job_name(entry))) for part, entry, j in newest]
    running = [part for part, state in states if state.state in ("RUNNING", NO_ANSWER)]
    heartbeats = [heartbeat for part in running if (heartbeat := signals.read_heartbeat(part.heartbeat_path))]
    late = [text for part, state in states if part in running for text in _late_processes(part, state)]
    progress_columns = (
        _progress(heartbeats),
        "" if late else _tokens_per_s(heartbeats),
        "" if late else _time_left(heartbeats),
    )
    if step.run.cluster == "slurm" and not view.answers:
        return status(NO_ANSWER, parts, *progress_columns, f"Slurm does not answer: {view.failure}")
    if late:
        return status("HUNG", parts, *progress_columns, "; ".join(late))
    ending = _nodes_that_end(states)
    if running or (step.run.cluster != "slurm" and newest):
        # A phase in the jobs of the phase before waits for its turn there.
        starting = [
            text
            for (part, state), (_, entry, _) in zip(states, newest, strict=True)
            if not entry.get("inline")
            for text in _starting_processes(part, state)
        ]
        slow = [text for part in running for text in _slow_processes(part.heartbeats())]
        reason = "; ".join(filter(None, [_time_since_heartbeat(heartbeats), *starting, ending, *slow]))
        return status("RUNNING", parts, *progress_columns, reason)
    waiting = next((state for _, state in states if state.is_active), None)
    if waiting:
        return status(waiting.state, parts, *progress_columns, ending or waiting.reason)
    return _status_between_phases(step, view, parts)


def _status_between_phases(step: Step, view: QueueView, parts: str) -> StepStatus:
    """Return the state of a step without waiting or running parts."""
    status = partial(StepStatus, step.name, step.plan.stage.name)
    if step.run.is_cancelled:
        return status("CANCELLING", parts)
    if any(not step.run.steps[name].outcome() for name in step.plan.after):
        return status("WAITING", reason=f"after {', '.join(step.plan.after)}")
    entries = [entry for entry in submission_decisions.current_entries(step) if entry["kind"] == "collect"]
    collectors = [view.state(j, step.job_name(entry)) for entry in entries for j in entry["jobs"]]
    collector = next((state for state in reversed(collectors) if state.is_active), None)
    if collector:
        return status("COLLECTING", parts, reason=collector.reason)
    if any(not e["jobs"] for e in submission_decisions.current_entries(step) if e["kind"] in KINDS):
        return status("SUBMITTING", parts, reason="Slurm has not confirmed a submission yet")
    reason = f"nothing is queued; go on with: xling slurm reconcile {step.run.name}"
    return status("LOST", parts, reason=reason)


def _part_state(part: Part, state: JobState, entry: Event) -> str:
    if part.is_done():
        return "done"
    if state.state == "RUNNING" and part.step.plan.resources.tasks_per_job > 1:
        started_at = any(event.get("key") == entry["key"] for event in part.events())
        return "running" if started_at else "waiting"
    if state.is_active:
        return state.state.lower()
    last = str(part.last_event().get("event", "unknown"))
    return "ended" if last == "start" and state.state != NO_ANSWER else last


def _problems_of_parts(step: Step, view: QueueView) -> list[str]:
    """Return the problems of parts that are not done, except those that run again."""
    lines = []
    states = {
        str(part): view.state(j, step.job_name(entry))
        for part, entry, j in submission_decisions.newest_parts(step)
    }
    for part, job in submitted_parts(step):
        events = part.events()
        bad = [e for e in events if e["event"] in ("failed", "lost", "stopped")]
        if not bad or part.is_done() or states.get(str(part), JobState()).is_active:
            continue
        starts, reason = sum(e["event"] == "start" for e in events), bad[-1].get("reason", "")
        lines.append(f"  {part}: {bad[-1]['event']}, started {starts} times, job {job}: {reason}")
    return lines


def _progress(heartbeats: Sequence[signals.Heartbeat]) -> str:
    if not heartbeats:
        return ""
    done, total = sum(b.done for b in heartbeats), sum(b.total for b in heartbeats)
    of_total = f"/{total:,} ({100 * done / total:.0f} %)" if total else ""
    return f"{done:,}{of_total} {heartbeats[0].unit} {heartbeats[0].note if len(heartbeats) == 1 else ''}".strip()


def _tokens_per_s(heartbeats: Sequence[signals.Heartbeat]) -> str:
    speed = sum(b.tokens_per_s for b in heartbeats)
    return f"{speed:,.0f}" if speed else ""


def _time_left(heartbeats: Sequence[signals.Heartbeat]) -> str:
    seconds = [(b.total - b.done) / b.rate for b in heartbeats if b.total and b.rate]
    return duration(max(seconds)) if seconds else ""


def _late_processes(part: Part, state: JobState) -> list[str]:
    """Return which processes of a running part are late with a heartbeat, and by how much."""
    now = time.time()
    started_at = next((float(e["time"]) for e in reversed(part.events()) if e["event"] == "start"), 0.0)
    started_at = max(started_at, _earliest_start(state))
    late = [
        heartbeat
        for heartbeat in part.heartbeats()
        if heartbeat.time >= started_at and heartbeat.late_s(now) > LATE_AFTER_S
    ]
    return [
        f"rank {heartbeat.rank} on {heartbeat.node or 'this machine'} makes no progress: its heartbeat is"
        f" {duration(heartbeat.late_s(now))} late"
        for heartbeat in late
    ]


def _earliest_start(state: JobState) -> float:
    """Return a time before the start of a running job, by the clock of this machine; 0 where Slurm does not say it."""
    return time.time() - state.ran_s - submission_decisions.START_SLACK_S if state.ran_s >= 0 else 0.0


def _nodes_that_end(states: Sequence[tuple[Part, JobState]]) -> str:
    """Return the nodes that have not ended their jobs yet, "" without any: a lost one keeps its job COMPLETING."""
    nodes = sorted({state.node for _, state in states if state.state == "COMPLETING" and state.node})
    return f"waits for {', '.join(nodes)} to end the job; if this lasts, the node is lost" if nodes else ""


def _starting_processes(part: Part, state: JobState) -> list[str]:
    """Return the processes that have not started, or of a training made no update, long after their job began.

    Slurm says when the job began. So a process is named that hangs before its first line, or whose node is lost.
    Of other stages, whose processes need not report anything, the first must have noted its start.
    """
    resources = part.step.plan.resources
    if state.state != "RUNNING" or state.ran_s < STARTED_AFTER_S:
        return []
    if resources.tasks_per_job > 1 or part.is_done():  # the others wait for the one before them
        return []
    earliest = _earliest_start(state)
    beats = {beat.rank: beat for beat in part.heartbeats() if beat.time >= earliest}
    if resources.hang_start_s:
        silent = [
            r for r in range(resources.num_tasks) if r not in beats or beats[r].doing == signals.STARTING
        ]
    else:
        began = any(e["event"] == "start" and float(e["time"]) >= earliest for e in part.events())
        silent = [] if beats or began else [0]
    nodes = node_by_rank(resources, state.node) if silent else []
    return [
        f"rank {rank}{f' on {nodes[rank]}' if nodes[rank] else ''} of {resources.num_tasks}"
        f" {'has not reached its first update' if rank in beats else 'has not started'}"
        f" {duration(state.ran_s)} after its job began"
        for rank in silent
    ]


def _slow_processes(heartbeats: Sequence[signals.Heartbeat]) -> list[str]:
    """Return the processes that the others of a part wait for: their own work in an update takes longer."""
    texts = []
    timed = [heartbeat for heartbeat in heartbeats if heartbeat.own_s]
    for heartbeat in timed if len(timed) > 1 else ():
        median_of_others = median(other.own_s for other in timed if other is not heartbeat)
        if (
            heartbeat.own_s > SLOW_RATIO * median_of_others
            and heartbeat.own_s - median_of_others > SLOW_LEAST_S
        ):
            process = f"rank {heartbeat.rank} on {heartbeat.node or 'this machine'}"
            texts.append(
                f"slow: {process}, {heartbeat.own_s:.2f} s of its own an update, the others {median_of_others:.2f} s"
            )
    return texts


def _time_since_heartbeat(heartbeats: Sequence[signals.Heartbeat]) -> str:
    silent = time.time() - min((b.time for b in heartbeats), default=time.time())
    return f"no sign of life for {duration(silent)}" if silent > SILENT_AFTER_S else ""


def duration(seconds: float) -> str:
    """Format seconds: ``3661`` as ``1:01:01``."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def time_of_day(seconds: float) -> str:
    """Format local time to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def table(rows: Sequence[Sequence[str]]) -> str:
    """Format columns padded to their widest cell, without empty columns."""
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    lines = zip(*columns, strict=True)
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines
    )
