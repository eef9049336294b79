"""Leases: a file beside an output that names the only process allowed to write it.

`hold` creates ``.OUT.lease`` before the work starts and deletes it at the end. A second process is refused
and learns who holds the lease. Leases of killed processes are recognised: on the same machine by process id
and start time, from another machine by a file that was not touched for `STALE_AFTER_S` (by the clock of the
file system). A process that wants a stale lease has to claim it first, so that only one of several takes it.
A process that lost its lease ends at once: it must not write beside its successor.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from xling.core.errors import UserError
from xling.core.output.command_result import tell

REFRESH_S = 15.0
STALE_AFTER_S = 300.0
OWN_STALE_AFTER_S = 60.0
LEASE_LOST_EXIT_CODE = 75
OWNER_VARIABLE = "XLING_LEASE_OWNER"
"""Environment variable that names the job across restarts: its next holder waits `OWN_STALE_AFTER_S` only."""


@dataclass(frozen=True)
class Holder:
    """The process that holds a lease.

    Attributes:
        host: name of the machine.
        machine: its boot id and process namespace; process ids are only comparable within one.
        pid: process id.
        start: when the process started, in clock ticks since the boot; 0 when unknown.
        job: Slurm's job id, "" outside of Slurm.
        since: seconds since the epoch.
        what: description of the work, for messages.
        owner: name of the job across restarts, "" if it has none.
        token: unique identifier of the lease.
        until: for work without a process of its own, such as a queued run: the lease lasts until this file
            exists or its folder is deleted.
    """

    host: str = ""
    machine: str = ""
    pid: int = 0
    start: int = 0
    job: str = ""
    since: float = 0.0
    what: str = ""
    owner: str = ""
    token: str = ""
    until: str = ""

    def __str__(self) -> str:
        if self.until:
            return self.what
        job = f", job {self.job}" if self.job else ""
        since_text = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        return f"{self.what} (process {self.pid} on {self.host}{job}, since {since_text})"

    @classmethod
    def this_process(cls, work: str, owner: str = "") -> Holder:
        """Describe this process as a holder."""
        job = os.environ.get("SLURM_JOB_ID", "")
        pid, token = os.getpid(), secrets.token_hex(8)
        return cls(
            socket.gethostname(),
            _machine_id(),
            pid,
            _process_start(pid),
            job,
            time.time(),
            work,
            owner,
            token,
        )

    def is_alive_here(self) -> bool | None:
        """Return whether the process is alive; None if it ran on another machine and cannot be checked from here."""
        if self.until:
            return Path(self.until).parent.is_dir() and not Path(self.until).exists()
        if self.machine != _machine_id():
            return None
        started = _process_start(self.pid)
        return started >= 0 and (not self.start or started == self.start)


class HeldError(UserError):
    """Raised when another process holds the lease.

    Attributes:
        holder: the process that holds it.
    """

    def __init__(self, out: Path, holder: Holder) -> None:
        super().__init__(
            f"{out} is being written by {holder}", fix="wait for it, end it, or choose another out="
        )
        self.holder = holder


def lease_path(out: Path) -> Path:
    """Return the path of the lease file for ``out``; a symbolic link has the lease of the folder it points to."""
    out = Path(os.path.realpath(out)) if out.is_symlink() else out.absolute()
    return out.with_name(f".{out.name}.lease")


@contextmanager
def hold(out: Path, work: str, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the lease on ``out`` inside the block; the variable `OWNER_VARIABLE` names the owner across restarts.

    Raises:
        HeldError: another process still holds it after ``wait_s`` seconds.
    """
    path = lease_path(out)
    own_holder = Holder.this_process(work, os.environ.get(OWNER_VARIABLE, ""))
    deadline = time.monotonic() + wait_s
    new_folders = [folder for folder in path.parents if not folder.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        while (other_holder := _acquire(path, own_holder)) is not None:
            if time.monotonic() >= deadline:
                raise HeldError(out, other_holder)
            time.sleep(min(1.0, max(deadline - time.monotonic(), 0.01)))
        _delete_leftovers(path)
    except OSError:
        # If no lease can be written, the output cannot be written either; the work itself then reports the
        # error.
        yield
        return
    stop = threading.Event()
    thread = threading.Thread(target=_refresh, args=(path, own_holder, stop), name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        if (holder := read_holder(path)) and holder.token == own_holder.token:
            path.unlink(missing_ok=True)
        for folder in new_folders:  # remove folders that the work left empty
            with contextlib.suppress(OSError):
                folder.rmdir()


def pin(out: Path, work: str, until: Path) -> None:
    """Hold the lease on ``out`` beyond the end of this process, until a file called ``until`` exists.

    Raises:
        HeldError: another process or another job holds it.
    """
    path = lease_path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    own_holder = replace(Holder.this_process(work, str(until)), until=str(until))
    other_holder = _acquire(path, own_holder)
    if other_holder is not None and other_holder.until != own_holder.until:
        raise HeldError(out, other_holder)


def unpin(out: Path, until: Path) -> None:
    """Release a lease taken by `pin`."""
    path = lease_path(out)
    if (holder := read_holder(path)) and holder.until == str(until):
        path.unlink(missing_ok=True)


def read_holder(path: Path) -> Holder | None:
    """Read the holder in a lease file; None if there is no readable lease."""
    try:
        return Holder(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def holder_of(out: Path, owner: str = "") -> Holder | None:
    """Return the process that writes ``out`` now, None if nobody does; ``owner`` names the job that asks."""
    path = lease_path(out)
    holder = read_holder(path)
    return holder if holder and not _is_stale(path, holder, owner, _file_system_time(path.parent)) else None


def is_held_by_this_process(out: Path) -> bool:
    """Return whether this process holds the lease on ``out``."""
    holder = read_holder(lease_path(out))
    return holder is not None and (holder.pid, holder.machine) == (os.getpid(), _machine_id())


def _acquire(path: Path, own_holder: Holder) -> Holder | None:
    """Try to take the lease; return its holder if that is another process."""
    temporary = path.with_name(f"{path.name}.{own_holder.token}")
    try:
        temporary.write_text(json.dumps(asdict(own_holder)) + "\n", encoding="utf-8")
        now = temporary.stat().st_mtime
        try:
            os.link(temporary, path)
            return None
        except FileExistsError:
            pass
        holder = read_holder(path)
        if holder is None:  # incomplete, or deleted just now
            try:
                age = now - path.stat().st_mtime
            except FileNotFoundError:
                return _acquire(path, own_holder)
            holder = Holder(what="a damaged lease", since=now, token="damaged")
            if age < STALE_AFTER_S:
                return holder
        elif not _is_stale(path, holder, own_holder.owner, now):
            return holder
        return None if _take_over(path, temporary, holder) else read_holder(path) or holder
    finally:
        temporary.unlink(missing_ok=True)


def _delete_leftovers(path: Path) -> None:
    """Delete the temporary files beside a lease whose processes were killed while they asked for it."""
    for leftover in list(path.parent.iterdir()):
        if leftover.name.startswith(f"{path.name}."):
            holder = read_holder(leftover)
            if holder is not None and holder.is_alive_here() is False:
                leftover.unlink(missing_ok=True)


def _is_stale(path: Path, holder: Holder, owner: str, now: float) -> bool:
    alive = holder.is_alive_here()
    if alive is not None:
        return not alive
    limit = OWN_STALE_AFTER_S if owner and holder.owner == owner else STALE_AFTER_S
    try:
        return now - path.stat().st_mtime > limit
    except OSError:
        return True


def _take_over(path: Path, temporary: Path, stale: Holder) -> bool:
    """Replace a stale lease; of several competing processes only the one that creates the claim succeeds."""
    claim = path.with_name(f"{path.name}.claim-{stale.token}")
    if not _try_link(temporary, claim) and not (_discard_stale(claim) and _try_link(temporary, claim)):
        return False
    try:
        # An earlier winner may already have replaced the lease and removed its claim.
        holder = read_holder(path)
        if holder is not None and holder.token != stale.token:
            return False
        temporary.replace(path)
        return True
    finally:
        claim.unlink(missing_ok=True)


def _try_link(source: Path, target: Path) -> bool:
    """Link ``source`` to ``target``; return False if ``target`` already exists."""
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    return True


def _discard_stale(claim: Path) -> bool:
    """Remove the claim of a process that was killed during a takeover; return False if it is still held.

    The claim is moved aside before it is deleted, so that a new claim made in between is seen and put back.
    """
    claimant = read_holder(claim)
    if claimant is not None and not _is_stale(claim, claimant, "", _file_system_time(claim.parent)):
        return False
    moved_claim = claim.with_name(f"{claim.name}.{secrets.token_hex(8)}")
    try:
        os.rename(claim, moved_claim)  # noqa: PTH104 - tests count Path.rename
    except FileNotFoundError:
        return True
    try:
        return read_holder(moved_claim) == claimant or not _try_link(moved_claim, claim)
    finally:
        moved_claim.unlink(missing_ok=True)


def _refresh(path: Path, own_holder: Holder, stop: threading.Event) -> None:
    while not stop.wait(REFRESH_S):
        holder = read_holder(path)
        if holder is not None and holder.token != own_holder.token and not stop.is_set():
            tell(f"xling: {own_holder.what}: {holder} has taken over; this process ends")
            os._exit(LEASE_LOST_EXIT_CODE)
        with contextlib.suppress(OSError):
            os.utime(path)


def _file_system_time(folder: Path) -> float:
    """Return the current time by the file system's clock, or by the local clock if nothing can be written."""
    probe = folder / f".clock.{secrets.token_hex(8)}"
    try:
        probe.touch()
        return probe.stat().st_mtime
    except OSError:
        return time.time()
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)


def _machine_id() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()} {boot} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115 - no file
    except OSError:
        return socket.gethostname()


def _process_start(pid: int) -> int:
    """Return the start time of a process in clock ticks since the boot; 0 if unknown, -1 if it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return -1 if fields[0] in (b"Z", b"X") else int(fields[19])
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return -1
    except (OSError, IndexError, ValueError):
        return 0
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return -1
    except PermissionError:
        return 0
    return 0
