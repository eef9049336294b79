"""Jobs that have ended although the controller takes them for running: it was killed before it saved their end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest
from slurm_helpers import job_states, wait_until
from slurm_stages import COUNT, CountConfig
from test_cluster import expected_count, opened, running_count

from tests.slurm.testbed import bed
from xling.core.output import lease
from xling.core.settings.config import to_dict
from xling.slurm import reconcile, submission_decisions, submit
from xling.slurm.record import Part, Run, StepPlan
from xling.slurm.resources import Resources
from xling.slurm.states import JobState, QueueView

LONG = submission_decisions.SILENT_S + 60


@pytest.fixture
def part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Part:
    """A part in job 7, with a barrier and a collector behind it."""
    plan = StepPlan(COUNT, (to_dict(CountConfig(tmp_path / "m")),), (), Resources(), Resources())
    run = Run(tmp_path / "r", "slurm", {"count": plan})
    run.create()
    step = run.steps["count"]
    for kind, identity, facts in (
        ("barrier", "5", {}),
        ("array", "7", {"phase": "run", "indices": [0]}),
        ("collect", "8", {}),
    ):
        step.mark_accepted(step.record_intent(kind, **facts), [identity])
    return step.part("run", 0)


def note(part: Part, event: str, ago_s: float) -> None:
    """Append an event to the record as if it had been written some seconds ago."""
    facts = {"key": part.step.arrays()[-1]["key"], "time": time.time() - ago_s, "saved": 0}
    part.append(event, **facts)


def hold(part: Part, pid: int) -> None:
    """Write the lease of a process of this machine."""
    holder = lease.Holder.this_process("part")
    facts = asdict(holder) | {"pid": pid, "start": 0}
    lease.lease_path(part.lease).write_text(json.dumps(facts))


def shown(ran_s: float = 2 * LONG, state: str = "RUNNING") -> JobState:
    return JobState(state, ran_s=int(ran_s))


def test_only_a_part_that_began_and_left_no_sign_has_vanished(part: Part) -> None:
    step = part.step
    assert not submission_decisions.has_vanished(step, "7", shown()), "it may still be starting"
    note(part, "start", LONG)
    assert submission_decisions.has_vanished(step, "7", shown())
    assert submission_decisions.has_vanished(step, "7", shown(state="COMPLETING"))
    for state in ("PENDING", "SUSPENDED", "FAILED", "UNKNOWN", "NO ANSWER"):
        assert not submission_decisions.has_vanished(step, "7", shown(state=state)), state
    assert not submission_decisions.has_vanished(step, "7", shown(ran_s=20)), "it has just been started again"
    assert not submission_decisions.has_vanished(step, "7", shown(ran_s=-1)), "Slurm did not tell"
    assert not submission_decisions.has_vanished(step, "8", shown()), "not a part"
    hold(part, os.getpid())
    assert not submission_decisions.has_vanished(step, "7", shown()), "its process is alive"
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    hold(part, ended.pid)
    assert submission_decisions.has_vanished(step, "7", shown())
    note(part, "failed", 5)
    assert not submission_decisions.has_vanished(step, "7", shown()), "it is about to end"


def test_a_job_that_stays_has_not_vanished(part: Part) -> None:
    note(part, "done", LONG)
    part.step.staying_path.mkdir()
    for seconds, vanished in ((60, False), (-1, True)):
        (part.step.staying_path / "7").write_text(json.dumps({"until": time.time() + seconds}))
        assert submission_decisions.has_vanished(part.step, "7", shown()) is vanished


def test_a_start_of_an_earlier_execution_does_not_count(part: Part) -> None:
    note(part, "start", 3 * LONG)
    assert not submission_decisions.has_vanished(part.step, "7", shown(ran_s=LONG)), (
        "the same job was requeued"
    )
    assert submission_decisions.has_vanished(part.step, "7", shown(ran_s=4 * LONG))
    note(part, "done", 3 * LONG)
    assert submission_decisions.has_vanished(part.step, "7", shown(ran_s=LONG)), (
        "it has nothing to start any more"
    )


@pytest.mark.parametrize("ended", ["", "failed", "stopped", "done"])
def test_a_vanished_job_is_cancelled_and_its_part_goes_on(
    part: Part, monkeypatch: pytest.MonkeyPatch, ended: str
) -> None:
    """The part is submitted again if it is not done, and being lost this way does not count against it."""
    step, calls = part.step, list[str]()
    note(part, "start", LONG)
    if ended:
        note(part, ended, LONG - 1)
    monkeypatch.setattr(submit, "cancel", lambda ids: calls.append("cancel " + " ".join(ids)))
    monkeypatch.setattr(submit, "run_command", lambda *words: calls.append(" ".join(words)) or "")
    monkeypatch.setattr(submit, "submit", lambda jobs, size=1: calls.append("submit") or "9")
    names = {e["jobs"][0]: step.job_name(e) for e in step.jobs()}
    view = QueueView(jobs={
        "5": JobState("PENDING", "JobHeldUser", name=names["5"]),
        "7": JobState("RUNNING", name=names["7"], ran_s=int(2 * LONG)),
        "8": JobState("PENDING", "Dependency", name=names["8"]),
    })  # fmt: skip
    reconcile._Reconciler(step.run, view, False, False).reconcile_all_steps()
    assert calls[0] == "cancel 7"
    if ended == "done":
        assert calls[1:] == ["scontrol release 5", "cancel 8"] and step.outcome()["state"] == "done"
        return
    assert calls[1:] == ["submit"] and step.arrays()[-1]["jobs"] == ["9"]
    events = [(event["event"], event.get("counts")) for event in part.events()]
    assert events == [("start", None), (ended, None) if ended else ("lost", False)]


def test_a_job_that_waits_for_a_lost_one_is_submitted_later(
    part: Part, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller lost the array after it was asked, so it refuses the collector behind it: no step may end."""
    step = part.step
    fake = tmp_path / "bin" / "sbatch"
    fake.parent.mkdir()
    fake.write_text(
        "#!/bin/sh\necho 'sbatch: error: Batch job submission failed: Job dependency problem' >&2; exit 1\n"
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}{os.pathsep}{os.environ['PATH']}")
    names = {e["jobs"][0]: step.job_name(e) for e in step.jobs()}
    jobs = {
        "5": JobState("PENDING", "JobHeldUser", name=names["5"]),
        "7": JobState("RUNNING", name=names["7"]),
    }
    with pytest.raises(submit.TransientError, match="dependency problem") as failed:
        reconcile._Reconciler(step.run, QueueView(jobs=jobs), False, False).reconcile_all_steps()
    assert not failed.value.unsure
    assert step.jobs()[-1]["kind"] == "collect" and step.jobs()[-1]["void"] and not step.outcome()


