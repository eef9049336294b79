"""How long processes wait for each other."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.objectives.processes import in_processes
from xling.models.distributed import processes
from xling.objectives.base import XlingTask
from xling.training import train


def test_a_faster_process_counts_how_long_it_waits(
    recipe: Any, bitext: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that only steps move: a step of process 0 takes a second, one of process 1 three."""
    step, reduce = XlingTask.train_step, torch.distributed.all_reduce
    now, is_timed = [0.0], False

    def work(rank: int) -> None:
        def counted_step(self: XlingTask, *given: Any, **named: Any) -> Any:
            now[0] += 1.0 + 2.0 * rank
            return step(self, *given, **named)

        def arriving(tensor: torch.Tensor, *given: Any, **named: Any) -> Any:
            """Let every clock go on to that of the last to arrive, as a sum over all processes does."""
            if is_timed:
                latest = torch.tensor(now)
                reduce(latest, torch.distributed.ReduceOp.MAX)
                now[0] = float(latest)
            return reduce(tensor, *given, **named)

        def clock() -> float:
            nonlocal is_timed
            is_timed = not is_timed
            return now[0]

        monkeypatch.setattr(XlingTask, "train_step", counted_step)
        monkeypatch.setattr(processes, "time", SimpleNamespace(perf_counter=clock))
        monkeypatch.setattr(processes.dist, "all_reduce", arriving)
        train.run(recipe(bitext, "mmlm", tmp_path / "out", "train.updates=2", "train.valid_every=2"))
        (tmp_path / str(rank)).write_text(str(processes.waited_s()))

    in_processes(2, work)
    assert [(tmp_path / str(rank)).read_text() for rank in (0, 1)] == ["4.0", "0.0"]
