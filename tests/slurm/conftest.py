"""A test bed for the tests marked ``slurm``; where it cannot start they are reported as NOT RUN."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_helpers import HERE, ROOT, require_slurm, start_bed, stop_bed

from tests.slurm.testbed import bed


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of a running cluster of two nodes, with a space in its path."""
    require_slurm()
    directory = Path(tmp_path_factory.mktemp("c", numbered=True)) / "test bed"
    if len(str(directory)) > 80:  # a socket's path is short
        directory = bed.default_directory().with_name(f"xling tests {os.getpid()}")
    start_bed(directory, "--nodes", "2", "--cpus", "8")
    yield directory
    alive = subprocess.run(
        ["scontrol", "ping"], env=os.environ | bed.environment(directory), capture_output=True
    )
    log = (directory / "slurmctld.log").read_text(errors="replace").splitlines()[-20:]
    stop_bed(directory)
    assert alive.returncode == 0, "slurmctld has died: " + "\n".join(log)


@pytest.fixture
def on_cluster(cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory, with a space in its name, from which jobs go to the test bed."""
    work = tmp_path / "my work"
    work.mkdir()
    for name, value in bed.environment(cluster).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(HERE)]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.chdir(work)
    yield work
    subprocess.run(["scancel", "--user", "root"], check=False)
    # A test that kills the controller lets it give a number of a job twice; Slurm drains the node ("Duplicate jobid").
    for node in ("n1", "n2"):
        subprocess.run(["scontrol", "update", f"NodeName={node}", "State=RESUME"], capture_output=True)
