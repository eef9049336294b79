"""Starting a test bed by the user's command, and waiting for what happens on it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.slurm.testbed import bed
from xling.slurm.record import Event, Part
from xling.slurm.states import JobState, ask_about, run_for_output

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def job_states(ids: Sequence[str]) -> dict[str, JobState]:
    """State by job id (``12`` or ``12_3``)."""
    view = ask_about(ids) if ids else None
    return {job: view.state(job) for job in ids} if view else {}


def start_bed(directory: Path, *options: str) -> None:
    """Start by the command that users have."""
    command = [sys.executable, "-m", "tests.slurm.testbed", "up", "--dir", str(directory), *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def stop_bed(directory: Path) -> None:
    command = [sys.executable, "-m", "tests.slurm.testbed", "down", "--dir", str(directory)]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)


def require_slurm(accounting: bool = False) -> None:
    if reason := bed.obstacle(accounting):
        if os.environ.get("XLING_REQUIRE_SLURM"):
            pytest.fail(f"XLING_REQUIRE_SLURM is set: {reason}")
        pytest.skip(f"SLURM TESTS NOT RUN: {reason}")


def wait_until(ready: Callable[[], object], timeout_s: float = 60, what: str = "") -> None:
    deadline = time.monotonic() + timeout_s
    while not ready():
        if time.monotonic() > deadline:
            jobs, why_not = run_for_output(["squeue", "--long"])
            raise AssertionError(
                f"{what or ready} did not come true within {timeout_s} s; jobs: {jobs or why_not}"
            )
        time.sleep(0.1)


def wait_for_hang(part: Part, timeout_s: float) -> Event:
    """Return the event of a hang. It need not be the last one: the part is submitted again after it."""

    def hangs() -> list[Event]:
        return [event for event in part.events() if "hangs" in str(event.get("reason", ""))]

    try:
        wait_until(hangs, timeout_s, "the hang to be found")
    except AssertionError as failed:
        raise AssertionError(f"{failed}; events of the part: {part.events()}") from None
    return hangs()[0]