@pytest.mark.slurm
@pytest.mark.timeout(180)
def test_a_controller_that_was_killed_before_it_saved_the_end_of_a_job(
    cluster: Path, on_cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, cfg = bed.opened(cluster), CountConfig(on_cluster / "m", updates=100, save_every=10, seconds=0.1)
    first = running_count("vanished", cfg)
    step = opened("vanished").steps["count"]
    # The controller saves at most every 5 s: here just before the job ends.
    saved = here.directory / "state" / "job_state"
    wait_until(saved.exists, 20, "the controller to save for the first time")
    before = saved.stat().st_mtime_ns
    subprocess.run(["sbatch", "--hold", "--output=/dev/null", "--wrap=true"], check=True)
    wait_until(lambda: saved.stat().st_mtime_ns != before, 20, "the controller to save")
    subprocess.run(["scancel", "--signal=KILL", first], check=True)
    wait_until(lambda: not job_states([first])[first].is_active, 20, "the end of the job")
    bed.signal_daemon(here, "slurmctld", signal.SIGKILL)
    bed.start_daemon(here, "slurmctld")
    wait_until(lambda: job_states([first])[first].state == "RUNNING", 60, "the job to seem to run")
    monkeypatch.setattr(submission_decisions, "SILENT_S", 8.0)

    def cron() -> bool:
        with contextlib.suppress(submit.TransientError, lease.HeldError):
            reconcile.reconcile(step.run)
        time.sleep(1)
        return bool(step.outcome())

    wait_until(cron, 90, "the end of the run")
    assert step.outcome()["state"] == "done" and len(step.arrays()) == 2
    assert (cfg.out / "result").read_text() == expected_count(cfg)
