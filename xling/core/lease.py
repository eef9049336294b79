"""Leases: a file beside an output names the one process that writes it.

`hold` makes ``.OUT.lease`` before the work starts and deletes it at the end. A second process is refused and learns who
holds it. What a killed process left is recognised: on the same machine by its process id and start time, from another
machine by a file that was not touched for `STALE_AFTER_S` (by the clock of the file system). Whoever takes a stale
lease claims it first, so that of several only one does. A process whose lease was taken from it ends at once: it
must not write beside its successor.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from xling.core.errors import UserError

REFRESH_S = 15.0
STALE_AFTER_S = 300.0
OWN_STALE_AFTER_S = 60.0
LOST_EXIT_CODE = 75
OWNER_VARIABLE = "XLING_LEASE_OWNER"
"""Names the piece of work across restarts: its next holder on another machine waits `OWN_STALE_AFTER_S` only."""


@dataclass(frozen=True)
class Holder:
    """Who holds a lease.

    Attributes:
        host: name of the machine.
        machine: its boot and process namespace: process ids mean something only within.
        pid: process id.
        start: when the process started, in clock ticks since the boot; 0 when unknown.
        job: Slurm's job id, "" outside of Slurm.
        since: seconds since the epoch.
        what: the work, for messages.
        owner: the piece of work across restarts, "" when it has no name.
        token: differs for each lease.
        until: a file that ends the lease of work without a process of its own, such as a queued run: it lasts until
            that file is there, or its folder is not.
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
        clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        return f"{self.what} (process {self.pid} on {self.host}{job}, since {clock})"

    @classmethod
    def this_process(cls, what: str, owner: str = "") -> Holder:
        """This process as a holder."""
        job = os.environ.get("SLURM_JOB_ID", "")
        pid, token = os.getpid(), secrets.token_hex(8)
        return cls(socket.gethostname(), _machine(), pid, _start(pid), job, time.time(), what, owner, token)

    def is_alive_here(self) -> bool | None:
        """Whether the process lives; None when it ran on another machine and cannot be seen from here."""
        if self.until:
            return Path(self.until).parent.is_dir() and not Path(self.until).exists()
        if self.machine != _machine():
            return None
        started = _start(self.pid)
        return started >= 0 and (not self.start or started == self.start)


class HeldError(UserError):
    """Another process holds the lease.

    Attributes:
        holder: which.
    """

    def __init__(self, out: Path, holder: Holder) -> None:
        super().__init__(
            f"{out} is being written by {holder}", fix="wait for it, end it, or choose another out="
        )
        self.holder = holder


def lease_path(out: Path) -> Path:
    """Where the lease on ``out`` is."""
    out = out.absolute()
    return out.with_name(f".{out.name}.lease")


