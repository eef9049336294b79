"""The configuration files of the test bed as text; every path stands in quotes, so spaces are fine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Bed:
    """Parameters of the test bed.

    Attributes:
        directory: holds the files of every daemon, with mode 0700.
        hostname: name of this machine as Slurm sees it.
        controller_port: TCP port of slurmctld.
        node_ports: TCP port of each slurmd; their number is the number of nodes.
        cpus: CPUs that each node claims; may be more than the machine has.
        mem_mb: memory that each node claims, MiB.
        min_job_age_s: seconds after which a finished job is forgotten by slurmctld.
        slurmd_timeout_s: seconds after which a node that does not answer is lost. Nodes are asked for the list of
            their jobs every 6.7 times that.
        database_port: TCP port of MariaDB, 0 without accounting.
        accounting_port: TCP port of slurmdbd, 0 without accounting.
    """

    directory: Path
    hostname: str
    controller_port: int
    node_ports: tuple[int, ...]
    cpus: int = 4
    mem_mb: int = 4096
    min_job_age_s: int = 300
    slurmd_timeout_s: int = 300
    database_port: int = 0
    accounting_port: int = 0

    @property
    def node_names(self) -> list[str]:
        """Names of the nodes: ``n1``, ``n2``, ..."""
        return [f"n{i + 1}" for i in range(len(self.node_ports))]

    @property
    def cluster(self) -> str:
        """Name of the cluster: two test beds on one machine differ."""
        return f"xling{self.controller_port}"

    @property
    def slurm_conf(self) -> Path:
        """Path of ``slurm.conf``, for ``SLURM_CONF``."""
        return self.directory / "slurm.conf"

    @property
    def munge_socket(self) -> Path:
        """Path of the socket of munged."""
        return self.directory / "munge.socket"

    @property
    def prolog(self) -> Path:
        """The script that each node runs before a job; it fails, and the node is drained, while `broken` exists."""
        return self.directory / "prolog"

    @property
    def broken(self) -> Path:
        """The file that makes nodes fail to start jobs."""
        return self.directory / "broken"


def slurm_conf(bed: Bed) -> str:
    """Return the text of slurm.conf.

    ``cred_expire`` is also the time that a requeued job must wait before it starts again (120 s by default).
    """
    accounting = ["AccountingStorageType=accounting_storage/none", "JobAcctGatherType=jobacct_gather/none"]
    if bed.accounting_port:
        accounting = [
            "AccountingStorageType=accounting_storage/slurmdbd",
            "AccountingStorageHost=127.0.0.1",
            f"AccountingStoragePort={bed.accounting_port}",
            f'AccountingStoragePass="{bed.munge_socket}"',
            "JobAcctGatherType=jobacct_gather/linux",
        ]
    names = bed.node_names
    nodes = [
        f"NodeName={name} NodeHostname={bed.hostname} NodeAddr=127.0.0.1 Port={port}"
        f" CPUs={bed.cpus} RealMemory={bed.mem_mb} State=UNKNOWN"
        for name, port in zip(names, bed.node_ports, strict=True)
    ]
    lines = [
        f"ClusterName={bed.cluster}",
        f"SlurmctldHost={bed.hostname}(127.0.0.1)",
        f"SlurmctldPort={bed.controller_port}",
        *("SlurmUser=root", "SlurmdUser=root", "AuthType=auth/munge"),
        f'AuthInfo="socket={bed.munge_socket},cred_expire=5"',
        "CredType=cred/munge",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "MpiDefault=none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_CPU_Memory",
        "SlurmdParameters=config_overrides",
        "SchedulerParameters=batch_sched_delay=0,sched_min_interval=50000,bf_interval=2,sched_interval=2",
        "ReturnToService=2",
        f"SlurmdTimeout={bed.slurmd_timeout_s}",
        "KillWait=5",
        "CompleteWait=0",
        f"MinJobAge={bed.min_job_age_s}",
        "JobRequeue=1",
        f'Prolog="{bed.prolog}"',
        "MaxArraySize=10001",
        "DefMemPerCPU=64",
        "SlurmctldDebug=info",
        "SlurmdDebug=info",
        f'StateSaveLocation="{bed.directory}/state"',
        f'SlurmdSpoolDir="{bed.directory}/spool-%n"',
        f'SlurmctldPidFile="{bed.directory}/slurmctld.pid"',
        f'SlurmdPidFile="{bed.directory}/slurmd-%n.pid"',
        f'SlurmctldLogFile="{bed.directory}/slurmctld.log"',
        f'SlurmdLogFile="{bed.directory}/slurmd-%n.log"',
        *accounting,
        *nodes,
        "PreemptType=preempt/partition_prio",
        "PreemptMode=REQUEUE",
        f"PartitionName=main Nodes={','.join(names)} Default=YES MaxTime=INFINITE State=UP PriorityTier=1"
        " PreemptMode=REQUEUE GraceTime=5",
        f"PartitionName=urgent Nodes={','.join(names)} MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF",
    ]
    return "\n".join(lines) + "\n"


def slurmdbd_conf(bed: Bed, password: str) -> str:
    """Return the text of slurmdbd.conf; the file must have mode 0600."""
    lines = [
        "AuthType=auth/munge",
        f'AuthInfo="socket={bed.munge_socket}"',
        "DbdHost=localhost",
        "DbdAddr=127.0.0.1",
        f"DbdPort={bed.accounting_port}",
        "SlurmUser=root",
        "StorageType=accounting_storage/mysql",
        "StorageHost=127.0.0.1",
        f"StoragePort={bed.database_port}",
        "StorageUser=slurm",
        f"StoragePass={password}",
        "StorageLoc=slurm_acct_db",
        f'PidFile="{bed.directory}/slurmdbd.pid"',
        f'LogFile="{bed.directory}/slurmdbd.log"',
        "DebugLevel=info",
    ]
    return "\n".join(lines) + "\n"
