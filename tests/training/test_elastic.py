"""A training whose number of processes changes ten times: the same batches in the same order, the same weights."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.objectives.test_processes import in_processes
from tests.training.conftest import settings, weights
from xling.core import job
from xling.training import train
from xling.training.update import Updates

GROUP, UPDATES, RESIZES = 4, 66, 10
WORDS = (
    f"train.updates={UPDATES}", "train.save_every=1000", "train.valid_every=33", "train.lr=1e-3", "model.dropout=0"
)  # fmt: skip


def train_until(cfg: Any, world: int, stop: int, told: Path) -> None:
    """Train with ``world`` processes; asked to stop after update ``stop``; each notes the rows of its updates."""

    def work(rank: int) -> None:
        make = Updates.make

        def noting(self: Updates, samples: list[Any]) -> bool:
            made = make(self, samples)
            done = self._trainer.get_num_updates()
            rows = [int(row) for sample in samples if sample for row in sample["id"]]
            with (told / f"{world}-{rank}").open("a") as handle:
                handle.write(json.dumps([done, rows]) + "\n")
            if done == stop:
                job.request_stop("another number of processes")
            return made

        Updates.make = noting  # type: ignore[method-assign]
        try:
            train.run(cfg)
        except job.Stopped:
            assert stop

    in_processes(world, work)


def rows_by_update(told: Path) -> dict[int, list[int]]:
    """Return the rows of each update, of all processes together."""
    rows: dict[int, list[int]] = {}
    for path in told.iterdir():
        for line in path.read_text().splitlines():
            update, more = json.loads(line)
            rows[update] = sorted(rows.get(update, []) + more)
    return rows


@pytest.mark.slow
def test_ten_random_resizes(shards: Path, tiny: tuple[str, ...], tmp_path: Path) -> None:
    draw = random.Random(19)
    stops = sorted(draw.sample(range(2, UPDATES - 1), RESIZES))
    worlds = [draw.choice([1, 2, 4])]
    while len(worlds) <= RESIZES:
        worlds.append(draw.choice([n for n in (1, 2, 4) if n != worlds[-1]]))
    told = {name: tmp_path / f"told-{name}" for name in ("straight", "resized")}
    for folder in told.values():
        folder.mkdir()

    def cfg(accumulate: int) -> Any:
        return settings(shards, tiny, tmp_path / "out", *WORDS, f"train.accumulate={accumulate}")

    train_until(cfg(GROUP), 1, 0, told["straight"])
    straight = weights(tmp_path / "out")
    shutil.rmtree(tmp_path / "out")
    for world, stop in zip(worlds, [*stops, 0], strict=True):
        assert not (tmp_path / "out").exists()
        train_until(cfg(GROUP // world), world, stop, told["resized"])
    resized = weights(tmp_path / "out")
    expected, found = rows_by_update(told["straight"]), rows_by_update(told["resized"])
    assert found == expected and len(expected) == UPDATES
    assert straight.keys() == resized.keys()
    largest = max(float((resized[name] - weight).abs().max()) for name, weight in straight.items())
    print(f"{RESIZES} resizes ({worlds}): largest difference of a weight {largest:.2e}")
    for name, weight in straight.items():
        torch.testing.assert_close(
            resized[name], weight, rtol=0, atol=2e-5, msg=lambda m, n=name: f"{n}: {m}"
        )
