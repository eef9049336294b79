"""Signals between a running stage and its launcher: progress (heartbeats) and requests to stop.

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

Each process of a distributed training has a heartbeat of its own. Inside `watched` it also says when the next one is
due: after the longest of the last updates and ``XLING_HANG_SLACK_S`` seconds more. A process that is late writes its
Python stack to a file beside the heartbeat, and the launcher ends it. Work without updates, for example a validation,
stands in `busy`. A launcher that calls `write_first_heartbeat` also limits the time until `watched`.
"""

import json
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from types import FrameType
from typing import Any

from xling.core import stack_dump
from xling.core.output.records import report_once, write_private

HEARTBEAT_VARIABLE = "XLING_HEARTBEAT"
SLACK_VARIABLE = "XLING_HANG_SLACK_S"
"""Environment variable: seconds by which an update may be late before it counts as a hang; 0 or unset: any time."""
SECONDS_BETWEEN_BEATS = 5.0
BUSY_LIMIT_S = 1800.0
"""Work without updates (the start, a validation, a checkpoint) counts as a hang after so many seconds."""
STARTING = "the start"
NUM_TIMED_UPDATES = 64
"""The longest of so many updates is the time that the next one may take."""
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
        rank: rank of the process that wrote it.
        node: name of the node that it runs on.
        job: job and restart that it belongs to, as `job_and_restart` returns it.
        due_s: seconds after ``time`` until the next heartbeat at the latest; 0: at any time.
        own_s: seconds of an update, without those in which the process waited for others; 0 if unknown.
        doing: work that makes no updates, for example ``validation``.
        pid: process id on its node.
    """

    done: int = 0
    total: int = 0
    unit: str = ""
    rate: float = 0.0
    tokens_per_s: float = 0.0
    saved: int = 0
    note: str = ""
    time: float = 0.0
    rank: int = 0
    node: str = ""
    job: str = ""
    due_s: float = 0.0
    own_s: float = 0.0
    doing: str = ""
    pid: int = 0

    def late_s(self, now: float) -> float:
        """Return the seconds by which the next heartbeat is late at ``now``; 0 if it is not."""
        return max(now - self.time - self.due_s, 0.0) if self.due_s else 0.0


class Stopped(BaseException):
    """Raised when a stage ended early on request; its saved work is valid. Not an error, so not an Exception."""


class BadNodeError(Exception):
    """Raised when this node cannot be used: the launcher starts the part again on another one."""


@dataclass
class _Process:
    """The state of this process, in which one stage runs at a time."""

    stop_reason: str = ""
    polls_stop: bool = False
    has_beaten: bool = False  # whether `beat` was called
    written_at: float = float("-inf")
    first_update: tuple[float, int] = (0.0, 0)
    last_heartbeat: Heartbeat = Heartbeat()
    start_limit_s: float = 0.0  # above 0 from `write_first_heartbeat` to `watched`
    slack_s: float = 0.0  # above 0 inside `watched`
    doing: str = ""  # set inside `busy`
    last_update: tuple[float, int] = (float("-inf"), 0)  # when the last update was reported, and which one
    updates_to_skip: int = 2  # updates after a start that are slow and do not count
    update_seconds: deque[float] = field(
        default_factory=lambda: deque(maxlen=NUM_TIMED_UPDATES)
    )  # seconds of the last updates
    last_wait: tuple[float, float, int] = (
        0.0,
        0.0,
        0,
    )  # time, seconds waited for others and updates at the last write


_process = _Process()


def end_with_parent() -> None:
    """End this worker, as SIGTERM does, when the process that started it is gone: a pool's workers outlive a kill."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "a process that multiprocessing started"

    def watch() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def write_first_heartbeat(limit_s: float) -> None:
    """Write the first heartbeat; this process hangs if it is silent for ``limit_s`` seconds before `watched`.

    Imports and the rendezvous fall into this time. Nothing happens for a limit of 0, or where nothing is watched.
    """
    path = os.environ.get(HEARTBEAT_VARIABLE)
    if path and limit_s and float(os.environ.get(SLACK_VARIABLE) or 0):
        _process.last_heartbeat = _own_heartbeat(Path(path))
        _process.start_limit_s, _process.doing = limit_s, STARTING
        _write_heartbeat(Path(path), time.monotonic())


