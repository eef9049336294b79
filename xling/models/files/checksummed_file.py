"""Files with a SHA-256 beside them, so that damaged or unfinished ones are recognised when they are read."""

import errno
import hashlib
import io
import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import torch

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.models.distributed import processes

logger = logging.getLogger(__name__)
PARTS = ".parts"  # suffix of a folder that several processes have written
SOMETHING_ELSE = "%s is not a checkpoint; taking the one before it"


def write_checksummed(path: Path, state: Any) -> None:
    """Write a file and its SHA-256 atomically, the file last: one that stands alone was copied without its checksum.

    Raises:
        OSError: the file could not be written; the partial file is deleted.
    """
    temporary = path.with_suffix(".tmp")
    try:
        with temporary.open("wb") as handle:
            digest = write_hashed(state, handle)
            handle.flush()
            os.fsync(handle.fileno())
        manifest.write_atomic(path.with_suffix(".sha256"), digest + "\n")
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def publish(unfinished: Path, folder: Path, digests: Mapping[str, str]) -> None:
    """Write the checksums of a folder, by name of its files, and make it appear whole."""
    shutil.rmtree(folder, ignore_errors=True)
    lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))
    manifest.write_atomic(folder.with_suffix(".sha256"), lines)
    unfinished.replace(folder)


def is_good(path: Path) -> bool:
    """Return whether a file, or a folder of several processes, exists and matches its checksums.

    Processes share the files of a folder, so all must call this for one.
    """
    checksums = path.with_suffix(".sha256")
    if path.suffix != PARTS:
        return (
            path.is_file() and checksums.is_file() and manifest.sha256(path) == checksums.read_text().strip()
        )
    lines = [line.split("  ") for line in checksums.read_text().splitlines()] if checksums.is_file() else []
    wrong = not lines or any(
        len(line) != 2 or not (file := path / line[1]).is_file() or manifest.sha256(file) != line[0]
        for line in lines[processes.rank() :: processes.size()]
    )
    return not processes.agreed(wrong)


def good_checkpoints(directory: Path) -> Iterator[Path]:
    """Yield the checkpoints of a training with correct checksums, newest first; others are named in the log.

    A kill may leave the checksum of one checkpoint alone.

    Raises:
        UserError: there are checkpoints, and none of them is whole: the training would start again from nothing.
    """
    saved = sorted([*directory.glob("update-*.pt"), *directory.glob(f"update-*{PARTS}")])
    if saved and not any(directory.glob("update-*.sha256")):
        raise UserError(
            f"{saved[-1]} has no {saved[-1].with_suffix('.sha256').name} beside it, and cannot be verified",
            "each checkpoint with its .sha256",
            f"copy the .sha256 files too, or delete {directory} to start from the first update",
        )
    stems = {path.with_suffix("") for path in (*saved, *directory.glob("update-*.sha256"))}
    num_good = 0
    for stem in sorted(stems, reverse=True):
        parts = stem.with_suffix(PARTS)
        if is_good(path := parts if parts.is_dir() else stem.with_suffix(".pt")):
            num_good += 1
            yield path
        else:
            problem = "is damaged" if path.exists() else "is missing"
            logger.warning("%s %s; taking the checkpoint before it", path, problem)
    if not num_good and (saved or len(stems) > 1):
        raise UserError(
            f"no checkpoint in {directory} is whole",
            "a checkpoint with its own .sha256",
            f"copy them again, or delete {directory} to start from the first update",
        )


def write_hashed(state: Any, handle: BinaryIO) -> str:
    """Write ``state`` as `torch.save` does and return the SHA-256 of the written bytes.

    Raises:
        OSError: the file could not be written; torch itself would report an unexpected position.
    """
    digest, failed = hashlib.sha256(), list[OSError]()

    class Both(io.RawIOBase):
        def write(self, data: Any) -> int:
            digest.update(data)
            try:
                return handle.write(data)
            except OSError as error:
                failed.append(error)
                raise

    try:
        torch.save(state, cast("IO[bytes]", Both()))
    except Exception:
        if failed:
            raise failed[0] from None
        raise
    return digest.hexdigest()


def has_no_room(error: OSError) -> bool:
    """Return whether an error means a full disk or quota."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def size_of(state: Any) -> int:
    """Return the bytes of the tensors in a state, counting shared memory once."""
    bytes_at: dict[int, int] = {}

    def visit(value: Any) -> None:
        if isinstance(value, torch.Tensor):
            bytes_at[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
        elif isinstance(value, dict):
            for each in value.values():
                visit(each)
        elif isinstance(value, (list, tuple)):
            for each in value:
                visit(each)

    visit(state)
    return sum(bytes_at.values())
