"""Record files that survive a kill, a full disk and a partial write: JSON lines and small JSON files.

A damaged line loses only that line: it is skipped and reported once on standard error. The next line is
always written on a line of its own.
"""

import json
import os
from pathlib import Path
from typing import Any

from xling.core.errors import UserError
from xling.core.output import atomic_swap
from xling.core.output.command_result import tell


class DiskError(UserError):
    """Raised when a record could not be written completely; a later attempt may succeed."""


_reported: set[tuple[str, str]] = set()
PRIVATE_MODE = 0o600
"""Only the owner may read record files: they contain settings and paths."""


def append_line(path: Path, record: dict[str, Any]) -> None:
    """Append one JSON line in a single write and wait until it is on the disk.

    Raises:
        DiskError: the disk took only part of it, or nothing.
    """
    data = (json.dumps(record, ensure_ascii=False) + "\n").encode()
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, PRIVATE_MODE)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                data = b"\n" + data
            num_written = os.write(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise DiskError(f"{path}: {error.strerror}", fix="free space in its folder") from error
    if num_written != len(data):
        raise DiskError(
            f"{path}: {num_written} of {len(data)} bytes were written", fix="free space in its folder"
        )


def write_private(path: Path, text: str) -> None:
    """Write a text file as a whole that only its owner may read.

    Raises:
        OSError: the disk is full, or the folder cannot be written.
    """
    with atomic_swap.replacing(path) as temporary:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
            handle.write(text)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read the JSON objects of a file, one per line; [] if the file does not exist. Report and skip damaged lines."""
    try:
        data = path.read_bytes()
    except OSError:
        return []
    records = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                value = None
            if isinstance(value, dict):
                records.append(value)
            else:
                report_once(path, f"line {number} is damaged and was skipped")
    return records


def read_object(path: Path) -> dict[str, Any]:
    """Read the JSON object in a file; {} if the file does not exist. Report a damaged file and return {}."""
    try:
        value = json.loads(path.read_bytes())
    except OSError:
        return {}
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return value
    report_once(path, "is damaged and was ignored")
    return {}


def report_once(path: Path, message: str) -> None:
    """Report damage on standard error, once per process."""
    if (str(path), message) not in _reported:
        _reported.add((str(path), message))
        tell(f"xling: {path}: {message}")
