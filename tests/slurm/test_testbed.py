"""Starting and stopping the test bed, stale state, and what it says where it cannot run."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from slurm_helpers import ROOT, require_slurm, start_bed, stop_bed, wait_until

from tests.slurm.testbed import bed
from tests.slurm.testbed.conf_files import Bed, slurm_conf, slurmdbd_conf
from xling.core.errors import UserError


def test_conf_has_no_secret_and_quotes_its_paths() -> None:
    made = Bed(Path("/a b"), "host", 1, (2, 3), database_port=4, accounting_port=5)
    text = slurm_conf(made)
    assert 'StateSaveLocation="/a b/state"' in text
    assert "NodeName=n2 NodeHostname=host NodeAddr=127.0.0.1 Port=3" in text
    assert "AccountingStorageType=accounting_storage/slurmdbd" in text
    assert "hush" not in text
    assert "StoragePass=hush" in slurmdbd_conf(made, "hush")
    assert "accounting_storage/none" in slurm_conf(Bed(Path("/a"), "host", 1, (2,)))


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bed, "_PATH", "/nowhere")
    assert bed.missing_packages() == ["munge", "slurm-client", "slurmctld", "slurmd"]
    assert bed.missing_packages(accounting=True) == [
        "mariadb-server",
        "munge",
        "slurm-client",
        "slurmctld",
        "slurmd",
        "slurmdbd",
    ]
    with pytest.raises(
        UserError, match="apt-get install munge slurm-client slurmctld slurmd; fix: run tests/slurm/testbed"
    ):
        bed.up(tmp_path / "bed")
    assert not (tmp_path / "bed").exists()


def test_without_root_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bed, "missing_packages", lambda accounting: [])
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    assert bed.obstacle() == "slurmd and munged need root here"


def test_install_script_is_loud_where_it_cannot(tmp_path: Path) -> None:
    """As a user who is not root and has no Slurm: a stand-in for `id`, and an empty PATH otherwise."""
    fake = tmp_path / "id"
    fake.write_text("#!/bin/sh\necho 1000\n")
    fake.chmod(0o755)
    text = (
        (ROOT / "tests/slurm/testbed/install.sh").read_text().replace(":/usr/local/sbin:/usr/sbin:/sbin", "")
    )
    script = tmp_path / "install.sh"
    script.write_text(text)
    done = subprocess.run(
        ["/bin/sh", str(script)], env={"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.returncode == 75
    assert "SLURM TESTS NOT RUN: the test bed must be started by root" in done.stderr
    assert "slurmctld slurmd sbatch munged" in done.stderr


@pytest.mark.slurm
def test_up_twice_then_down_leaves_nothing(tmp_path: Path) -> None:
    require_slurm()
    directory = bed.default_directory().with_name(f"xling up {os.getpid()}")
    start_bed(directory, "--nodes", "2")
    try:
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        again = [sys.executable, "-m", "tests.slurm.testbed", "up", "--dir", str(directory)]
        done = subprocess.run(again, capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 2
        assert "a test bed is up" in done.stderr
        env = os.environ | bed.environment(directory)
        subprocess.run(
            ["sbatch", "--output=/dev/null", "--wrap", "srun sleep 300"], env=env, check=True, cwd=tmp_path
        )
        wait_until(lambda: len(bed.stragglers(directory)) >= 4, 30, "a running job")
        pids = [*json.loads((directory / "daemons.json").read_text()).values(), *bed.stragglers(directory)]
    finally:
        stop_bed(directory)
    assert not directory.exists()
    assert [pid for pid in pids if not bed._ended(pid)] == []
    stop_bed(directory)  # nothing to do is no mistake


@pytest.mark.slurm
def test_stale_state_is_cleared(tmp_path: Path) -> None:
    require_slurm()
    directory = bed.default_directory().with_name(f"xling stale {os.getpid()}")
    start_bed(directory, "--nodes", "1")
    try:
        for pid in json.loads((directory / "daemons.json").read_text()).values():
            os.kill(pid, 9)
        # A recycled process id must not be taken for a daemon: this process stands in the record too.
        record = json.loads((directory / "daemons.json").read_text()) | {"slurmd-n9": os.getpid()}
        (directory / "daemons.json").write_text(json.dumps(record))
        start_bed(directory, "--nodes", "1")
    finally:
        stop_bed(directory)


def test_a_directory_of_someone_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(UserError, match="is not a test bed"):
        bed.down(tmp_path)
    assert (tmp_path / "thesis.tex").exists()
