"""``xling slurm``: see and steer what was submitted.

Usage::

    xling slurm status [RUN]                   every run, or the steps of one with what is wrong
    xling slurm logs RUN [STEP [INDEX]]        the end of the log of a part; the one in trouble first
    xling slurm cancel RUN                     call it off
    xling slurm requeue RUN                    go on with what failed, was cancelled or was lost
    xling slurm reconcile [RUN]                submit what is missing, for one run or all; a line for cron
    xling slurm plan STAGE|run ... [key=value] what would be submitted, node-hours, and the batch scripts

``slurm.profile=site.yaml`` names the site profile whose ``folder`` holds the runs.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from xling.core.errors import UserError, unknown
from xling.core.output.command_result import Answer
from xling.slurm import launch, reconcile, status, submit
from xling.slurm.record import open_run, runs_in
from xling.slurm.resources import read_site

NUM_LOG_LINES = 40
RECENT_S = 1800.0
"""A controller that lost its state may bring back jobs of a run that has just ended."""


def main(argv: Sequence[str]) -> Answer:
    """Run one of the subcommands above and return what to print.

    Raises:
        UserError: an unknown word, run or step.
    """
    words = [word for word in argv if not word.startswith("slurm.profile=")]
    profile = next((word.partition("=")[2] for word in argv if word.startswith("slurm.profile=")), "")
    if not words or words[0] in ("-h", "--help"):
        text = (__doc__ or "").strip()
        return Answer(text, {"help": text})
    if words[0] not in ACTIONS:
        raise unknown("word after `xling slurm`", words[0], [*ACTIONS, "plan"])
    folder = read_site(profile).folder.absolute()
    return ACTIONS[words[0]](folder, *words[1:])


def show_status(folder: Path, name: str = "", *extra_words: str) -> Answer:
    """Return every run in ``folder``, or one with its steps."""
    _check_no_extra_words("status [RUN]", extra_words)
    if name:
        run = open_run(folder / name)
        with contextlib.suppress(submit.TransientError, UserError, OSError):
            reconcile.reconcile(run)
        return status.run_status(run)
    runs = runs_in(folder)
    return status.runs_table(runs) if runs else Answer(f"no runs in {folder}", [])


def show_logs(folder: Path, name: str = "", step: str = "", index: str = "", *extra_words: str) -> Answer:
    """Return the record and the end of the log of one part."""
    _check_no_extra_words("logs RUN [STEP [INDEX]]", extra_words, name)
    run = open_run(folder / name)
    if step and step not in run.steps:
        raise unknown("step", step, run.steps)
    if index and not index.isdecimal():
        raise UserError(f"{index!r} is not the number of a part", "a whole number from 0")
    steps = [run.steps[step]] if step else list(run.steps.values())
    parts = [(s, *item) for s in steps for item in status.submitted_parts(s)]
    if index:
        parts = [item for item in parts if item[1].index == int(index)]
    if not parts:
        raise UserError(
            f"no part {index} of {name} {step} was submitted".replace("  ", " "),
            fix=f"xling slurm status {name} lists the parts",
        )
    # What is in trouble is what the user wants to see; else the newest.
    trouble = [item for item in parts if not item[1].is_done() and item[1].last_event().get("reason")]
    chosen, part, job = trouble[0] if trouble else parts[-1]
    if job == "-":  # no job of Slurm: submitit's files are named by the process
        job = next((e["job"] for e in reversed(part.events()) if e.get("job")), job)
    lines = [f"{part}, job {job}"]
    for event in part.events():
        details = ", ".join(
            f"{k} {v}" for k, v in event.items() if k not in ("event", "time") and v not in ("", None)
        )
        lines.append(
            f"  {status.time_of_day(event['time'])} {event['event']}{': ' + details if details else ''}"
        )
    logs = {}
    for path in sorted(chosen.log.glob(f"{job}_*_log.*")):
        tail = path.read_text(encoding="utf-8", errors="replace").splitlines()[-NUM_LOG_LINES:]
        logs[str(path)] = tail
        lines += ["", f"==> {path} <==", *tail]
    return Answer("\n".join(lines), {"part": str(part), "job": job, "events": part.events(), "logs": logs})


def cancel(folder: Path, name: str = "", *extra_words: str) -> Answer:
    """Cancel a run."""
    _check_no_extra_words("cancel RUN", extra_words, name)
    ended_jobs, warning = reconcile.cancel_run(open_run(folder / name))
    text = f"cancelled {name}: {len(ended_jobs)} job(s) ended; go on with: xling slurm requeue {name}"
    if warning:
        text = (
            f"{name} is not certainly cancelled: {warning}; nothing more of it is submitted; "
            f"fix: xling slurm cancel {name} again"
        )
    return Answer(
        text, {"run": name, "ended": list(ended_jobs), "doubt": warning}, exit_code=1 if warning else 0
    )


def reconcile_runs(folder: Path, name: str = "", *extra_words: str) -> Answer:
    """Reconcile one run, or all that have not ended; an unreadable or unreachable one does not stop the others."""
    _check_no_extra_words("reconcile [RUN]", extra_words)
    runs = [open_run(folder / name)] if name else runs_in(folder)
    warnings = {}
    for run in runs:
        ends = [float(step.outcome().get("time", time.time())) for step in run.steps.values()]
        if run.cluster != "slurm" or not (name or time.time() - max(ends) < RECENT_S):
            continue
        try:
            if reconcile.reconcile(run).in_flight:
                warnings[run.name] = "a submission is in flight"
        except (submit.TransientError, UserError, OSError) as error:
            warnings[run.name] = str(error)
    lines = [f"{run}: {why}" for run, why in warnings.items()]
    text = "\n".join([f"reconciled {len(runs) - len(warnings)} run(s)", *lines])
    return Answer(
        text, {"runs": [run.name for run in runs], "doubts": warnings}, exit_code=1 if warnings else 0
    )


def requeue(folder: Path, name: str = "", *extra_words: str) -> Answer:
    """Resume the steps of a run that have not succeeded; completed parts are kept.

    Raises:
        UserError: the run is still under way, or it has ended well.
    """
    _check_no_extra_words("requeue RUN", extra_words, name)
    run = open_run(folder / name)
    if not Path(run.directory).is_dir():
        raise UserError(
            f"{name} was started in {run.directory}, which is not there", fix="move it back, or start again"
        )
    steps = [step for step in run.steps.values() if step.outcome().get("state") != "done"]
    if not steps:
        raise UserError(f"{name} has ended well", fix="there is nothing to requeue")
    if run.cluster == "slurm":
        try:
            active_jobs = reconcile.active_jobs(run, reconcile.ask_slurm(run))
        except submit.TransientError as error:
            raise UserError(str(error), fix="try again when Slurm answers") from None
        if active_jobs and not all(step.outcome() for step in steps):
            raise UserError(
                f"{run.name} is under way: {len(active_jobs)} job(s) queued",
                fix=f"xling slurm cancel {run.name} first",
            )
        submit.cancel(active_jobs)
    (run.path / "cancelled").unlink(missing_ok=True)
    for step in steps:
        for part, _ in status.submitted_parts(step):
            if not part.is_done():
                part.append("reset")
        step.record_submission("reset", [])
        (step.path / "outcome.json").unlink(missing_ok=True)
    if run.cluster != "slurm":
        with contextlib.chdir(run.directory):
            return launch.run_here(run)
    for step in steps:
        step.hold_leases()
    reconcile.submit_first_jobs(run)
    names = [step.name for step in steps]
    return Answer(f"requeued {', '.join(names)} of {name}", {"run": name, "requeued": names})


ACTIONS: dict[str, Callable[..., Answer]] = {
    "status": show_status,
    "logs": show_logs,
    "cancel": cancel,
    "requeue": requeue,
    "reconcile": reconcile_runs,
}


def _check_no_extra_words(usage: str, extra_words: Sequence[str], name: str = "-") -> None:
    if extra_words or not name:
        raise UserError(
            f"xling slurm {usage.split()[0]} was given too many words or no run", f"xling slurm {usage}"
        )
