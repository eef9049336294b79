"""The plan of a training: made once by the check of the command, and handed on."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from tests import forked
from tests.training.conftest import settings
from xling.core.commands.runner import run_local
from xling.core.output import manifest
from xling.training import checks, plan, train


@pytest.fixture
def words(shards: Path, tiny: tuple[str, ...], tmp_path: Path) -> list[str]:
    return [*tiny, f"data={shards}", f"out={tmp_path / 'out'}", "train.updates=2"]


def test_the_plan_cannot_change(shards: Path, tiny: tuple[str, ...], tmp_path: Path) -> None:
    cfg = settings(shards, tiny, tmp_path / "out", "log=tensorboard")
    made = plan.resolve(cfg)
    assert made.cfg == dataclasses.replace(cfg, log="none") and made.log == "tensorboard"
    assert made.inputs == (shards,) and made.run_key["data"] == {str(shards): manifest.content_digest(shards)}
    assert [phase.cfg for phase in made.phases] == [made.cfg] and made.finished is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.out = tmp_path  # type: ignore[misc]


def test_the_command_resolves_once(
    shards: Path, tiny: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolved = []
    resolve = plan.resolve
    for module in (checks, train):
        monkeypatch.setattr(module, "resolve", lambda cfg: resolved.append(cfg) or resolve(cfg))
    cfg = settings(shards, tiny, tmp_path / "out", "train.updates=2")
    made = run_local("pretrain", cfg)
    assert made.counts["updates"] == 2 and len(resolved) == 1
    assert run_local("pretrain", cfg) == made and len(resolved) == 2  # finished: nothing is trained


def test_the_settings_go_a_short_way(words: list[str]) -> None:
    command = ["-m", "benchmarks.reading_path", "pretrain", *words]
    done = forked.run(*command, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    stops, returns = map(int, re.findall(r"^settings: (\d+) stops, (\d+) returns", done.stdout, re.M)[0])
    assert stops <= 16 and returns <= 3, done.stdout
