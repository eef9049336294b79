"""Start and stop the test bed.

Usage::

    python -m tests.slurm.testbed up [--nodes 2] [--cpus 4] [--accounting] [--dir DIR]
    python -m tests.slurm.testbed down [--dir DIR]

``up`` prints the two lines to paste into a shell so that sbatch, squeue and xling speak to it.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from tests.slurm.testbed import bed
from xling.core.errors import UserError
from xling.core.output.command_result import tell


def main() -> int:
    """Run the command line; return 2 if the test bed cannot start here, after printing the reason."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.slurm.testbed", description="A real Slurm on one machine."
    )
    parser.add_argument(
        "--dir", type=Path, default=bed.default_directory(), help="private directory of the cluster"
    )
    words = parser.add_subparsers(dest="word", required=True)
    start = words.add_parser("up", help="start munge, slurmctld and the nodes")
    start.add_argument("--nodes", type=int, default=2, help="number of slurmd")
    start.add_argument("--cpus", type=int, default=4, help="CPUs each node claims to have")
    start.add_argument(
        "--accounting", action="store_true", help="also MariaDB and slurmdbd, so that sacct works"
    )
    start.add_argument(
        "--min-job-age", type=int, default=300, help="seconds until a finished job is forgotten"
    )
    stop = words.add_parser("down", help="stop everything and delete the directory")
    for each in (start, stop):
        each.add_argument(
            "--dir", type=Path, default=argparse.SUPPRESS, help="private directory of the cluster"
        )
    given = parser.parse_args()
    try:
        if given.word == "down":
            print(f"ended {len(bed.down(given.dir))} processes of {given.dir}")
            return 0
        bed.up(given.dir, given.nodes, given.cpus, given.accounting, given.min_job_age)
    except UserError as error:
        tell(f"tests.slurm.testbed: {error}")
        return error.exit_code
    for name, value in bed.environment(given.dir).items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
