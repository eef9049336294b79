"""Starting and stopping the daemons of the test bed.

Everything lives in one private directory; `down` ends what stands in its ``daemons.json`` and what Slurm
started from there, and nothing else.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from tests.slurm.testbed.conf_files import Bed, slurm_conf, slurmdbd_conf
from xling.core.errors import UserError

PROGRAMS = {"munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client"}
ACCOUNTING_PROGRAMS = {"slurmdbd": "slurmdbd", "mariadbd": "mariadb-server", "sacct": "slurm-client"}
START_TIMEOUT_S = 60.0
_spawned: list[subprocess.Popen[bytes]] = []  # daemons outlive the process that starts them
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def default_directory() -> Path:
    """Return the default directory of the test bed: one per user."""
    return Path(tempfile.gettempdir()) / f"xling-testbed-{os.getuid()}"


def missing_packages(accounting: bool = False) -> list[str]:
    """Return the missing Debian packages, sorted."""
    wanted = PROGRAMS | (ACCOUNTING_PROGRAMS if accounting else {})
    return sorted({package for program, package in wanted.items() if not shutil.which(program, path=_PATH)})


def obstacle(accounting: bool = False) -> str:
    """Return why the test bed cannot start on this machine, or ""."""
    if packages := missing_packages(accounting):
        return f"packages are missing: apt-get install {' '.join(packages)}"
    if os.getuid() != 0:
        return "slurmd and munged need root here"
    return ""


def up(
    directory: Path,
    nodes: int = 2,
    cpus: int = 4,
    accounting: bool = False,
    min_job_age_s: int = 300,
    slurmd_timeout_s: int = 300,
) -> Bed:
    """Start the cluster and return it once every node is idle; what an earlier run left is cleared first.

    Raises:
        UserError: packages or root are missing, one is up there already, or a daemon did not come up.
    """
    if reason := obstacle(accounting):
        raise UserError(
            f"the Slurm test bed cannot start: {reason}", fix="run tests/slurm/testbed/install.sh as root"
        )
    directory = directory.absolute()
    if '"' in str(directory) or "%" in str(directory) or len(str(directory)) > 80:
        raise UserError(
            f"test bed in {str(directory)!r}",
            'a path of at most 80 characters without " and % (sockets are short)',
        )
    if any(_is_ours(pid, directory) for pid in _recorded(directory)):
        raise UserError(
            f"a test bed is up in {directory}", fix=f"python -m tests.slurm.testbed down --dir '{directory}'"
        )
    down(directory)
    directory.mkdir(parents=True)
    directory.chmod(0o700)
    ports = _free_ports(nodes + 3)
    bed = Bed(
        directory,
        socket.gethostname().split(".")[0],
        controller_port=ports[0],
        node_ports=tuple(ports[3:]),
        cpus=cpus,
        min_job_age_s=min_job_age_s,
        slurmd_timeout_s=slurmd_timeout_s,
        database_port=ports[1] if accounting else 0,
        accounting_port=ports[2] if accounting else 0,
    )
    try:
        _start_all(bed)
    except BaseException:
        _stop_processes(directory)
        raise
    (directory / "bed.json").write_text(json.dumps(asdict(bed), default=str))
    return bed


def opened(directory: Path) -> Bed:
    """Return the test bed that runs in ``directory``."""
    facts = json.loads((directory.absolute() / "bed.json").read_text())
    return Bed(**facts | {"directory": directory.absolute(), "node_ports": tuple(facts["node_ports"])})


def start_daemon(bed: Bed, name: str) -> None:
    """Start ``slurmctld``, or ``slurmd-NODE``, again or for the first time."""
    program, _, node = name.partition("-")
    _spawn(bed, program, ["-D", *(["-N", node] if node else []), "-f", str(bed.slurm_conf)], name=name)


def signal_daemon(bed: Bed, name: str, number: signal.Signals, wait_s: float = 10.0) -> None:
    """Send a signal to a daemon by its name in ``daemons.json``; wait for its end if it ends."""
    pid = json.loads((bed.directory / "daemons.json").read_text())[name]
    if not _is_ours(pid, bed.directory):
        return
    _send([pid], number)
    deadline = time.monotonic() + wait_s
    while number in (signal.SIGKILL, signal.SIGTERM) and not _ended(pid) and time.monotonic() < deadline:
        time.sleep(0.05)


def down(directory: Path) -> list[int]:
    """Stop what runs in ``directory``, delete it, and return the ids of the processes that were ended."""
    directory = directory.absolute()
    ended = _stop_processes(directory)
    if (directory / "slurm.conf").exists() or (directory / "daemons.json").exists():
        shutil.rmtree(directory)
    elif directory.exists() and any(directory.iterdir()):
        raise UserError(f"{directory} is not a test bed", fix="choose another --dir, or move it away")
    elif directory.exists():
        directory.rmdir()
    return ended


def environment(directory: Path) -> dict[str, str]:
    """Return the environment variables with which Slurm's commands use this cluster."""
    return {"SLURM_CONF": str(directory.absolute() / "slurm.conf"), "XLING_SITE": str(site(directory))}


