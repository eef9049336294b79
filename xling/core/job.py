"""Signals between a running stage and its launcher: progress (a heartbeat) and requests to stop.

A stage that works on a laptop works in a cluster job. Without a launcher the heartbeat is discarded and no
stop is requested. With one, the variable ``XLING_HEARTBEAT`` names a file that `beat` keeps up to date, and
`stop_requested` becomes true when the job is about to be preempted or to reach its time limit::

    with job.resumable():
        for step in range(first, total):
            ...
            job.beat(step + 1, total, "updates", tokens_per_s=...)
            if job.stop_requested():        # ranks of one training have to agree on it first
                save(step + 1)
                job.beat(step + 1, total, "updates", saved=step + 1)
                raise job.Stopped
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from types import FrameType
from typing import Any

from xling.core.manifest import write_atomic
from xling.core.records import report

VARIABLE = "XLING_HEARTBEAT"
SECONDS_BETWEEN_BEATS = 5.0
SIGNALS = {signal.SIGUSR2: "time limit or preemption (SIGUSR2)", signal.SIGTERM: "preemption (SIGTERM)"}
STOPPED_EXIT_CODE = 128 + signal.SIGTERM


@dataclass(frozen=True)
class Heartbeat:
    """Progress of a running stage, as its heartbeat file holds it.

    Attributes:
        done: units of work done.
        total: units in all, 0 when unknown.
        unit: what is counted, for example ``updates`` or ``docs``.
        rate: units per second since the stage started.
        tokens_per_s: training or encoding speed in tokens per second, 0 where it does not apply.
        saved: units that would survive a kill now, for example those in a checkpoint.
        note: a short remark, for example the loss.
        time: time of the heartbeat, seconds since the epoch.
    """

    done: int = 0
    total: int = 0
    unit: str = ""
    rate: float = 0.0
    tokens_per_s: float = 0.0
    saved: int = 0
    note: str = ""
    time: float = 0.0


class Stopped(BaseException):
    """Raised when a stage ended early on request; its saved work is valid. Not an error, so not an Exception."""


@dataclass
class _Process:
    """The state of this process, in which one stage runs at a time."""

    stop: str = ""
    polls: bool = False
    beaten: float = float("-inf")
    first: tuple[float, int] = (0.0, 0)
    last: Heartbeat = Heartbeat()


_process = _Process()


def beat(
    done: int,
    total: int | None = None,
    unit: str = "",
    tokens_per_s: float | None = None,
    saved: int | None = None,
    note: str | None = None,
) -> None:
    """Report progress; cheap enough to be called at every step.

    Never raises if the file cannot be written. The file is written every few seconds, and at once when
    ``saved`` is given or the work is complete; ``tokens_per_s``, ``saved`` and ``note`` keep their last value
    if None is given.
    """
    path = os.environ.get(VARIABLE)
    if not path:
        return
    now, first = time.monotonic(), _process.beaten == float("-inf")
    if first:
        _process.last, _process.first = read(Path(path)) or Heartbeat(), (now, done)
    told: dict[str, Any] = {"tokens_per_s": tokens_per_s, "saved": saved, "note": note}
    _process.last = replace(_process.last, **{k: v for k, v in told.items() if v is not None})
    if not first and saved is None and done != total and now - _process.beaten < SECONDS_BETWEEN_BEATS:
        return
    seconds, start = now - _process.first[0], _process.first[1]
    rate = round((done - start) / seconds, 3) if seconds > 0 and done > start else 0.0
    _process.beaten = now
    _process.last = replace(
        _process.last, done=done, total=total or 0, unit=unit, rate=rate, time=round(time.time(), 1)
    )
    try:
        write_atomic(Path(path), json.dumps(asdict(_process.last)) + "\n")
    except OSError as error:  # a full disk must not stop the work: the next beat tries again
        report(Path(path), f"the progress is not shown: {error.strerror}")


def read(path: Path) -> Heartbeat | None:
    """Read the heartbeat in a file; None if there is none yet."""
    try:
        beat = Heartbeat(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    usual = Heartbeat()
    right = all(isinstance(v, (type(w), int) if isinstance(w, float) else type(w))
                for v, w in ((getattr(beat, f.name), getattr(usual, f.name)) for f in fields(beat)))  # fmt: skip
    return beat if right else None


def stop_requested() -> str:
    """Return the reason why the stage should save and raise `Stopped`, or ""."""
    return _process.stop


def request_stop(reason: str) -> None:
    """Ask the stage in this process to save and stop; for launchers and signal handlers."""
    _process.stop = reason


def is_polling() -> bool:
    """Return whether the running stage checks `stop_requested` by itself."""
    return _process.polls


@contextmanager
def resumable() -> Iterator[None]:
    """Declare that the stage polls `stop_requested` inside the block; elsewhere a request to stop ends it at once."""
    _process.polls = True
    try:
        yield
    finally:
        _process.polls = False


@contextmanager
def stoppable(grace_s: float = 0.0) -> Iterator[None]:
    """Treat SIGTERM and SIGUSR2 as requests to stop inside the block.

    A stage that polls may save, within ``grace_s`` seconds if given. Any other stage ends at once. Its output
    is published atomically, so it only loses time. Outside of the main thread nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(number: int, _: FrameType | None) -> None:
        if stop_requested():
            return
        request_stop(SIGNALS[signal.Signals(number)])
        if not is_polling():
            raise Stopped
        signal.setitimer(signal.ITIMER_REAL, grace_s)

    def out_of_time(_number: int, _: FrameType | None) -> None:
        raise Stopped

    handlers: dict[signal.Signals, Any] = dict.fromkeys(SIGNALS, ask)
    handlers |= {signal.SIGALRM: out_of_time, signal.SIGCONT: signal.SIG_IGN}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def reset() -> None:
    """Clear the state that an earlier stage left in this process; for launchers."""
    global _process
    _process = _Process()
