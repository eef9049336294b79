"""Steps of a pipeline at the same time: order, failures, signals."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from xling.core import signals
from xling.core.commands import parallel_steps
from xling.core.commands.parallel_steps import run_steps
from xling.core.commands.pipeline import Pipeline, Step, read
from xling.core.errors import UserError


def until(there: Callable[[], bool], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while not there() and time.monotonic() < end:
        time.sleep(0.02)
    return there()


def play(stage: str, cfg: Any, num_workers: int) -> str:
    """A stage: ``cfg`` is (name, folder, what to do)."""
    name, folder, what = cfg
    note = folder / f"{name}.starting"
    note.write_text(f"{os.getpid()} {os.environ.get('OMP_NUM_THREADS')}")
    note.replace(folder / f"{name}.started")  # whoever sees the file can read all of it
    if what.startswith("meet "):
        assert until((folder / f"{what[5:]}.started").exists), f"{name} ran alone"
    if what == "fail":
        raise UserError("broken on purpose")
    if what == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "long":
        with signals.stoppable(), signals.resumable():
            if until(lambda: bool(signals.stop_requested())):
                (folder / f"{name}.saved").touch()
                raise signals.Stopped
    (folder / f"{name}.ended").touch()
    return f"{name} {num_workers}"


@pytest.fixture(autouse=True)
def _play(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_steps, "run_local", play)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


def plan(**after: str) -> Pipeline:
    return Pipeline({name: Step("vocab", {}, tuple(needs.split())) for name, needs in after.items()})


def configs(folder: Path, **what: str) -> dict[str, Any]:
    return {name: (name, folder, each) for name, each in what.items()}


def test_steps_that_need_nothing_of_each_other_run_together(tmp_path: Path) -> None:
    steps = plan(first="", second="", last="first second")
    given = configs(tmp_path, first="meet second", second="meet first", last="")
    ended = list(run_steps(steps, given, 2, 3))
    assert sorted(ended) == [("first", "first 3"), ("last", "last 3"), ("second", "second 3")]
    assert ended[-1][0] == "last"
    pids = {(tmp_path / f"{name}.started").read_text().split()[0] for name in given}
    assert len(pids) == 3 and str(os.getpid()) not in pids


def test_the_cores_are_shared_and_the_environment_stays(tmp_path: Path) -> None:
    list(run_steps(plan(one=""), configs(tmp_path, one=""), 2))
    assert (tmp_path / "one.started").read_text().split()[1] == str(max(1, len(os.sched_getaffinity(0)) // 2))
    assert "OMP_NUM_THREADS" not in os.environ


def test_a_step_waits_for_the_ones_it_needs(tmp_path: Path) -> None:
    seen = []
    steps = plan(a="", b="a", c="b", d="a")
    for name, _ in run_steps(steps, configs(tmp_path, a="", b="", c="", d=""), 4):
        seen.append(name)
        assert name != "a" or not (tmp_path / "b.started").exists()
    assert seen.index("a") == 0 and seen.index("b") < seen.index("c")


def test_the_longest_chain_starts_first(tmp_path: Path) -> None:
    steps = plan(short="", middle="", long="", then="middle", next="long", last="next")
    given = configs(tmp_path, short="", middle="meet long", long="meet middle", then="", next="", last="")
    seen = []
    for name, _ in run_steps(steps, given, 2):
        seen.append(name)
        if len(seen) == 1:
            assert not (tmp_path / "short.started").exists()
    assert sorted(seen) == sorted(given)


def test_one_at_a_time_runs_here_in_order(tmp_path: Path) -> None:
    ended = [name for name, _ in run_steps(plan(a="", b=""), configs(tmp_path, a="", b=""), 1)]
    assert ended == ["a", "b"]
    assert (tmp_path / "b.started").read_text().split()[0] == str(os.getpid())


def test_after_a_failure_nothing_starts_and_what_runs_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tell(text: str) -> None:
        if "bad failed" in text:  # only now the slow one ends
            (tmp_path / "failure.started").touch()

    monkeypatch.setattr(parallel_steps, "tell", tell)
    steps = plan(bad="", slow="", later="slow", other="")
    given = configs(tmp_path, bad="fail", slow="meet failure", later="", other="")
    with pytest.raises(UserError, match="broken on purpose"):
        list(run_steps(steps, given, 2))
    assert (tmp_path / "slow.ended").exists() and not (tmp_path / "later.started").exists()


def test_a_killed_step_is_an_error_with_a_way_on(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"killed.*steps_at_once=1"):
        list(run_steps(plan(bad=""), configs(tmp_path, bad="killed"), 2))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_to_the_command_reaches_the_steps(tmp_path: Path, number: signal.Signals) -> None:
    code = (
        "from pathlib import Path; import tests.core.commands.test_parallel_steps as t;"
        f"t.parallel_steps.run_local = t.play; folder = Path({str(tmp_path)!r});"
        "list(t.run_steps(t.plan(a='', b=''), t.configs(folder, a='long', b='long'), 2))"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[3]) as command:
        assert until(lambda: len(list(tmp_path.glob("*.started"))) == 2)
        steps = [int(path.read_text().split()[0]) for path in tmp_path.glob("*.started")]
        time.sleep(0.2)
        command.send_signal(number)
        assert command.wait(20) != 0
    assert until(lambda: not any(is_running(pid) for pid in steps))
    assert len(list(tmp_path.glob("*.saved"))) == 2 and not list(tmp_path.glob("*.ended"))


def is_running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_the_file_and_the_command_line_say_how_many(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("steps_at_once: 3\nsteps: {raw: {stage: toyworld}}\n")
    assert read(path).steps_at_once == 3
    assert read(path, ["steps_at_once=2"]).steps_at_once == 2
    for wrong in ("0", "-1", "two"):
        with pytest.raises(UserError, match="steps_at_once"):
            read(path, [f"steps_at_once={wrong}"])
    path.write_text("steps_at_once: 0\nsteps: {raw: {stage: toyworld}}\n")
    with pytest.raises(UserError, match="steps_at_once"):
        read(path)
