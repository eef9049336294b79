"""Reading sacct, squeue and scontrol; the texts are from a real Slurm 22.05."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slurm_helpers import job_states

from xling.slurm import states
from xling.slurm.states import JobState, parse_sacct, parse_scontrol, parse_squeue

SACCT = """\
1|RUNNING|0:0|n1
2_0|COMPLETED|0:0|n1
2_1|CANCELLED by 0|0:15|n2
2_[2-4%2]|PENDING|0:0|None assigned
3|FAILED|137:0|n[1-2]
4|OUT_OF_MEMORY|0:125|n1
5|TIMEOUT|0:0|n1
"""
SQUEUE = """\
2_1|2|1|RUNNING|None|n1|9:30|a
2_3|2|3|PENDING|JobArrayTaskLimit||1-00:00:30|a|b
8|8|N/A|PENDING|Dependency||0:00|c
6|6|2-3|PENDING|Priority||0:00|d
9|9|N/A|RUNNING|None|n[1-2]|INVALID|e
"""
SCONTROL = (
    "JobId=7 JobName=r2.count.run UserId=root(0) JobState=FAILED Reason=NonZeroExitCode Dependency=(null) Requeue=1 "
    "Restarts=0 ExitCode=137:0 RunTime=00:01:30 TimeLimit=00:10:00 NodeList=n1 BatchHost=n1\n"
    "JobId=9 ArrayJobId=8 ArrayTaskId=2-3%4 JobName=x JobState=PENDING Reason=Resources ExitCode=0:0 NodeList=(null)\n"
    "JobId=10 ArrayJobId=8 ArrayTaskId=1 JobState=CANCELLED Reason=None ExitCode=0:15 NodeList=n2\n"
    "No jobs in the system\n"
)


def test_sacct() -> None:
    assert parse_sacct(SACCT) == {
        "1": JobState("RUNNING", "", "n1"),
        "2_0": JobState("COMPLETED", "", "n1"),
        "2_1": JobState("CANCELLED", "killed by SIGTERM", "n2"),
        "2_2": JobState("PENDING"),
        "2_3": JobState("PENDING"),
        "2_4": JobState("PENDING"),
        "3": JobState("FAILED", "exit code 137 (SIGKILL)", "n[1-2]"),
        "4": JobState("OUT_OF_MEMORY", "killed by signal 125", "n1"),
        "5": JobState("TIMEOUT", "", "n1"),
    }


def test_squeue() -> None:
    assert parse_squeue(SQUEUE) == {
        "2_1": JobState("RUNNING", "", "n1", "a", 570),
        "2_3": JobState("PENDING", "JobArrayTaskLimit", "", "a|b", 86430),
        "8": JobState("PENDING", "Dependency", "", "c", 0),
        "6_2": JobState("PENDING", "Priority", "", "d", 0),
        "6_3": JobState("PENDING", "Priority", "", "d", 0),
        "9": JobState("RUNNING", "", "n[1-2]", "e", -1),
    }


def test_scontrol() -> None:
    assert parse_scontrol(SCONTROL) == {
        "7": JobState("FAILED", "exit code 137 (SIGKILL)", "n1", name="r2.count.run", ran_s=90),
        "8_2": JobState("PENDING", "Resources", "", name="x"),
        "8_3": JobState("PENDING", "Resources", "", name="x"),
        "8_1": JobState("CANCELLED", "killed by SIGTERM", "n2"),
    }


def fake(monkeypatch: pytest.MonkeyPatch, answers: dict[str, str | None]) -> None:
    monkeypatch.setattr(states, "run_for_output", lambda command: (answers[command[0]], "it failed"))


def test_without_accounting_the_controller_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, {"sacct": None, "squeue": SQUEUE, "scontrol": SCONTROL})
    found = job_states(["7", "9", "99", "8_1"])
    assert {k: v.state for k, v in found.items()} == {
        "7": "FAILED",
        "9": "RUNNING",
        "99": "UNKNOWN",
        "8_1": "CANCELLED",
    }
    assert not found["99"].is_active
    assert found["9"].is_active


def test_the_queue_overrules_the_database_but_not_by_its_clearing_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    squeue = "2_0|2|0|PENDING|BeginTime||0:00|\n3|3|N/A|COMPLETING|NonZeroExitCode|n1|0:09|\n"
    fake(monkeypatch, {"sacct": SACCT, "squeue": squeue, "scontrol": ""})
    found = job_states(["2_0", "3"])
    assert found["2_0"] == JobState("PENDING", "BeginTime", "", "", 0)
    assert found["3"] == JobState("FAILED", "exit code 137 (SIGKILL)", "n[1-2]")


def test_while_the_controller_is_away_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job of which the accounting says that it has ended has ended; of any other nobody knows."""
    fake(monkeypatch, {"sacct": SACCT, "squeue": None, "scontrol": None})
    found = job_states(["1", "3", "99"])
    assert {k: v.state for k, v in found.items()} == {"1": "NO ANSWER", "3": "FAILED", "99": "NO ANSWER"}
    assert not found["99"].is_active


def test_a_job_of_another_name_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller that lost its state gives an id a second time; another cluster has the same ids."""
    squeue = "5|5|N/A|RUNNING|None|n1|0:09|their|job\n"
    fake(monkeypatch, {"sacct": None, "squeue": squeue, "scontrol": ""})
    view = states.ask_about(["5"])
    assert view.state("5", "their|job").state == "RUNNING"
    assert view.state("5", "run.step.run.0a1b2c3d").state == "UNKNOWN"


def test_no_slurm_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    silent = JobState("NO ANSWER", "no squeue is here")
    assert job_states(["1", "2_3"]) == {"1": silent, "2_3": silent}
    assert job_states([]) == {}


@given(st.integers(1, 10**6), st.sets(st.integers(0, 60), min_size=1))
def test_ranges_cover_every_element(job: int, indices: set[int]) -> None:
    pieces = ",".join(map(str, sorted(indices)))
    found = parse_sacct(f"{job}_[{pieces}%7]|PENDING|0:0|None assigned\n")
    assert set(found) == {f"{job}_{i}" for i in indices}
    low, high = min(indices), max(indices)
    assert len(parse_sacct(f"{job}_[{low}-{high}]|PENDING|0:0|\n")) == high - low + 1
