"""Heartbeats that say when the next one is due, and the stacks of processes that are late."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from xling.core import signals, stack_dump


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A heartbeat file of a launcher that watches."""
    monkeypatch.setenv(signals.HEARTBEAT_VARIABLE, str(tmp_path / "beat.json"))
    monkeypatch.setenv(signals.SLACK_VARIABLE, "7")
    signals.reset_process_state()
    yield tmp_path / "beat.json"
    signals.reset_process_state()
    stack_dump.schedule_dump(tmp_path / "beat.json", 0)


def shown(path: Path) -> signals.Heartbeat:
    beat = signals.read_heartbeat(path)
    assert beat is not None
    return beat


class Clock:
    """Stands for the time module in the heartbeat."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now

    time = monotonic


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(signals, "time", made)
    return made


def beats(clock: Clock, first: int, *seconds: float) -> None:
    for number, each in enumerate(seconds, first):
        clock.now += each
        signals.beat(number, 1000, "updates")


def test_the_next_heartbeat_is_due_after_the_longest_update_and_the_slack(path: Path, clock: Clock) -> None:
    with signals.watched():
        assert shown(path).due_s == signals.BUSY_LIMIT_S  # nothing is known before updates were timed
        beats(clock, 1, 0, 300, 300)  # the first ones compile
        assert shown(path).due_s == signals.BUSY_LIMIT_S
        beats(clock, 4, 6, 8, 6)
        assert shown(path).due_s == signals.SECONDS_BETWEEN_BEATS + 8 + 7
        beats(clock, 7, *[6] * signals.NUM_TIMED_UPDATES)
        assert shown(path).due_s == signals.SECONDS_BETWEEN_BEATS + 6 + 7
        assert shown(path).late_s(clock.now + 18) == 0
        assert shown(path).late_s(clock.now + 20) == 2
    assert shown(path).due_s == 0
    assert shown(path).late_s(clock.now + 1e6) == 0


def test_the_start_has_a_limit_of_its_own(path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    signals.write_first_heartbeat(90)
    assert (shown(path).due_s, shown(path).doing) == (90, "the start")
    clock.now += 80
    signals.beat(1000, 4000, "rows")  # it reads its data
    assert (shown(path).due_s, shown(path).late_s(clock.now + 89)) == (90, 0)
    with signals.watched():
        assert (shown(path).due_s, shown(path).doing) == (signals.BUSY_LIMIT_S, "")
    assert shown(path).due_s == 0
    signals.reset_process_state()
    for limit, slack in ((0, "7"), (90, "0")):
        path.unlink(missing_ok=True)
        monkeypatch.setenv(signals.SLACK_VARIABLE, slack)
        signals.write_first_heartbeat(limit)
        assert not path.exists()


def test_a_limit_is_written_as_soon_as_the_pace_is_known(path: Path, clock: Clock) -> None:
    with signals.watched():
        beats(clock, 1, 0, 0.1, 0.1, 0.1)
        assert shown(path).due_s == signals.BUSY_LIMIT_S
        beats(clock, 5, 0.1)
        assert (shown(path).due_s, shown(path).done) == (signals.SECONDS_BETWEEN_BEATS + 0.1 + 7, 5)
        beats(clock, 6, 0.1)
        assert shown(path).done == 5


def test_work_without_updates_has_its_own_limit(path: Path, clock: Clock) -> None:
    with signals.watched():
        beats(clock, 1, 0, 6, 6, 6, 6)
        with signals.busy("validation"):
            assert (shown(path).doing, shown(path).due_s) == ("validation", signals.BUSY_LIMIT_S)
            clock.now += 500
            signals.beat(5, 1000, "updates", saved=5)  # a checkpoint within it
            with signals.busy("checkpoint"):
                assert shown(path).doing == "validation"
            assert (shown(path).doing, shown(path).due_s, shown(path).saved) == (
                "validation",
                signals.BUSY_LIMIT_S,
                5,
            )
        beats(clock, 6, 6, 6)
        assert (shown(path).doing, shown(path).due_s) == ("", signals.SECONDS_BETWEEN_BEATS + 6 + 7)
        with signals.busy("next phase", changes_pace=True):
            pass
        assert shown(path).due_s == signals.BUSY_LIMIT_S


def test_seconds_of_its_own_leave_out_the_waiting(path: Path, clock: Clock) -> None:
    for number in range(1, 6):
        clock.now += 10
        signals.beat(number, 100, "updates", waited_s=number * 4.0)
    assert shown(path).own_s == 6


def test_without_a_launcher_that_watches_nothing_is_due(
    path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(signals.SLACK_VARIABLE, "0")
    with signals.watched(), signals.busy("validation"):
        beats(clock, 1, 0, 6, 6, 6, 6)
        assert (shown(path).due_s, shown(path).doing) == (0, "")
    assert not stack_dump.stack_path(path).exists()


HANGS = """
import sys, threading, time
from pathlib import Path
from xling.core import stack_dump as stacks

def stuck_here(path):
    stacks.schedule_dump(path, 60)
    stacks.schedule_dump(path, 0.3)  # each heartbeat begins the time again
    print(flush=True)
    time.sleep(30)

threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
stuck_here(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("stopped", [False, True])
def test_a_late_process_writes_the_stack_of_its_main_thread(tmp_path: Path, stopped: bool) -> None:
    """A stopped one as soon as it is continued."""
    path = tmp_path / "beat.json"
    child = subprocess.Popen([sys.executable, "-c", HANGS, str(path)], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None and child.stdout.readline()
        if stopped:
            child.send_signal(signal.SIGSTOP)
            time.sleep(0.6)
            assert stack_dump.read_frames(path) == []
            child.send_signal(signal.SIGCONT)
        deadline = time.monotonic() + 20
        # The frames are written one by one, so a read may meet a part of them.
        while len(stack_dump.read_frames(path)) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert [frame.split()[1] for frame in stack_dump.read_frames(path)] == ["stuck_here", "<module>"]
        assert os.stat(stack_dump.stack_path(path)).st_mode & 0o777 == 0o600  # noqa: PTH116
    finally:
        child.kill()
        child.communicate()


LATE_ONCE = """
import sys, time
from pathlib import Path
from xling.core import stack_dump as stacks

path = Path(sys.argv[1])
stacks.schedule_dump(path, 0.05)
deadline = time.monotonic() + 20
while len(stacks.read_frames(path)) < 1 and time.monotonic() < deadline:
    time.sleep(0.2)
time.sleep(0.2)  # the frames are written one by one
print(stacks.read_frames(path))
stacks.schedule_dump(path, 60)
print(stacks.read_frames(path))
print(stacks.read_frames(path, stacks.EARLIER_SUFFIX))
stacks.schedule_dump(path, 0)
print(stacks.read_frames(path))
"""


def test_a_delay_that_ended_leaves_no_stack(tmp_path: Path) -> None:
    """In a process of its own, since faulthandler has one timer a process and shows at most 100 threads."""
    told = subprocess.run(
        [sys.executable, "-c", LATE_ONCE, str(tmp_path / "beat.json")],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    late, armed, earlier, ended = told.stdout.splitlines()
    assert late.endswith(" <module>']"), told
    assert (armed, earlier, ended) == ("[]", late, "[]")
