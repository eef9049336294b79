"""Random disturbances of a cluster: three short schedules on a test bed of their own; docs/slurm.md runs more."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from slurm_helpers import ROOT, require_slurm

from tests.slurm.testbed import nemesis
from tests.slurm.testbed.conf_files import Bed
from xling.core.signals import Heartbeat

SCHEDULES = 3


@pytest.mark.slurm
@pytest.mark.timeout(1800)
def test_three_schedules_violate_nothing(tmp_path: Path) -> None:
    require_slurm()
    command = [
        sys.executable,
        "-m",
        "tests.slurm.testbed.nemesis",
        "--seed",
        "19",
        "--schedules",
        str(SCHEDULES),
    ]
    command += ["--disturbances", "1-2", "--dir", str(tmp_path / "bed")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (
        0,
        [f"{SCHEDULES} schedules, 0 with violations"],
    ), done.stdout + done.stderr


def test_a_stopped_training_that_nobody_ends_or_that_looks_healthy_is_a_violation(tmp_path: Path) -> None:
    here = Bed(tmp_path, "host", 1, (2,))
    with subprocess.Popen(["sleep", "60"]) as child:
        os.kill(child.pid, signal.SIGSTOP)
        schedule = nemesis.Schedule(here, tmp_path, random.Random(1))
        for _ in range(100):
            if nemesis.is_stopped(child.pid):
                break
            time.sleep(0.01)

        def look(late_s: float, state: str) -> list[str]:
            schedule.violations.clear()
            schedule.hung["left"] = Heartbeat(time=time.time() - 9 - late_s, due_s=9.0, pid=child.pid)
            schedule.look_at_hung({"left": state})
            return schedule.violations

        assert look(3, "RUNNING") == []
        assert look(30, "HUNG") == []
        assert look(30, "RUNNING") == ["status says left is RUNNING, and it was due 30 s ago"]
        assert schedule.hung
        assert look(61, "HUNG") == ["left was stopped, and still there 61 s after it was due"]
        assert child.wait() == -signal.SIGKILL
    assert look(61, "HUNG") == [] and not schedule.hung
