"""No silent wait: what a command shows while nothing else is shown, by a clock that the test moves."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator

import pytest

from xling.core import progress
from xling.core.output import command_result
from xling.core.progress import Progress, Watch


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    made = Clock()
    for module in (progress, command_result):
        monkeypatch.setattr(module, "time", made)
    command_result.note_shown(float("-inf"))
    progress.doing("")
    yield made
    command_result.note_shown(float("-inf"))


def lines_of(watch: Watch, clock: Clock, stream: io.StringIO, seconds: float) -> list[tuple[float, str]]:
    """Look four times a second for some seconds; return what was shown, each with its time from the start."""
    shown = []
    for _ in range(int(4 * seconds)):
        clock.now += 0.25
        before = len(stream.getvalue())
        watch.look()
        shown += [(clock.now - 1000, line) for line in stream.getvalue()[before:].splitlines()]
    return shown


def test_the_first_line_comes_within_two_seconds_and_then_one_every_five(clock: Clock) -> None:
    stream = io.StringIO()
    watch = Watch("xling vocab", stream)
    progress.doing("learning 8,000 pieces from 2,000 lines")
    assert lines_of(watch, clock, stream, 12) == [
        (1.0, "xling vocab: learning 8,000 pieces from 2,000 lines, 1 s"),
        (6.0, "xling vocab: learning 8,000 pieces from 2,000 lines, 6 s"),
        (11.0, "xling vocab: learning 8,000 pieces from 2,000 lines, 11 s"),
    ]


def test_after_ten_minutes_a_line_a_minute(clock: Clock) -> None:
    stream = io.StringIO()
    watch = Watch("xling vocab", stream)
    times = [when for when, _ in lines_of(watch, clock, stream, 1000)]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert times[0] <= 2 and max(gap for gap, when in zip(gaps, times, strict=False) if when < 590) <= 5.25
    assert min(gap for gap, when in zip(gaps, times, strict=False) if when > 610) >= 60


def test_what_is_told_ends_the_silence(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    watch = Watch("xling run", stream)
    clock.now += 1
    command_result.tell("[1/2] raw: xling toyworld")
    assert [when for when, _ in lines_of(watch, clock, stream, 6)] == [6.0]


def test_progress_that_stands_still_is_shown_again(clock: Clock) -> None:
    stream = io.StringIO()
    watch = Watch("xling pretrain", stream)
    with Progress("pretrain runs/a", 100, "updates", stream) as shown:
        shown.update(10, "loss 3.2")
        assert lines_of(watch, clock, stream, 7) == [
            (1.0, "pretrain runs/a: 10 of 100 updates, 10/s, 1 s, 9 s left, loss 3.2"),
            (6.0, "pretrain runs/a: 10 of 100 updates, 2/s, 6 s, 54 s left, loss 3.2"),
        ]
    assert progress.innermost() is None


def test_quiet(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, value, quiet in (("XLING_QUIET", "true", True), ("RANK", "1", True), ("RANK", "0", False)):
        monkeypatch.delenv("XLING_QUIET", raising=False)
        monkeypatch.setenv(name, value)
        assert progress.is_quiet() == quiet


def test_a_command_that_fails_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XLING_QUIET", raising=False)
    watch = Watch("xling vocab", io.StringIO())
    with pytest.raises(ValueError, match="x"), watch:
        raise ValueError("x")
    assert not watch._thread.is_alive()