def site(directory: Path) -> Path:
    """Return the site profile of the test bed."""
    return directory.absolute() / "site.yaml"


def _start_all(bed: Bed) -> None:
    here = bed.directory
    (here / "daemons.json").write_text("{}")
    bed.slurm_conf.write_text(slurm_conf(bed))
    bed.prolog.write_text('#!/bin/sh\ntest ! -e "$(dirname "$0")/broken"\n')
    bed.prolog.chmod(0o755)
    for name in ["state", *(f"spool-{node}" for node in bed.node_names)]:
        (here / name).mkdir()
    site(here).write_text(
        "# Site profile of the test bed: everything small, and quick to end.\n"
        "default:\n  partition: main\n  cpus_per_task: 1\n  mem_gb: 0.5\n  timeout_min: 10\n  signal_delay_s: 20\n"
    )
    key = here / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    files = {
        "key-file": key,
        "socket": bed.munge_socket,
        "pid-file": here / "munged.pid",
        "seed-file": here / "seed",
    }
    options = [f"--{name}={path}" for name, path in files.items()]
    _spawn(bed, "munged", ["--foreground", "--force", "--num-threads=10", *options])
    _wait("munged", bed.munge_socket.exists, bed)
    if bed.accounting_port:
        _start_accounting(bed)
    start_daemon(bed, "slurmctld")
    _wait("slurmctld", lambda: _listens(bed.controller_port), bed)
    for node in bed.node_names:
        start_daemon(bed, f"slurmd-{node}")
    _wait("slurmd", lambda: _idle_nodes(bed) == len(bed.node_names), bed)


def _start_accounting(bed: Bed) -> None:
    """Start MariaDB on a free loopback port, and slurmdbd on top of it."""
    data, password = bed.directory / "mariadb", secrets.token_hex(16)
    # mariadb-install-db cannot write to a path with a space in it.
    with tempfile.TemporaryDirectory(prefix="xling-mariadb-") as temporary:
        install = ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={temporary}/data"]
        _call([*install, "--auth-root-authentication-method=normal", "--skip-test-db"])
        shutil.move(f"{temporary}/data", data)
    first = bed.directory / "first.sql"
    first.touch(mode=0o600)
    first.write_text(
        f"CREATE USER slurm@localhost IDENTIFIED BY '{password}';\n"
        "CREATE DATABASE slurm_acct_db;\nGRANT ALL ON slurm_acct_db.* TO slurm@localhost;\n"
    )
    places = [f"--datadir={data}", f"--socket={bed.directory}/mariadb.socket", f"--init-file={first}"]
    network = ["--bind-address=127.0.0.1", f"--port={bed.database_port}"]
    _spawn(bed, "mariadbd", ["--no-defaults", "--user=root", *places, *network])
    out = bed.directory / "mariadbd.out"
    # It listens before it has read the init file, so the port alone says too little.
    _wait("mariadbd", lambda: "ready for connections" in out.read_text(errors="replace"), bed)
    first.unlink()
    conf = bed.directory / "slurmdbd.conf"
    conf.touch(mode=0o600)
    conf.write_text(slurmdbd_conf(bed, password))
    _spawn(bed, "slurmdbd", ["-D"])
    _wait("slurmdbd", lambda: _listens(bed.accounting_port), bed)
    _call(["sacctmgr", "-i", "add", "cluster", bed.cluster], bed)


