"""An hour without the controller, on a clock of its own: what waits goes on soon after it is back."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from slurm_stages import COUNT, CountConfig

from xling.core.settings.config import to_dict
from xling.slurm import entry, reconcile
from xling.slurm import submit as queue
from xling.slurm.entry import AvailableJob
from xling.slurm.record import Run, Step, StepPlan
from xling.slurm.resources import Resources
from xling.slurm.states import QueueView

HOUR_S = 3600.0
ANSWER_S = 2.0
"""Time that squeue takes to say that nobody answers."""


class Clock:
    """Stands for the time module: sleeping takes no time."""

    def __init__(self) -> None:
        self.now = self.began = time.time()

    def time(self) -> float:
        return self.now

    monotonic = time

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def passed(self) -> float:
        return self.now - self.began


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (reconcile, entry):
        monkeypatch.setattr(module, "time", made)
    return made


@pytest.fixture
def step(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Step:
    """A part that has ended its work when the controller went away for an hour; `submitted` holds what came after."""
    plan = StepPlan(
        COUNT, (to_dict(CountConfig(tmp_path / "m")),), (), Resources(), Resources(timeout_min=30)
    )
    run = Run(tmp_path / "r", "slurm", {"count": plan})
    run.create()
    step = run.steps["count"]
    step.mark_accepted(step.record_intent("barrier"), ["1"])
    step.mark_accepted(step.record_intent("array", phase="run", indices=[0]), ["2"])
    step.part("run", 0).append("lost", reason="NODE_FAIL", counts=False, saved=0, key=step.arrays()[0]["key"])

    def view(run: Run) -> QueueView:
        clock.sleep(ANSWER_S)
        return (
            QueueView() if clock.passed() > HOUR_S else QueueView(False, "Unable to contact slurm controller")
        )

    monkeypatch.setattr(reconcile, "view_of", view)
    return step


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> list[float]:
    times: list[float] = []

    def submit(jobs: queue.Executor, num_elements: int = 1) -> str:
        times.append(clock.passed())
        return str(10 + len(times))

    monkeypatch.setattr(queue, "submit", submit)
    return times


def test_a_collector_waits_for_an_hour_and_goes_on_within_a_minute(
    step: Step, clock: Clock, submitted: list[float]
) -> None:
    reconcile.reconcile_patiently(step.run)
    assert min(submitted) > HOUR_S and max(submitted) < HOUR_S + 60
    assert len(step.arrays()) == 2 and not step.outcome()
    # The time limit of this job is over: Slurm ends it some seconds after it is back.
    assert max(submitted) < HOUR_S + 2 * ANSWER_S


def test_a_job_gives_its_node_back_and_leaves_the_rest_to_the_collector(
    step: Step, clock: Clock, submitted: list[float]
) -> None:
    assert entry._next_elements(step, {"indices": [0]}, AvailableJob(step, clock.began)) == []
    assert entry.END_PATIENCE_S <= clock.passed() < entry.END_PATIENCE_S + 60
    assert submitted == [] and not step.outcome()


def test_a_submission_gives_up_after_minutes_and_is_completed_later(
    step: Step, clock: Clock, submitted: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(reconcile.PATIENCE_VARIABLE, raising=False)
    with pytest.raises(
        reconcile.NotSubmittedError, match=r"r is not completely submitted: .*xling slurm reconcile r"
    ):
        reconcile.submit_first_jobs(step.run)
    assert clock.passed() < reconcile.START_PATIENCE_S + 60
    clock.now = clock.began + HOUR_S + 1
    assert not reconcile.reconcile(step.run).in_flight
    assert submitted and not step.outcome()
