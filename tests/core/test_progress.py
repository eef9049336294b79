"""A bar on a terminal; in a log a line every 5 seconds, later one a minute."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import re
import termios

import pytest

from xling.core import progress
from xling.core.progress import Progress


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def test_a_log_gets_a_line_every_five_seconds(clock: Clock) -> None:
    stream = io.StringIO()
    with Progress("binarize sw", 200, "docs", stream) as shown:
        for second in range(15):
            clock.now = 1000.0 + second
            shown.update(10, note=f"loss {second}")
        clock.now = 1016.0
    assert stream.getvalue().splitlines() == [
        "binarize sw: 60 of 200 docs, 12/s, 5 s, 12 s left, loss 5",
        "binarize sw: 110 of 200 docs, 11/s, 10 s, 8 s left, loss 10",
        "binarize sw: 150 of 200 docs, 9/s, 16 s, 5 s left",
    ]


def test_a_long_log_gets_one_line_a_minute(clock: Clock) -> None:
    stream = io.StringIO()
    with Progress("binarize sw", 2000, "docs", stream) as shown:
        for second in range(600, 800):
            clock.now = 1000.0 + second
            shown.update(1)
    assert [line.split(",")[3] for line in stream.getvalue().splitlines()] == [
        " 600 s",
        " 660 s",
        " 720 s",
        " 780 s",
        " 799 s",
    ]


def test_the_end_is_told_once(clock: Clock) -> None:
    stream = io.StringIO()
    with Progress("pretrain", 10, "updates", stream) as shown:
        clock.now += 100
        shown.update(10, note="loss 1.2")
        clock.now += 1
    assert stream.getvalue() == "pretrain: 10 of 10 updates, 0.1/s, 100 s, 0 s left, loss 1.2\n"


def test_a_log_without_a_total_and_without_work(clock: Clock) -> None:
    stream = io.StringIO()
    with Progress("read", stream=stream):
        clock.now += 2
    assert stream.getvalue() == "read: 0 it, 0/s, 2 s\n"


def test_a_failed_piece_of_work_does_not_say_it_is_done(clock: Clock) -> None:
    stream = io.StringIO()

    def fail() -> None:
        with Progress("read", 10, stream=stream) as shown:
            shown.update(3)
            raise RuntimeError("disk")

    with pytest.raises(RuntimeError, match="disk"):
        fail()
    assert stream.getvalue() == ""


def drained(leader: int) -> str:
    """What was written to a terminal whose other end is closed; a read returns only a part of it."""
    parts = []
    with contextlib.suppress(OSError):  # the end
        while part := os.read(leader, 1 << 16):
            parts.append(part)
    os.close(leader)
    return b"".join(parts).decode()


def test_a_terminal_gets_a_bar() -> None:
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w", encoding="utf-8") as stream:
        assert stream.isatty()
        with Progress("binarize sw", 200, "docs", stream) as shown:
            for _ in range(2):
                shown.update(50, note="loss 3.21")
            shown._bar.refresh()  # type: ignore[union-attr]
    text = drained(leader)
    bars = text.rstrip().split("\r")
    assert any(re.search(r"binarize sw:\s+50%\|.*100/200.*loss 3\.21", bar) for bar in bars), text
    # The bar is wiped, and one plain line stays behind.
    assert bars[-2].strip() == ""
    assert re.fullmatch(r"binarize sw: 100 of 200 docs, [\d,]+/s, 0 s, 0 s left", bars[-1]), text


def test_a_line_does_not_break_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (24, 80))
    with os.fdopen(follower, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(progress.sys, "stderr", stream)
        with Progress("train", 200, "updates") as shown:
            shown.update(50)
            shown._bar.refresh()  # type: ignore[union-attr]
            progress.print_above_bar("175 updates left, about 2 min")
            shown.update(50)
    pieces = [piece.strip() for piece in re.split(r"[\r\n]+", drained(leader))]
    assert "175 updates left, about 2 min" in pieces, pieces


def test_the_bar_has_rate_and_time_left() -> None:
    leader, follower = pty.openpty()
    with (
        os.fdopen(follower, "w", encoding="utf-8") as stream,
        Progress("train", 200, "updates", stream) as shown,
    ):
        shown.update(50)
        shown._bar.start_t -= 10.0  # type: ignore[union-attr]
        shown._bar.refresh()  # type: ignore[union-attr]
    bars = drained(leader).split("\r")
    assert any(re.search(r"train:\s+25%.*\[00:1\d<00:3\d, +[\d.]+ updates/s", bar) for bar in bars), bars


def test_a_line_between_two_notes_has_the_last_one(clock: Clock) -> None:
    stream = io.StringIO()
    with Progress("pretrain", 100, "updates", stream) as shown:
        for second in range(12):
            clock.now = 1000.0 + second
            shown.update(1, note="loss 3.2" if second == 1 else "")
    first, *_ = stream.getvalue().splitlines()
    assert first == "pretrain: 6 of 100 updates, 1/s, 5 s, 78 s left, loss 3.2"