def _spawn(bed: Bed, program: str, arguments: Sequence[str], name: str = "") -> None:
    """Start a daemon in its own session and record its process id."""
    name = name or program
    path = shutil.which(program, path=_PATH)
    assert path, program
    with (bed.directory / f"{name}.out").open("ab") as out:
        process = subprocess.Popen(
            [path, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=bed.directory,
            env=_daemon_environment(bed),
        )
    _spawned.append(process)
    record = bed.directory / "daemons.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {name: process.pid}))


def _daemon_environment(bed: Bed) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "SBATCH", "MYSQL"))}
    return kept | {"SLURM_CONF": str(bed.slurm_conf), "PATH": _PATH}


def _call(command: list[str], bed: Bed | None = None) -> str:
    """Return the output of a command; its error text becomes the message when it fails."""
    command = [shutil.which(command[0], path=_PATH) or command[0], *command[1:]]
    env = _daemon_environment(bed) if bed else os.environ | {"PATH": _PATH}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        raise UserError(
            f"{Path(command[0]).name} failed: {' '.join((done.stderr or done.stdout).split())}",
            fix="look at the logs of the bed",
        )
    return done.stdout


def _wait(what: str, ready: Callable[[], bool], bed: Bed) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not ready():
        dead = [
            n for n, pid in json.loads((bed.directory / "daemons.json").read_text()).items() if _ended(pid)
        ]
        if dead or time.monotonic() > deadline:
            name = dead[0] if dead else what
            outs = sorted(bed.directory.glob(f"{name}*.out"))
            tail = " | ".join(
                line for out in outs for line in out.read_text(errors="replace").splitlines()[-4:]
            )
            raise UserError(
                f"{name} did not come up within {START_TIMEOUT_S:.0f} s: {tail}",
                fix="look at the logs of the bed",
            )
        time.sleep(0.1)


def _idle_nodes(bed: Bed) -> int:
    try:
        return len(set(_call(["sinfo", "-h", "-N", "-t", "idle", "-o", "%N"], bed).split()))
    except UserError:
        return 0


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _recorded(directory: Path) -> list[int]:
    try:
        return list(json.loads((directory / "daemons.json").read_text()).values())
    except (OSError, json.JSONDecodeError):
        return []


def process_file(pid: int, name: str) -> bytes:
    """Return the content of a file of ``/proc/PID``, empty if the process is gone."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _ended(pid: int) -> bool:
    """Return whether the process is gone or an uncollected zombie."""
    stat = process_file(pid, "stat")
    if stat.rpartition(b")")[2].split()[:1] != [b"Z"]:
        return not stat
    return True


def _is_ours(pid: int, directory: Path) -> bool:
    """Return whether ``pid`` was started for this directory: a recycled id never is."""
    mark = f"SLURM_CONF={directory}/slurm.conf".encode()
    return mark in process_file(pid, "environ").split(b"\0")


def stragglers(directory: Path) -> list[int]:
    """Return the processes of steps and tasks that Slurm started here; never a user's shell."""
    pids = []
    for pid in (int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()):
        in_job = b"\0SLURM_JOB_ID=" in b"\0" + process_file(pid, "environ")
        step = process_file(pid, "cmdline").startswith(b"slurmstepd")
        if (in_job or step) and pid != os.getpid() and _is_ours(pid, directory):
            pids.append(pid)
    return pids


def _stop_processes(directory: Path) -> list[int]:
    daemons = [pid for pid in _recorded(directory) if _is_ours(pid, directory)]
    ended = [*stragglers(directory), *reversed(daemons)]
    _send(daemons, signal.SIGTERM)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and not all(map(_ended, ended)):
        # A step monitor does not listen to SIGTERM, and new ones may appear until slurmd has gone.
        _send(stragglers(directory), signal.SIGKILL)
        time.sleep(0.05)
    late = [*stragglers(directory), *(pid for pid in ended if not _ended(pid))]
    _send(late, signal.SIGKILL)
    return sorted({*ended, *late})


def _send(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
