"""Progress: a bar on a terminal; in a log a line every 5 seconds, and after ten minutes one a minute.

There is no silent wait: while a command runs and nothing is shown, a `Watch` says on standard error what it does. A
command that ends at once prints nothing of this. ``XLING_QUIET=true`` turns the watch off.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TextIO

from tqdm import tqdm

from xling.core import signals
from xling.core.output import command_result
from xling.core.output.command_result import note_shown, visible

SECONDS_BETWEEN_LINES, LATER_SECONDS_BETWEEN_LINES = 5.0, 60.0
LONG_S = 600.0
"""From here on somebody reads a log, and nobody waits before it."""

_open: list[Progress] = []


def seconds_between_lines(elapsed: float) -> float:
    """Return how long nothing may be shown, in seconds, ``elapsed`` seconds after the start."""
    return SECONDS_BETWEEN_LINES if elapsed < LONG_S else LATER_SECONDS_BETWEEN_LINES


def innermost() -> Progress | None:
    """Return the progress that was entered last and is not left yet."""
    return _open[-1] if _open else None


class Progress:
    """Count finished work and show it with its rate and the time left; a context manager.

    Args:
        task: what is being done, for example ``binarize sw``.
        total: how many units there are; None when unknown.
        unit: the unit, for example ``docs`` or ``tokens``.
        stream: where to show it; standard error by default.
    """

    def __init__(
        self, task: str, total: int | None = None, unit: str = "it", stream: TextIO | None = None
    ) -> None:
        self.task, self.total, self.unit, self.done = task, total, unit, 0
        self.stream = stream or sys.stderr
        self._started_at = self._printed_at = time.monotonic()
        self._printed_count, self._note = -1, ""
        self._bar = (
            tqdm(total=total, desc=task, unit=f" {unit}", unit_scale=True, file=self.stream, leave=False)
            if self.stream.isatty()
            else None
        )

    def update(self, count: int = 1, note: str = "") -> None:
        """Add ``count`` units; ``note`` is shown after the numbers, for example a loss."""
        self.done += count
        self._note = note or self._note
        signals.beat(self.done, self.total, self.unit, note=note or None)
        if self._bar is not None:
            if note:
                self._bar.set_postfix_str(visible(note), refresh=False)
            self._bar.update(count)
        elif (now := time.monotonic()) - self._printed_at >= seconds_between_lines(now - self._started_at):
            self._print_line(self._note)

    def show(self) -> None:
        """Show the state again, although nothing was added: the time that has passed is new."""
        if self._bar is not None:
            self._bar.refresh()
        else:
            self._print_line(self._note)

    def _print_line(self, note: str = "") -> None:
        self._printed_at, self._printed_count = time.monotonic(), self.done
        note_shown(self._printed_at)
        elapsed = max(self._printed_at - self._started_at, 1e-9)
        rate = self.done / elapsed
        of_total = f" of {self.total:,}" if self.total else ""
        time_left = f", {(self.total - self.done) / rate:.0f} s left" if self.total and rate > 0 else ""
        note_text = f", {note}" if note else ""
        rate_text = f"{rate:,.0f}" if rate >= 1 or rate == 0 else f"{rate:.2g}"
        text = f"{self.task}: {self.done:,}{of_total} {self.unit}, {rate_text}/s, {elapsed:.0f} s{time_left}{note_text}"
        print(visible(text), file=self.stream, flush=True)

    def __enter__(self) -> Progress:
        _open.append(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        _open.remove(self)
        if self._bar is not None:
            self._bar.close()
        if kind is None and self._printed_count < self.done:  # else the last line says it already
            self._print_line()


def print_above_bar(text: str) -> None:
    """Print a line on standard error, above the progress bar if one is shown."""
    tqdm.write(visible(text), file=sys.stderr)
    sys.stderr.flush()
    note_shown(time.monotonic())


QUIET_VARIABLE = "XLING_QUIET"
FIRST_LINE_S = 1.0
SECONDS_BETWEEN_LOOKS = 0.25

_doing = ""
_fork = threading.Lock()
# A child that is forked while a line is written would inherit a locked stream.
os.register_at_fork(before=_fork.acquire, after_in_parent=_fork.release, after_in_child=_fork.release)


def doing(what: str) -> None:
    """Say what the command does from here on, for example ``reading the text``; shown only if it takes long."""
    global _doing
    _doing = what


def is_quiet() -> bool:
    """Return whether ``XLING_QUIET=true`` was given, or another process speaks for this one."""
    return os.environ.get(QUIET_VARIABLE) == "true" or os.environ.get("RANK", "0") != "0"


class Watch:
    """Show a line when a command has been silent for too long; a context manager.

    Args:
        title: what runs, for example ``xling vocab``.
        stream: where to show it; standard error by default.
    """

    def __init__(self, title: str, stream: TextIO | None = None) -> None:
        self.title, self.stream, self._started_at = title, stream, time.monotonic()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="silence", daemon=True)

    def look(self) -> None:
        """Show a line if nothing was shown for too long, or move the progress bar on."""
        now = time.monotonic()
        elapsed, last = now - self._started_at, command_result.last_shown_at()
        limit = seconds_between_lines(elapsed) if last > self._started_at else FIRST_LINE_S
        if now - max(last, self._started_at) < limit:
            return
        with _fork:
            if (shown := innermost()) is not None:
                shown.show()
            else:
                text = f"{self.title}: {_doing or 'working'}, {elapsed:.0f} s"
                print(visible(text), file=self.stream or sys.stderr, flush=True)
            command_result.note_shown(now)

    def _run(self) -> None:
        while not self._end.wait(SECONDS_BETWEEN_LOOKS):
            self.look()

    def __enter__(self) -> Watch:
        doing("")
        if not is_quiet():
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        if self._thread.is_alive():
            self._thread.join()
