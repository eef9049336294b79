"""Python stacks of a process that hangs, written by faulthandler's own thread to ``HEARTBEAT.stack``.

The thread needs neither the interpreter nor the main thread, so it also works while these wait inside a collective
operation. A process stopped by SIGSTOP writes its stack when it is continued, since the time is up by then.
faulthandler shows at most 100 threads, the main one last: with more threads its frames are missing.
"""

import faulthandler
import os
import re
import threading
from pathlib import Path

from xling.core.output.records import PRIVATE_MODE

SUFFIX, EARLIER_SUFFIX = ".stack", ".stack.earlier"
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')
_open_files: dict[Path, tuple[int, int]] = {}
"""Heartbeat -> descriptor of its file of stacks, and the length of the file's first line."""


def stack_path(heartbeat: Path) -> Path:
    """Return the file with the stacks of the process that writes ``heartbeat``."""
    return heartbeat.with_name(heartbeat.name + SUFFIX)


def schedule_dump(heartbeat: Path, seconds: float) -> None:
    """Write the stacks of all threads in ``seconds`` unless this is called again before; 0 switches it off."""
    if not seconds:
        if heartbeat in _open_files:
            faulthandler.cancel_dump_traceback_later()
            os.close(_open_files.pop(heartbeat)[0])
        return
    try:
        descriptor, header_length = _open_files.get(heartbeat) or _open_stack_file(heartbeat)
        if os.fstat(descriptor).st_size > header_length:  # of a delay that has ended
            stack_path(heartbeat).replace(heartbeat.with_name(heartbeat.name + EARLIER_SUFFIX))
            os.close(descriptor)
            descriptor, _ = _open_stack_file(heartbeat)
        faulthandler.dump_traceback_later(seconds, file=descriptor)
    except OSError:
        return  # a full disk must not stop the work


def _open_stack_file(heartbeat: Path) -> tuple[int, int]:
    """Open the file of stacks; its first line names the main thread."""
    descriptor = os.open(
        stack_path(heartbeat), os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, PRIVATE_MODE
    )
    header_length = os.write(
        descriptor, f"main thread 0x{threading.main_thread().ident or 0:016x}\n".encode()
    )
    _open_files[heartbeat] = (descriptor, header_length)
    return descriptor, header_length


def read_frames(heartbeat: Path, suffix: str = SUFFIX) -> list[str]:
    """Return the frames of the main thread, innermost first, as ``train.py:172 _train``; [] if none were written.

    With `EARLIER_SUFFIX` as the ``suffix`` they are those of a delay that has ended.
    """
    try:
        text = heartbeat.with_name(heartbeat.name + suffix).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    first, _, rest = text.partition("\n")
    main_thread, frames, in_main_thread = first.removeprefix("main thread "), list[str](), False
    for line in rest.splitlines():
        if "most recent call first" in line:
            in_main_thread = main_thread in line
            frames = [] if in_main_thread else frames
        elif in_main_thread and (match := _FRAME.match(line)):
            frames.append(f"{Path(match[1]).name}:{match[2]} {match[3]}")
    return frames
