"""Pre-training in this process, and what came of it."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from xling.core.settings import config
from xling.training import train
from xling.training.settings import PretrainConfig
from xling.training.update import Updates

Pretrain = Callable[..., Path]

SCHEDULE = ("train.updates=24", "train.save_every=4", "train.valid_every=12", "train.lr=3e-3")


@pytest.fixture
def pretrain(shards: Path, tiny: tuple[str, ...], tmp_path: Path) -> Pretrain:
    """Pre-train in this process; returns the published directory."""

    def run(name: str, *words: str) -> Path:
        train.run(settings(shards, tiny, tmp_path / name, *words))
        return tmp_path / name

    return run


@pytest.fixture(scope="session")
def stopped_at_ten(shards: Path, tiny: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The partial directory that `interrupted` gives a copy of."""
    folder = tmp_path_factory.mktemp("interrupted")
    with pytest.MonkeyPatch.context() as patch:
        stop_after(10, patch)
        with pytest.raises(Killed):
            train.run(settings(shards, tiny, folder / "out"))
    return folder / "out.partial"


@pytest.fixture
def interrupted(stopped_at_ten: Path, tmp_path: Path) -> Path:
    """The partial directory of a run that was killed after update 10; checkpoints at 4 and 8."""
    return Path(shutil.copytree(stopped_at_ten, tmp_path / "out.partial"))


class Killed(BaseException):
    """Stands for a kill inside this process."""


def stop_after(update: int, monkeypatch: pytest.MonkeyPatch) -> None:
    make = Updates.make

    def stopping(self: Updates, samples: Any) -> bool:
        if self._trainer.get_num_updates() == update:
            raise Killed
        return make(self, samples)

    monkeypatch.setattr(Updates, "make", stopping)


def killed_near(update: int, cfg: PretrainConfig) -> None:
    """Train in a fork, which SIGKILL ends at a moment that nothing here chooses, soon after an update has begun."""

    def work() -> None:
        make = Updates.make

        def dying(self: Updates, samples: Any) -> bool:
            now = self._trainer.get_num_updates()
            if now == update:
                kill = threading.Timer(random.uniform(0, 0.05), os.kill, (os.getpid(), signal.SIGKILL))
                kill.start()
            elif now == update + 3:
                signal.pause()
            return make(self, samples)

        Updates.make = dying  # type: ignore[method-assign]
        train.run(cfg)

    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL


def settings(shards: Path, tiny: tuple[str, ...], out: Path, *words: str) -> PretrainConfig:
    # The same name in both runs: the run key of a checkpoint holds all settings.
    given = [*tiny, *SCHEDULE, f"data={shards}", f"out={out}", *words]
    return config.load(PretrainConfig, overrides=given)


def weights(directory: Path) -> dict[str, torch.Tensor]:
    made: dict[str, torch.Tensor] = torch.load(directory / "model.pt", weights_only=True)["weights"]
    return made


def identical(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[key], second[key]) for key in first)


def events(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "log.jsonl").read_text().splitlines()]
