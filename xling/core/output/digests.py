"""SHA-256 of files, computed once for each content of a file and remembered between commands.

A file is the same as before if its device, inode, size, and its times of modification and of change in nanoseconds
are: no ordinary program can change a file and keep them all, since the kernel alone sets the last. What rots on the
disk without a write keeps them: ``verify=always`` alone finds it.

The memory lies in ``XLING_CACHE`` or ~/.cache/xling, in up to 256 text files with a line a digest. Each line ends
with its own checksum; a line that does not match it is ignored. So a lost or damaged memory costs time alone.
"""

import contextlib
import hashlib
import os
import time
from pathlib import Path

from xling.core.errors import UserError
from xling.core.output import atomic_swap

CACHE_VARIABLE, VERIFY_VARIABLE = "XLING_CACHE", "XLING_VERIFY"
NEVER, ONCE, ALWAYS = MODES = ("never", "once", "always")
MAX_LINES = 4096
"""Lines of one file of the memory; when there are more, the newer half is kept."""
BLOCK_BYTES, SUMS = 4 << 20, ".sums"
"""Bytes of a block of a shard, and what the name of the file with their SHA-256 ends with."""
_CHECK_DIGITS = 16

_Identity = tuple[int, ...]
_in_process: dict[_Identity, str] = {}
_buckets: dict[Path, dict[bytes, str]] = {}
num_bytes_hashed = 0
"""Bytes that this process has hashed."""


def cache_folder() -> Path:
    """Return the folder for what can be made again: the one that XLING_CACHE names, else ~/.cache/xling."""
    return Path(os.environ.get(CACHE_VARIABLE) or Path.home() / ".cache" / "xling")


def mode() -> str:
    """Return what ``verify=`` asks for: ``never``, ``once`` or ``always``; workers and jobs inherit it.

    Of several processes of one training the first alone checks.

    Raises:
        UserError: it is none of these.
    """
    return _asked() if os.environ.get("RANK", "0") == "0" else NEVER


def _asked() -> str:
    given = os.environ.get(VERIFY_VARIABLE) or ONCE
    if given not in MODES:
        raise UserError(f"verify={given}", ", ".join(MODES), "leave it out: once is the default")
    return given


def of_file(path: Path) -> str:
    """Return the SHA-256 of a file's content as hex, from memory where the file has not changed since.

    Raises:
        OSError: the file cannot be read.
    """
    facts = identity(path)
    if known := _known(facts):
        return known
    started_at = time.time_ns()
    digest = _hash(path)
    if identity(path) == facts and not _may_change_unseen(facts, started_at):
        _in_process[facts] = digest
        _remember(*_place(facts), digest)
    return digest


def _known(facts: _Identity) -> str | None:
    bucket, key = _place(facts)
    if facts not in _in_process and _asked() != ALWAYS and (remembered := _read_bucket(bucket).get(key)):
        _in_process[facts] = remembered
    return _in_process.get(facts)


def is_read_in_blocks(path: Path) -> bool:
    """Return whether a file is compared block by block while it is read: it has `SUMS`, and is not known already."""
    sums = path.with_name(path.name + SUMS)
    return _asked() != NEVER and sums.is_file() and _known(identity(path)) is None


def of_blocks(path: Path) -> list[str]:
    """Return the SHA-256 of each `BLOCK_BYTES` of a file as hex."""
    with path.open("rb") as file:
        return [hashlib.sha256(block).hexdigest() for block in iter(lambda: file.read(BLOCK_BYTES), b"")]


def num_bytes_unknown(paths: list[Path]) -> int:
    """Return how many bytes of these files `of_file` would have to read."""
    return sum(facts[2] for facts in map(identity, paths) if not _known(facts))


def _hash(path: Path) -> str:
    global num_bytes_hashed
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        num_bytes_hashed += file.tell()
    return digest


def identity(path: Path) -> _Identity:
    """Return device, inode, size in bytes, and the times of modification and of change, ns, of a file."""
    facts = path.stat()
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def _may_change_unseen(facts: _Identity, started_at: int) -> bool:
    """Return whether a write after ``started_at`` could leave the times of the file as they were.

    A clock of the file system ticks every 10 ms at most, some in whole seconds alone.
    """
    changed_at = facts[4]
    tick = 2_000_000_000 if changed_at % 1_000_000_000 == 0 else 50_000_000
    return started_at - changed_at < tick


def _place(facts: _Identity) -> tuple[Path, bytes]:
    """Return the file of the memory that a file belongs to, and the beginning of its line."""
    key = " ".join(map(str, facts)).encode()
    return cache_folder() / "digests" / hashlib.sha256(key).hexdigest()[:2], key


def _read_bucket(path: Path) -> dict[bytes, str]:
    """Return identity -> digest of one file of the memory, without the lines that do not match their checksum."""
    if path not in _buckets:
        known = _buckets[path] = {}
        with contextlib.suppress(OSError):
            for line in path.read_bytes().split(b"\n"):
                content, _, check = line.rpartition(b" ")
                if check and check == _check(content):
                    key, _, digest = content.rpartition(b" ")
                    known[key] = digest.decode()
    return _buckets[path]


def _check(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest()[:_CHECK_DIGITS].encode()


def _remember(path: Path, key: bytes, digest: str) -> None:
    """Append a line to the memory; a memory that cannot be written is left out."""
    known = _read_bucket(path)
    if known.get(key) == digest:
        return
    known[key] = digest
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        if len(known) > MAX_LINES:
            kept = list(known.items())[-MAX_LINES // 2 :]
            with atomic_swap.replacing(path) as temporary:
                temporary.write_bytes(b"".join(_line(*item) for item in kept))
            _buckets[path] = dict(kept)
            return
        with path.open("ab", buffering=0) as file:
            file.write(_line(key, digest))


def _line(key: bytes, digest: str) -> bytes:
    content = key + b" " + digest.encode()
    return content + b" " + _check(content) + b"\n"
