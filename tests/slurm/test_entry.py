"""What a job does when its part has ended: it reconciles, and waits for a controller that is away."""

from __future__ import annotations

from pathlib import Path

import pytest
from slurm_stages import COUNT, CountConfig

from xling.core.config import to_dict
from xling.slurm import entry, reconcile
from xling.slurm.jobs import Resources
from xling.slurm.record import Run, Step, StepPlan


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
        return reconcile.Result(inline=((step.part("run", 0), "0123"),))

    monkeypatch.setattr(reconcile, "reconcile", answer)
    monkeypatch.setattr(entry, "END_PAUSE_S", 0.0)
    monkeypatch.setattr(entry, "END_PATIENCE_S", patience)
    found = entry._next(step, {"indices": [0]})
    assert len(called) == calls
    assert [part.key for part in found] == (["0123"] if calls > len(errors) else [])