def beat(
    done: int,
    total: int | None = None,
    unit: str = "",
    tokens_per_s: float | None = None,
    saved: int | None = None,
    note: str | None = None,
    waited_s: float | None = None,
) -> None:
    """Report progress; cheap enough to be called at every step.

    Never raises if the file cannot be written. The file is written every few seconds, and at once when
    ``saved`` is given or the work is complete; ``tokens_per_s``, ``saved`` and ``note`` keep their last value
    if None is given. ``waited_s`` is the total time, in seconds, that this process waited for others.
    """
    path = os.environ.get(HEARTBEAT_VARIABLE)
    if not path:
        return
    time_now, is_first = time.monotonic(), not _process.has_beaten
    if is_first:
        _process.last_heartbeat = _own_heartbeat(Path(path))
        _process.first_update, _process.has_beaten = (time_now, done), True
    _record_update_time(time_now, done)
    given: dict[str, Any] = {"tokens_per_s": tokens_per_s, "saved": saved, "note": note}
    _process.last_heartbeat = replace(
        _process.last_heartbeat, **{k: v for k, v in given.items() if v is not None}
    )
    at_once = is_first or saved is not None or done == total or _pace_became_known()
    if not at_once and time_now - _process.written_at < SECONDS_BETWEEN_BEATS:
        return
    elapsed_s, first_done = time_now - _process.first_update[0], _process.first_update[1]
    rate = round((done - first_done) / elapsed_s, 3) if elapsed_s > 0 and done > first_done else 0.0
    if waited_s is not None:
        _process.last_heartbeat = replace(
            _process.last_heartbeat, own_s=_seconds_without_waiting(time_now, waited_s, done)
        )
    _process.last_heartbeat = replace(
        _process.last_heartbeat, done=done, total=total or 0, unit=unit, rate=rate
    )
    _write_heartbeat(Path(path), time_now)


def _own_heartbeat(path: Path) -> Heartbeat:
    """Return the heartbeat of an earlier start, with the rank, node and job of this process."""
    rank = os.environ.get("RANK", "0")
    return replace(
        read_heartbeat(path) or Heartbeat(),
        rank=int(rank) if rank.isdecimal() else 0,  # the training itself refuses such a variable
        node=node_name(),
        job=job_and_restart(),
        own_s=0.0,
        pid=os.getpid(),
    )


def _record_update_time(now: float, num_done: int) -> None:
    """Measure the time of an update, except of the first ones after a start and of the first after `busy`."""
    last_time, last_done = _process.last_update
    if num_done <= last_done:
        return
    _process.last_update = (now, num_done)
    if last_time > float("-inf"):
        if _process.updates_to_skip:
            _process.updates_to_skip -= 1
        else:
            _process.update_seconds.append((now - last_time) / (num_done - last_done))


def _pace_became_known() -> bool:
    """Return whether the time of updates is known now, and was not at the last write."""
    return (
        _process.slack_s > 0
        and _process.last_heartbeat.due_s == BUSY_LIMIT_S
        and not _process.doing
        and len(_process.update_seconds) >= 2
    )


def _seconds_without_waiting(now: float, waited_s: float, num_done: int) -> float:
    """Return the seconds of an update since the last write without those spent waiting; keep the old value if none."""
    last_time, waited, last_done = _process.last_wait
    _process.last_wait = (now, waited_s, num_done)
    if not last_time or num_done <= last_done:
        return _process.last_heartbeat.own_s
    return round(max(now - last_time - (waited_s - waited), 0.0) / (num_done - last_done), 4)


def _write_heartbeat(path: Path, now: float) -> None:
    """Write the heartbeat, and arrange that this process writes its stack when the next one is late."""
    due_s = BUSY_LIMIT_S if _process.slack_s else _process.start_limit_s
    # Before two updates were timed, nothing is known about their length.
    if _process.slack_s and not _process.doing and len(_process.update_seconds) >= 2:
        due_s = SECONDS_BETWEEN_BEATS + max(_process.update_seconds) + _process.slack_s
    _process.written_at = now
    _process.last_heartbeat = replace(
        _process.last_heartbeat, time=round(time.time(), 1), due_s=round(due_s, 1), doing=_process.doing
    )
    try:
        write_private(path, json.dumps(asdict(_process.last_heartbeat)) + "\n")
    except OSError as error:  # a full disk must not stop the work: the next beat tries again
        report_once(path, f"the progress is not shown: {error.strerror}")
    stack_dump.schedule_dump(path, due_s)


