"""Rendezvous of a multi-node training from Slurm's variables, in the words torchrun uses.

A training reads ``MASTER_ADDR``, ``MASTER_PORT``, ``RANK``, ``WORLD_SIZE`` and ``LOCAL_RANK`` and so starts the
same way under torchrun and under Slurm: ``torch.distributed.init_process_group(backend, "env://")``.
"""

import os
import re
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

_FIRST_PORT, _NUM_PORTS = 20_000, 10_000


@dataclass(frozen=True)
class Rendezvous:
    """Address and rank of this process in a distributed training.

    Attributes:
        rank: rank of this process among all, from 0.
        local_rank: index of this process on its node: its GPU.
        address: host of rank 0.
        port: TCP port of rank 0.
        local_size: number of processes on each node, 0 if the nodes differ in it.
    """

    rank: int
    world_size: int
    local_rank: int
    address: str
    port: int
    local_size: int = 0

    def environment(self) -> dict[str, str]:
        """Return the rendezvous as torchrun's variables."""
        return {
            "MASTER_ADDR": self.address,
            "MASTER_PORT": str(self.port),
            "RANK": str(self.rank),
            "WORLD_SIZE": str(self.world_size),
            "LOCAL_RANK": str(self.local_rank),
            **({"LOCAL_WORLD_SIZE": str(self.local_size)} if self.local_size else {}),
        }


def init_from_slurm(environment: Mapping[str, str] | None = None) -> Rendezvous | None:
    """Return the rendezvous of this process, or None outside a Slurm step of several tasks.

    The port follows from the job id, so that jobs that share a node do not meet; ``MASTER_PORT`` overrides it.
    """
    variables = os.environ if environment is None else environment
    world_size = int(variables.get("SLURM_STEP_NUM_TASKS") or variables.get("SLURM_NTASKS") or 1)
    if world_size < 2 or "SLURM_PROCID" not in variables:
        return None
    port_seed = int(variables.get("SLURM_JOB_ID", "0")) * 7 + int(variables.get("SLURM_RESTART_COUNT", "0"))
    tasks = variables.get("SLURM_STEP_TASKS_PER_NODE") or variables.get("SLURM_TASKS_PER_NODE", "")
    alike = re.fullmatch(r"(\d+)(\(x\d+\))?", tasks)  # such as 8(x64); nodes that differ have a longer list
    return Rendezvous(
        rank=int(variables["SLURM_PROCID"]),
        world_size=world_size,
        local_rank=int(variables.get("SLURM_LOCALID", "0")),
        address=variables.get("MASTER_ADDR") or _first_host(variables),
        port=int(variables.get("MASTER_PORT") or _FIRST_PORT + port_seed % _NUM_PORTS),
        local_size=int(alike[1]) if alike else 0,
    )


def _first_host(environment: Mapping[str, str]) -> str:
    """Return the host of rank 0: the first node of the step if its name resolves, else srun's launch address."""
    nodes = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST", "")
    first_host = nodes
    if "[" in nodes or "," in nodes:
        command = ["scontrol", "show", "hostnames", nodes]
        first_host = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]
    try:
        socket.getaddrinfo(first_host, None)
        return first_host
    except OSError:
        # Node names need not be host names; the batch script with its srun runs on the first node.
        return environment.get("SLURM_LAUNCH_NODE_IPADDR") or "127.0.0.1"
