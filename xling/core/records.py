"""Record files that survive a kill, a full disk and a torn write: JSON lines and small JSON files.

A damaged line costs that line alone: it is skipped and named once on standard error. The next line starts on a line of
its own, whatever was torn before it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from xling.core.errors import UserError


class DiskError(UserError):
    """A record could not be written whole; later it may."""


_told: set[tuple[str, str]] = set()
MODE = 0o600
"""Record files are readable by their owner alone: settings and paths are nobody else's business."""


def append_line(path: Path, facts: dict[str, Any]) -> None:
    """Append one JSON line in a single write and wait until it is on the disk.

    Raises:
        DiskError: the disk took only a part of it, or nothing.
    """
    data = (json.dumps(facts, ensure_ascii=False) + "\n").encode()
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, MODE)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                data = b"\n" + data
            written = os.write(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise DiskError(f"{path}: {error.strerror}", fix="free space in its folder") from error
    if written != len(data):
        raise DiskError(f"{path}: {written} of {len(data)} bytes fitted", fix="free space in its folder")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The JSON objects of a file, one a line; [] when there is no file. Damaged lines are skipped and reported."""
    try:
        data = path.read_bytes()
    except OSError:
        return []
    found = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                value = None
            if isinstance(value, dict):
                found.append(value)
            else:
                report(path, f"line {number} is damaged and was skipped")
    return found


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file; {} when there is none. A damaged one is reported and counts as none."""
    try:
        value = json.loads(path.read_bytes())
    except OSError:
        return {}
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return value
    report(path, "is damaged and was ignored")
    return {}


def report(path: Path, what: str) -> None:
    """Name damage on standard error, once in each process."""
    if (str(path), what) not in _told:
        _told.add((str(path), what))
        print(f"xling: {path}: {what}", file=sys.stderr, flush=True)
