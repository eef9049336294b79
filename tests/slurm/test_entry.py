"""What a job does when its part has ended, and what is done about jobs that Slurm put back or aside."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from slurm_stages import COUNT, CountConfig

from xling.core.settings.config import to_dict
from xling.slurm import entry, reconcile, submit
from xling.slurm.record import Run, Step, StepPlan
from xling.slurm.resources import Resources
from xling.slurm.states import JobState, QueueView


@pytest.fixture
def step(tmp_path: Path) -> Step:
    plan = StepPlan(COUNT, (to_dict(CountConfig(tmp_path / "m")),), (), Resources(), Resources())
    return Run(tmp_path / "r", "slurm", {"count": plan}).steps["count"]


@pytest.mark.parametrize(
    ("errors", "patience", "calls"),
    [
        ([reconcile.NoAnswerError("away")] * 3, 60.0, 4),
        ([reconcile.NoAnswerError("away")] * 3, 0.0, 1),
        ([reconcile.TransientError("sbatch: Socket timed out")] * 3, 60.0, 1),
        ([OSError("no space")], 60.0, 1),
    ],
)
def test_a_job_waits_for_the_controller_alone(
    step: Step, monkeypatch: pytest.MonkeyPatch, errors: list[Exception], patience: float, calls: int
) -> None:
    """A killed controller may have forgotten the collector; other troubles are the collector's."""
    called, left = [], list(errors)

    def answer(run: Run, **_: object) -> reconcile.Result:
        called.append(run.name)
        if left:
            raise left.pop()
        return reconcile.Result(inline_parts=((step.part("run", 0), "0123"),))

    monkeypatch.setattr(reconcile, "reconcile", answer)
    monkeypatch.setattr(entry, "END_PAUSE_S", 0.0)
    monkeypatch.setattr(entry, "END_PATIENCE_S", patience)
    found = entry._next_elements(step, {"indices": [0]}, entry.AvailableJob(step, 0.0))
    assert len(called) == calls
    assert [part.key for part in found] == (["0123"] if calls > len(errors) else [])


@pytest.mark.parametrize(("minutes", "here"), [(29, "count"), (31, "")])
def test_after_half_of_its_time_limit_a_job_takes_no_further_parts(
    step: Step, monkeypatch: pytest.MonkeyPatch, minutes: int, here: str
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(
        reconcile,
        "reconcile",
        lambda run, **words: (asked.append(words["ended_step"]), reconcile.Result())[1],
    )
    entry._next_elements(step, {"indices": [0]}, entry.AvailableJob(step, time.time() - 60 * minutes))
    assert asked == [here]


def test_a_job_that_starts_again_goes_on_with_the_parts_that_it_was_given(
    step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without those that have ended, or that another job got since."""
    step.run.create()
    for name, value in (("SLURM_JOB_ID", "7"), ("SLURM_JOB_NAME", "r.count.read.0")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SLURM_ARRAY_JOB_ID", raising=False)
    step.mark_accepted(step.record_intent("array", phase="read", indices=[0, 1]), ["7", "8"])
    first = step.record_intent(
        "array", inline=True, name="r.count.read.0", phase="run", indices=[0, 1, 2, 3, 4]
    )
    step.mark_accepted(first, ["7", "7", "7", "7", "8"])
    step.part("run", 1).append("done", key=first)
    step.part("run", 2).append("failed", key=first)
    step.mark_accepted(step.record_intent("array", phase="run", indices=[3]), ["9"])
    assert [(part.phase, part.index, part.key) for part in entry.parts_for_this_job(step)] == [
        ("run", 0, first)
    ]
    monkeypatch.setenv("SLURM_JOB_NAME", "of another run")
    assert not entry.parts_for_this_job(step)


@pytest.mark.parametrize(
    ("state", "reason", "ended", "wanted"),
    [
        ("PENDING", "BeginTime", True, ["cancel 7"]),  # put back by a controller that forgot its end
        ("RUNNING", "", True, []),
        ("PENDING", "launch failed requeued held", False, ["scontrol release 7"]),
        ("PENDING", "launch_failed_requeued_held", False, ["scontrol release 7"]),
        ("PENDING", "JobHeldUser", False, []),  # the user's own doing
        ("FAILED", "launch failed", True, []),
    ],
)
def test_jobs_put_back_or_aside(
    step: Step, monkeypatch: pytest.MonkeyPatch, state: str, reason: str, ended: bool, wanted: list[str]
) -> None:
    (step.path / "parts").mkdir(parents=True)
    for kind, jobs in (("barrier", ["1"]), ("array", ["7"]), ("collect", ["8"])):
        facts = {"phase": "run", "indices": [0]} if kind == "array" else {}
        step.mark_accepted(step.record_intent(kind, **facts), jobs)
    if ended:
        step.end("failed")
    names = [step.job_name(entry) for entry in step.jobs()]
    jobs = {"7": JobState(state, reason, name=names[1])}
    if not ended:
        jobs |= {"1": JobState("PENDING", "JobHeldUser", name=names[0])}
        jobs |= {"8": JobState("PENDING", "Dependency", name=names[2])}
    done: list[str] = []
    monkeypatch.setattr(submit, "run_succeeds", lambda *words: done.append(" ".join(words)))
    monkeypatch.setattr(submit, "cancel", lambda ids: done.append(" ".join(("cancel", *ids))))
    reconcile._Reconciler(step.run, QueueView(jobs=jobs), False, False).reconcile_all_steps()
    assert done == wanted
