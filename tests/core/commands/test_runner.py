"""Phases and parts, here and in a pool of processes."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from xling.core.commands import runner
from xling.core.commands.runner import STAGES, Phase, Stage, phases_of, run_local
from xling.core.errors import UserError

# A stage of its own module: a pool worker finds it by unpickling the configuration, which imports the module.
_MODULE = '''
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from xling.core.errors import UserError
from xling.core.commands.runner import STAGES, Phase, Stage

@dataclass(frozen=True)
class Config:
    out: str
    wrong: bool = False

def phases(cfg):
    """Words are split, then counted: how many counts there are is known after the split."""
    out = Path(cfg.out)
    return (Phase("split", 3), Phase("count", len(list(out.glob("split-*")))))

def run_part(cfg, phase, index):
    out = Path(cfg.out)
    if "XLING_HANG" in os.environ:
        (out / f"pid-{os.getpid()}").touch()
        signal.pause()
    if cfg.wrong and index == 1:
        raise UserError("part 1", "parts that work")
    if phase == "split":
        for number in range(index + 1):
            (out / f"split-{index}-{number}").write_text("word " * (index + number))
    else:
        path = sorted(out.glob("split-*"))[index]
        (out / f"count-{path.name}").write_text(str(len(path.read_text().split())))
    return f"{phase} {index}", os.getpid()

if "demo parts" not in STAGES:
    STAGES.add("demo parts", Stage("demo parts", "demo_stage:Config", phases="demo_stage:phases",
                                   run_part="demo_stage:run_part", uses_cores=True))
    STAGES.add("demo simple", Stage("demo simple", "demo_stage:Config", run="demo_stage:simple"))

    STAGES.add("demo checked", Stage("demo checked", "demo_stage:Config", run="not_there:run",
                                     check="demo_stage:check"))

def simple(cfg):
    return cfg.out

def check(cfg):
    if cfg.wrong:
        raise UserError("wrong=true", "wrong=false")
'''


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "demo_stage.py").write_text(_MODULE)
    monkeypatch.syspath_prepend(tmp_path / "code")
    yield importlib.import_module("demo_stage")
    del sys.modules["demo_stage"]
    for name in ("demo parts", "demo simple", "demo checked"):
        STAGES._entries.pop(name)


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_pool_does_what_one_process_does(
    tmp_path: Path, demo: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    made, shown = {}, {}
    for workers in (1, 2):
        out = tmp_path / f"out{workers}"
        out.mkdir()
        result, pid = run_local("demo parts", demo.Config(str(out)), workers)
        made[workers] = contents(out)
        shown[workers] = [line.split(" parts,")[0] for line in capsys.readouterr().err.splitlines()]
        assert result == "count 5"  # phases are asked for again: the split made six files
        assert (pid == os.getpid()) == (workers == 1)
    assert made[1] == made[2] and len(made[1]) == 12
    assert shown[1] == shown[2] == ["demo parts: split: 3 of 3", "demo parts: count: 6 of 6"]
    assert made[1]["count-split-2-1"] == "3"


def test_unasked_a_pool_is_started_where_the_first_part_shows_long_work(
    tmp_path: Path, demo: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner.os, "sched_getaffinity", lambda _: range(2))
    made = {}
    for min_seconds in (float("inf"), -1.0):
        monkeypatch.setattr(runner, "_MIN_SECONDS", min_seconds)
        (out := tmp_path / str(min_seconds)).mkdir()
        result, pid = run_local("demo parts", demo.Config(str(out)), None)
        made[min_seconds] = contents(out)
        assert result == "count 5" and (pid == os.getpid()) == (min_seconds > 0)
    assert made[-1.0] == made[float("inf")] and len(made[-1.0]) == 12


def test_a_simple_stage_has_one_phase_of_one_part(demo: ModuleType) -> None:
    assert phases_of(STAGES["demo simple"], demo.Config("x")) == (Phase("run", 1),)
    assert run_local("demo simple", demo.Config("x"), 2) == "x"


def test_checks_come_before_the_module_of_the_stage(
    tmp_path: Path, demo: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="wrong=true"):
        run_local("demo checked", demo.Config(str(tmp_path), wrong=True))
    with pytest.raises(ModuleNotFoundError, match="not_there"):
        run_local("demo checked", demo.Config(str(tmp_path)))
    monkeypatch.setenv("XLING_ONLY_WHY", "true")  # the stage says itself whether it would run
    with pytest.raises(ModuleNotFoundError, match="not_there"):
        run_local("demo checked", demo.Config(str(tmp_path), wrong=True))


def test_a_user_error_comes_back_from_a_worker(tmp_path: Path, demo: ModuleType) -> None:
    for workers in (1, 2):
        with pytest.raises(UserError, match="part 1; valid: parts that work"):
            run_local("demo parts", demo.Config(str(tmp_path), wrong=True), workers)


def test_every_stage_says_what_it_needs() -> None:
    for name, stage in STAGES.items():
        assert name == stage.name and stage.help and ":" in stage.config
        assert bool(stage.run) != bool(stage.phases and stage.run_part), (
            f"{name}: run, or phases and run_part"
        )


def test_a_stage_registered_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="registered twice"):
        STAGES.add("vocab", Stage("vocab", "x:Y"))


def test_the_workers_of_a_killed_command_end(tmp_path: Path, demo: ModuleType) -> None:
    """They hold the pipe of their orders open to each other, so they would wait for ever."""
    words = (
        "import demo_stage; from xling.core.commands.runner import run_local;"
        f" run_local('demo parts', demo_stage.Config({str(tmp_path)!r}), 2)"
    )
    paths = f"{tmp_path / 'code'}:{':'.join(sys.path)}"
    orders = {**os.environ, "PYTHONPATH": paths, "XLING_HANG": "true"}
    with subprocess.Popen([sys.executable, "-c", words], env=orders) as process:
        wait_until(lambda: len([*tmp_path.glob("pid-*")]) == 2)
        process.kill()
    workers = [int(mark.name.partition("-")[2]) for mark in tmp_path.glob("pid-*")]
    wait_until(lambda: not any(is_running(worker) for worker in workers))


def wait_until(ready: Callable[[], bool], limit_s: float = 120) -> None:
    deadline = time.monotonic() + limit_s
    while not ready():
        assert time.monotonic() < deadline, f"not so within {limit_s} s"
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    """Whether a process has not ended; one that nobody has waited for has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