@contextmanager
def hold(out: Path, what: str, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the lease on ``out`` inside; the variable `OWNER_VARIABLE` names the owner across restarts.

    Raises:
        HeldError: another process holds it, and still did after ``wait_s`` seconds.
    """
    path = lease_path(out)
    mine = Holder.this_process(what, os.environ.get(OWNER_VARIABLE, ""))
    deadline = time.monotonic() + wait_s
    made = [folder for folder in path.parents if not folder.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        while (other := _acquire(path, mine)) is not None:
            if time.monotonic() >= deadline:
                raise HeldError(out, other)
            time.sleep(min(1.0, max(deadline - time.monotonic(), 0.01)))
    except OSError:
        # Where no lease can be written nothing else can: the work itself says so, if it writes at all.
        yield
        return
    stop = threading.Event()
    thread = threading.Thread(target=_refresh, args=(path, mine, stop), name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        if (found := read(path)) and found.token == mine.token:
            path.unlink(missing_ok=True)
        for folder in made:  # where the work has put nothing there
            with contextlib.suppress(OSError):
                folder.rmdir()


def pin(out: Path, what: str, until: Path) -> None:
    """Hold the lease on ``out`` beyond the end of this process, until a file called ``until`` is there.

    Raises:
        HeldError: another process, or other work, holds it.
    """
    path = lease_path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    mine = replace(Holder.this_process(what, str(until)), until=str(until))
    other = _acquire(path, mine)
    if other is not None and other.until != mine.until:
        raise HeldError(out, other)


def unpin(out: Path, until: Path) -> None:
    """Give back what `pin` took."""
    path = lease_path(out)
    if (found := read(path)) and found.until == str(until):
        path.unlink(missing_ok=True)


def read(path: Path) -> Holder | None:
    """The holder in a lease file, None when there is no readable one."""
    try:
        return Holder(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def holder_of(out: Path, owner: str = "") -> Holder | None:
    """Who writes ``out`` now, None where nobody does; ``owner`` is the piece of work that asks."""
    path = lease_path(out)
    found = read(path)
    return found if found and not _is_stale(path, found, owner, _clock(path.parent)) else None


def _acquire(path: Path, mine: Holder) -> Holder | None:
    """Take the lease; returns its holder where that is another process."""
    temporary = path.with_name(f"{path.name}.{mine.token}")
    try:
        temporary.write_text(json.dumps(asdict(mine)) + "\n", encoding="utf-8")
        now = temporary.stat().st_mtime
        try:
            os.link(temporary, path)
            return None
        except FileExistsError:
            pass
        found = read(path)
        if found is None:  # torn, or deleted just now
            if not path.exists():
                return _acquire(path, mine)
            found = Holder(what="a damaged lease", since=now, token="damaged")
            if now - path.stat().st_mtime < STALE_AFTER_S:
                return found
        elif not _is_stale(path, found, mine.owner, now):
            return found
        return None if _take_over(path, temporary, found) else read(path) or found
    finally:
        temporary.unlink(missing_ok=True)


def _is_stale(path: Path, found: Holder, owner: str, now: float) -> bool:
    alive = found.is_alive_here()
    if alive is not None:
        return not alive
    limit = OWN_STALE_AFTER_S if owner and found.owner == owner else STALE_AFTER_S
    try:
        return now - path.stat().st_mtime > limit
    except OSError:
        return True


def _take_over(path: Path, temporary: Path, stale: Holder) -> bool:
    """Replace a stale lease; of several processes that want to, the one that makes the claim does."""
    claim = path.with_name(f"{path.name}.claim-{stale.token}")
    if not _link(temporary, claim) and not (_discard_stale(claim) and _link(temporary, claim)):
        return False
    try:
        # The claim of an earlier winner may be gone already, with the lease replaced.
        found = read(path)
        if found is not None and found.token != stale.token:
            return False
        temporary.replace(path)
        return True
    finally:
        claim.unlink(missing_ok=True)


def _link(source: Path, target: Path) -> bool:
    """Whether ``target`` could be made: not where it exists."""
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    return True


def _discard_stale(claim: Path) -> bool:
    """Remove the claim of a process that was killed while it took over; False where somebody holds it.

    It is moved aside before it is deleted, so that a new claim made in between is seen and put back.
    """
    claimant = read(claim)
    if claimant is not None and not _is_stale(claim, claimant, "", _clock(claim.parent)):
        return False
    aside = claim.with_name(f"{claim.name}.{secrets.token_hex(8)}")
    try:
        os.rename(claim, aside)  # noqa: PTH104 - tests count Path.rename
    except FileNotFoundError:
        return True
    try:
        return read(aside) == claimant or not _link(aside, claim)
    finally:
        aside.unlink(missing_ok=True)


def _refresh(path: Path, mine: Holder, stop: threading.Event) -> None:
    while not stop.wait(REFRESH_S):
        found = read(path)
        if found is not None and found.token != mine.token and not stop.is_set():
            print(
                f"xling: {mine.what}: {found} has taken over; this process ends", file=sys.stderr, flush=True
            )
            os._exit(LOST_EXIT_CODE)
        with contextlib.suppress(OSError):
            os.utime(path)


def _clock(folder: Path) -> float:
    """Now, by the clock of the file system; by ours where nothing can be written."""
    probe = folder / f".clock.{secrets.token_hex(8)}"
    try:
        probe.touch()
        return probe.stat().st_mtime
    except OSError:
        return time.time()
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)


def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()} {boot} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115 - no file
    except OSError:
        return socket.gethostname()


def _start(pid: int) -> int:
    """Start time of a process in clock ticks since the boot; 0 when unknown, -1 when it is gone or a zombie."""
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