@contextmanager
def watched() -> Iterator[None]:
    """Declare that the block makes updates and reports each by `beat`: one that is late counts as a hang."""
    path, slack = os.environ.get(HEARTBEAT_VARIABLE), float(os.environ.get(SLACK_VARIABLE) or 0)
    _process.start_limit_s = 0.0
    if _process.doing == STARTING:
        _process.doing = ""
    if not path or not slack:
        yield
        return
    _process.slack_s = slack
    if not _process.has_beaten:
        _process.last_heartbeat = _own_heartbeat(Path(path))
    _write_heartbeat(Path(path), time.monotonic())
    try:
        yield
    finally:
        _process.slack_s = 0.0
        _write_heartbeat(Path(path), time.monotonic())


@contextmanager
def busy(work: str, changes_pace: bool = False) -> Iterator[None]:
    """Declare that the block works without updates: only after `BUSY_LIMIT_S` does it count as a hang.

    ``changes_pace``: updates after it take another time than those before.
    """
    path = os.environ.get(HEARTBEAT_VARIABLE)
    if not path or not _process.slack_s or _process.doing:
        yield
        return
    _process.doing = work
    _write_heartbeat(Path(path), time.monotonic())
    try:
        yield
    finally:
        # The block is not part of an update.
        _process.last_update = float("-inf"), _process.last_update[1]
        _process.doing, _process.last_wait = "", (0.0, 0.0, 0)
        if changes_pace:
            _process.update_seconds.clear()
            _process.updates_to_skip = 2
        _write_heartbeat(Path(path), time.monotonic())


def node_name() -> str:
    """Return the name of this node as Slurm knows it, "" outside of Slurm."""
    return os.environ.get("SLURMD_NODENAME", "")


def job_and_restart() -> str:
    """Return the job of this process and its restart, which tell its heartbeats from those of an earlier start."""
    return f"{os.environ.get('SLURM_JOB_ID', '')}.{os.environ.get('SLURM_RESTART_COUNT', '0')}"


def read_heartbeat(path: Path) -> Heartbeat | None:
    """Read the heartbeat in a file; None if there is none yet."""
    try:
        beat = Heartbeat(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    defaults = Heartbeat()
    has_right_types = all(isinstance(v, (type(w), int) if isinstance(w, float) else type(w))
                for v, w in ((getattr(beat, f.name), getattr(defaults, f.name)) for f in fields(beat)))  # fmt: skip
    return beat if has_right_types else None


def stop_requested() -> str:
    """Return the reason why the stage should save and raise `Stopped`, or ""."""
    return _process.stop_reason


def request_stop(reason: str) -> None:
    """Ask the stage in this process to save and stop; for launchers and signal handlers."""
    _process.stop_reason = reason


def is_polling() -> bool:
    """Return whether the running stage checks `stop_requested` by itself."""
    return _process.polls_stop


@contextmanager
def resumable() -> Iterator[None]:
    """Declare that the stage polls `stop_requested` inside the block; elsewhere a request to stop ends it at once."""
    _process.polls_stop = True
    try:
        yield
    finally:
        _process.polls_stop = False


@contextmanager
def stoppable(grace_s: float = 0.0) -> Iterator[None]:
    """Treat SIGTERM and SIGUSR2 as requests to stop inside the block.

    A stage that polls may save, within ``grace_s`` seconds if given. Any other stage ends at once. Its output
    is published atomically, so it only loses time. Outside of the main thread nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def request_save(number: int, _: FrameType | None) -> None:
        if stop_requested():
            return
        request_stop(SIGNALS[signal.Signals(number)])
        if not is_polling():
            raise Stopped
        signal.setitimer(signal.ITIMER_REAL, grace_s)

    def out_of_time(_number: int, _: FrameType | None) -> None:
        raise Stopped

    handlers: dict[signal.Signals, Any] = dict.fromkeys(SIGNALS, request_save)
    handlers |= {signal.SIGALRM: out_of_time, signal.SIGCONT: signal.SIG_IGN}
    old_handlers = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in old_handlers.items():
            signal.signal(number, handler)


def reset_process_state() -> None:
    """Clear the state that an earlier stage left in this process; for launchers."""
    global _process
    _process = _Process()
