"""No silent wait: while a command runs and nothing is shown, a line on standard error says what it does.

A command that ends at once prints nothing of this. ``XLING_QUIET=true`` turns it off.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from types import TracebackType
from typing import TextIO

from xling.core import progress
from xling.core.output import command_result
from xling.core.output.command_result import visible

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
        limit = progress.seconds_between_lines(elapsed) if last > self._started_at else FIRST_LINE_S
        if now - max(last, self._started_at) < limit:
            return
        with _fork:
            if (shown := progress.innermost()) is not None:
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        if self._thread.is_alive():
            self._thread.join()
