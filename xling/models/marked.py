"""Files with their SHA-256 beside them: a damaged or unfinished one is recognised when it is read."""

from __future__ import annotations

import hashlib
import io
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import torch

from xling.core import manifest

logger = logging.getLogger(__name__)


def write_marked(path: Path, state: Any) -> None:
    """Write a file with its SHA-256 beside it, each whole or not at all, the checksum last."""
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as handle:
        digest = write_hashed(state, handle)
        handle.flush()
        os.fsync(handle.fileno())
    temporary.replace(path)
    manifest.write_atomic(path.with_suffix(".sha256"), digest + "\n")


def is_good(path: Path) -> bool:
    """Whether a file is there and has the checksum beside it."""
    mark = path.with_suffix(".sha256")
    return path.is_file() and mark.is_file() and manifest.sha256(path) == mark.read_text().strip()


def good_checkpoints(directory: Path) -> Iterator[Path]:
    """The checkpoints of a training whose checksums are right, the newest first; others are named in the log."""
    for mark in sorted(directory.glob("update-*.sha256"), reverse=True):
        if is_good(path := mark.with_suffix(".pt")):
            yield path
        else:
            logger.warning("%s is damaged; taking the checkpoint before it", path)


def write_hashed(state: Any, handle: BinaryIO) -> str:
    """Write ``state`` as `torch.save` does and return the SHA-256 of what was written."""
    digest = hashlib.sha256()

    class Both(io.RawIOBase):
        def write(self, data: Any) -> int:
            digest.update(data)
            return handle.write(data)

    torch.save(state, cast("IO[bytes]", Both()))
    return digest.hexdigest()
