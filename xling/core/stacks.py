"""Python stacks of a process that hangs, written by faulthandler's own thread to ``HEARTBEAT.stack``.

The thread needs neither the interpreter nor the main thread, so it also works while these wait inside a collective
operation. A process stopped by SIGSTOP writes its stack when it is continued, since the time is up by then.
faulthandler shows at most 100 threads, the main one last: with more threads its frames are missing.
"""

from __future__ import annotations

import faulthandler
import os
import re
import threading
from pathlib import Path

from xling.core.output.records import MODE

ENDING, EARLIER = ".stack", ".stack.earlier"
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')
_open: dict[Path, tuple[int, int]] = {}
"""Heartbeat -> descriptor of its file of stacks, and the length of the file's first line."""


def stack_path(heartbeat: Path) -> Path:
    """Return the file with the stacks of the process that writes ``heartbeat``."""
    return heartbeat.with_name(heartbeat.name + ENDING)


def arm(heartbeat: Path, seconds: float) -> None:
    """Write the stacks of all threads in ``seconds`` unless this is called again before; 0 switches it off."""
    if not seconds:
        if heartbeat in _open:
            faulthandler.cancel_dump_traceback_later()
            os.close(_open.pop(heartbeat)[0])
        return
    try:
        descriptor, length = _open.get(heartbeat) or _begin(heartbeat)
        if os.fstat(descriptor).st_size > length:  # of a delay that has ended
            stack_path(heartbeat).replace(heartbeat.with_name(heartbeat.name + EARLIER))
            os.close(descriptor)
            descriptor, _ = _begin(heartbeat)
        faulthandler.dump_traceback_later(seconds, file=descriptor)
    except OSError:
        return  # a full disk must not stop the work


def _begin(heartbeat: Path) -> tuple[int, int]:
    """Open the file of stacks; its first line names the main thread."""
    descriptor = os.open(stack_path(heartbeat), os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, MODE)
    length = os.write(descriptor, f"main thread 0x{threading.main_thread().ident or 0:016x}\n".encode())
    _open[heartbeat] = (descriptor, length)
    return descriptor, length


def read_frames(heartbeat: Path, ending: str = ENDING) -> list[str]:
    """Return the frames of the main thread, innermost first, as ``train.py:172 _train``; [] if none were written.

    With `EARLIER` as the ``ending`` they are those of a delay that has ended.
    """
    try:
        text = heartbeat.with_name(heartbeat.name + ending).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    first, _, rest = text.partition("\n")
    wanted, frames, inside = first.removeprefix("main thread "), list[str](), False
    for line in rest.splitlines():
        if "most recent call first" in line:
            inside = wanted in line
            frames = [] if inside else frames
        elif inside and (match := _FRAME.match(line)):
            frames.append(f"{Path(match[1]).name}:{match[2]} {match[3]}")
    return frames
