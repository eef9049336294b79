"""A training whose number of processes changes ten times: the same batches in the same order, the same weights."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.objectives.test_processes import in_processes
from tests.training.conftest import settings, weights
from xling.core import signals
from xling.training import train
from xling.training.update import Updates

GROUP, UPDATES, RESIZES = 4, 24, 10
WORDS = (
    f"train.updates={UPDATES}", "train.save_every=1000", f"train.valid_every={UPDATES}", "train.lr=1e-3",
    "model.dropout=0.1",
)  # fmt: skip


def train_until(cfg: Any, world: int, stop: int, told: Path) -> None:
    """Train with ``world`` processes; asked to stop after update ``stop``; each notes the rows of its batches."""

    def work(rank: int) -> None:
        make = Updates.make

        def noting(self: Updates, samples: list[Any]) -> bool:
            rows = [[int(row) for row in sample["id"]] if sample else [] for sample in samples]
            made = make(self, samples)
            done = self._trainer.get_num_updates()
            with (told / f"{world}-{rank}").open("a") as handle:
                handle.write(json.dumps([done, rows]) + "\n")
            if done == stop:
                signals.request_stop("another number of processes")
            return made

        Updates.make = noting  # type: ignore[method-assign]
        try:
            train.run(cfg)
        except signals.Stopped:
            assert stop

    in_processes(world, work)


def batches_by_update(told: Path) -> dict[int, list[list[int]]]:
    """Return the rows of the batches of each update, of all processes together."""
    found: dict[int, list[list[int]]] = {}
    for path in sorted(told.iterdir()):
        for update, batches in map(json.loads, path.read_text().splitlines()):
            found[update] = sorted([*found.get(update, []), *filter(None, batches)])
    return found


def has_gap(told: Path) -> bool:
    """Return whether a process had an empty batch behind a real one: the end of an epoch."""
    lines = [line for path in told.iterdir() for line in path.read_text().splitlines()]
    return any(batches[0] and not batches[-1] for _, batches in map(json.loads, lines))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ten_random_resizes(shards: Path, tiny: tuple[str, ...], tmp_path: Path) -> None:
    draw = random.Random(4)
    stops = sorted(draw.sample(range(2, UPDATES - 1), RESIZES))
    worlds = [2 - number % 2 for number in range(RESIZES + 1)]
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
    expected = batches_by_update(told["straight"])
    assert batches_by_update(told["resized"]) == expected and len(expected) == UPDATES
    assert has_gap(told["resized"]), "else the test leaves out what went wrong once"
    largest = max(float((resized[name] - weight).abs().max()) for name, weight in straight.items())
    print(f"{RESIZES} resizes ({worlds}): largest difference of a weight {largest:.2e}")
    assert straight.keys() == resized.keys() and largest < 2e-6
