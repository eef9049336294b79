"""Files that a later run takes over and no manifest covers, each with its SHA-256 behind its content.

They are caches and states of work in progress. A bit that is turned in one of them is noticed before it is used.
Readers of ``.npy`` and of torch's files pass over what stands behind their content.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from xling.core.errors import UserError
from xling.core.output.atomic_swap import replacing
from xling.core.output.command_result import tell

_MARK = b"\n#sha256 "
_SEAL_BYTES = len(_MARK) + 64
_BLOCK_BYTES = 1 << 20
FIX = "delete it, and run the same command again"


class DamagedError(UserError):
    """Raised where a sealed file does not hold what was written."""


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Provide a temporary file to write to, which is sealed and renamed to ``path`` when the block ends."""
    with replacing(path) as temporary, temporary.open("w+b") as file:
        yield file
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0, os.SEEK_END)
        file.write(_MARK + digest.encode())


def check(path: Path, fix: str = FIX) -> None:
    """Compare a file with its seal.

    Raises:
        FileNotFoundError: there is none.
        DamagedError: it was changed or damaged after it was written, or has no seal.
    """
    hasher = hashlib.sha256()
    with path.open("rb") as file:
        left = max(0, os.fstat(file.fileno()).st_size - _SEAL_BYTES)
        while block := file.read(min(left, _BLOCK_BYTES)):
            hasher.update(block)
            left -= len(block)
        if file.read() != _MARK + hasher.hexdigest().encode():
            raise DamagedError(
                f"{path} was changed or damaged after it was written", "the file as written", fix
            )


def is_good(path: Path) -> bool:
    """Return whether a file that can be made again is there and as it was written; damage is told."""
    try:
        check(path)
    except FileNotFoundError:
        return False
    except DamagedError as error:
        tell(f"xling: {error.given}: it is made again")
        return False
    return True


def content(path: Path) -> bytes:
    """Return what a sealed file holds; call `check` or `is_good` first."""
    return path.read_bytes()[:-_SEAL_BYTES]


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as JSON, sealed."""
    with writing(path) as file:
        file.write(json.dumps(value, ensure_ascii=False, sort_keys=True).encode())


def read_json(path: Path, fix: str = FIX) -> Any:
    """Return the value in a sealed JSON file.

    Raises:
        FileNotFoundError, DamagedError: as `check`.
    """
    check(path, fix)
    return json.loads(content(path))
