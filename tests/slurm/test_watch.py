"""Hangs: the watcher finds the process that the others wait for, ends the job and leaves out its node."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
from slurm_helpers import wait_for_hang, wait_until
from slurm_stages import COUNT, LOCKSTEP, CountConfig, LockstepConfig
from test_cluster import opened, outcome_of

from tests.slurm.testbed import bed
from xling.core import signals, stack_dump
from xling.core.errors import UserError
from xling.core.settings.config import to_dict
from xling.slurm import array_task, launch, reconcile, status, submission_decisions, watch
from xling.slurm import submit as queue
from xling.slurm.reconcile import view_of
from xling.slurm.record import Part, Run, Step, StepPlan
from xling.slurm.resources import Resources, Site
from xling.slurm.states import JobState, QueueView

MARK = "7.0"
WAITING = [
    "distributed_c10d.py:2 all_reduce",
    "c10d_logger.py:8 wrapper",
    "ddp.py:9 average",
    "train.py:1 _train",
]
WORKING = ["fs.py:2 read", "train.py:1 _train"]


@pytest.fixture
def step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Step:
    """A part of two processes in job 7."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.delenv("SLURM_RESTART_COUNT", raising=False)
    asked = Resources(tasks_per_node=2, hang_slack_s=5)
    plan = StepPlan(COUNT, (to_dict(CountConfig(tmp_path / "m")),), (), asked, Resources())
    run = Run(tmp_path / "r", "slurm", {"count": plan})
    run.create()
    run.steps["count"].mark_accepted(
        run.steps["count"].record_intent("array", phase="run", indices=[0]), ["7"]
    )
    return run.steps["count"]


@pytest.fixture
def part(step: Step) -> Part:
    return step.part("run", 0)


def write(part: Part, rank: int, due: float = 20.0, mark: str = MARK, **facts: object) -> None:
    beat = signals.Heartbeat(
        done=40,
        total=90,
        unit="updates",
        time=time.time(),
        rank=rank,
        node=f"n{rank + 1}",
        job=mark,
        due_s=due,
    )
    part.heartbeat_of(rank).write_text(json.dumps(to_dict(replace(beat, **facts))))  # type: ignore[arg-type]


def write_stack(part: Part, rank: int, frames: list[str]) -> None:
    lines = [
        f'  File "/x/{f.partition(":")[0]}", line {f.split()[0].partition(":")[2]} in {f.split()[1]}'
        for f in frames
    ]
    text = "main thread 0x1\nTimeout (0:00:09)!\nThread 0x2 (most recent call first):\n"
    text += '  File "/x/t.py", line 1 in wait\n'
    text += "\n".join(["Thread 0x1 [python] (most recent call first):", *lines])
    stack_dump.stack_path(part.heartbeat_of(rank)).write_text(text + "\n")


def test_a_heartbeat_that_does_not_change_is_late(part: Part) -> None:
    """By the clock of the watcher, whatever time the node wrote."""
    watcher = watch.Watcher(part)
    assert watcher.late_processes(0.0) == []
    write(part, 0, time=time.time() + 900)
    write(part, 1, due=40.0, time=time.time() - 900)
    assert watcher.late_processes(100.0) == []
    assert watcher.late_processes(122.0) == []
    assert watcher.late_processes(124.0) == [], "the other one may become late, too"
    assert [beat.rank for beat in watcher.late_processes(130.0)] == [0]
    write(part, 0, done=41)
    assert watcher.late_processes(131.0) == []
    assert [beat.rank for beat in watcher.late_processes(150.0)] == [1]
    assert [beat.rank for beat in watcher.late_processes(155.0)] == [0, 1]
    write(part, 0, due=0.0, done=42)  # it has left the loop of updates
    write(part, 1, mark="7.1")
    assert [beat.rank for beat in watcher.late_processes(1e6)] == [1]


def test_a_process_that_never_reported_is_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: Part
) -> None:
    """It is named with its node, and a stack that an earlier start left is not taken for its own."""
    called: list[str] = []

    def answer(command: list[str]) -> tuple[str | None, str]:
        called.append(" ".join(command))
        return ("n1\nn2\n", "") if "hostnames" in command else ("", "")

    asked = Resources(nodes=2, hang_slack_s=5, hang_start_s=60)
    part.step.plan = replace(part.step.plan, resources=asked)
    monkeypatch.setattr(watch, "run_for_output", answer)
    monkeypatch.setattr(watch, "CONTINUED_S", 0.1)
    watcher, began = watch.Watcher(part, "k"), time.monotonic() - 90
    watcher.expect_all(began)
    write_stack(part, 1, WORKING)
    write(part, 0, due=1800.0)
    assert watcher.late_processes(began + 50) == watcher.late_processes(began + 64) == []
    late = watcher.late_processes(began + 90)
    assert [beat.rank for beat in late] == [1]
    watcher.end_hanging(late)
    assert part.last_event()["reason"] == (
        "rank 1 on n2 (of 2, 1 are late) hangs after 0 updates during the start: no heartbeat for 90 s, due after"
        " 60 s; stack: it did not answer"
    )
    assert part.last_event()["exclude"] == ["n2"]
    assert called[-1] == "scancel --signal=KILL 7.0"
    part.step.plan = replace(part.step.plan, resources=Resources(tasks_per_node=2, hang_slack_s=5))
    calm = watch.Watcher(part, "k")
    calm.expect_all(0.0)
    assert calm.last_beats == {}, "where the site sets no limit"


def test_heartbeats_of_an_earlier_start_do_not_count(part: Part) -> None:
    for rank in (0, 1):
        write(part, rank, mark="6.0")
    watcher = watch.Watcher(part)
    watcher.late_processes(0.0)
    assert watcher.late_processes(1e6) == []


@pytest.mark.parametrize(
    ("frames", "guilty"),
    [
        ({0: WAITING, 1: []}, [1]),  # stopped: it writes nothing
        ({0: WAITING, 1: WORKING}, [1]),
        ({0: WORKING, 1: WAITING}, [0]),
        ({0: WAITING, 1: WAITING}, [0, 1]),
    ],
)
def test_the_one_that_the_others_wait_for(
    part: Part, frames: dict[int, list[str]], guilty: list[int]
) -> None:
    watcher = watch.Watcher(part)
    for rank, stack in frames.items():
        write(part, rank)
        if stack:
            write_stack(part, rank, stack)
            assert watcher.frames(signals.Heartbeat(rank=rank)) == stack
    watcher.late_processes(0.0)
    assert [beat.rank for beat in watcher.hanging(watcher.late_processes(99.0))] == guilty


def test_a_hang_is_recorded_with_rank_node_and_stack_and_ends_the_step(
    part: Part, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []

    def answer(command: list[str]) -> tuple[str | None, str]:
        called.append(" ".join(command))
        if "--signal=CONT" in command:
            write_stack(part, 1, WORKING)
        return None if called.count("scancel --signal=KILL 7.0") == 1 else "", ""

    monkeypatch.setattr(watch, "run_for_output", answer)
    monkeypatch.setattr(watch, "RETRY_S", 0.0)
    for rank in (0, 1):
        write(part, rank, doing="validation" if rank else "")
    write_stack(part, 0, WAITING)
    os.mkfifo(part.heartbeat_path.with_name(part.heartbeat_path.name + ".ask0.pipe"))  # nobody reads it
    monkeypatch.setattr(watch, "RECORDERS_S", 0.0)
    watcher = watch.Watcher(part, "k")
    watcher.late_processes(time.monotonic() - 40)
    watcher.end_hanging(watcher.late_processes(time.monotonic()))
    assert called == ["scancel --signal=CONT 7.0", *["scancel --signal=KILL 7.0"] * 2]
    event = part.last_event()
    assert event["reason"] == (
        "rank 1 on n2 (of 2, 2 are late) hangs after 40 updates during validation: no heartbeat for 40 s, due after"
        " 20 s; stack: fs.py:2 read in train.py:1 _train"
    )
    assert (event["event"], event["exclude"], event["key"], event["counts"]) == ("lost", ["n2"], "k", True)
    assert submission_decisions.has_ended(part, "k")
    assert submission_decisions.nodes_to_exclude([part]) == ["n2"]
    part.append("reset")
    assert submission_decisions.nodes_to_exclude([part]) == []


def test_status_names_hung_and_slow_processes(part: Part, step: Step) -> None:
    entry = step.jobs()[0]
    view = QueueView(jobs={"7": JobState("RUNNING", name=step.job_name(entry))})
    part.append("start", saved=0, job="7", node="n1")
    write(part, 0, own_s=0.21, rate=2.5, tokens_per_s=300.0)
    write(part, 1, own_s=0.44)
    shown = status.step_status(step, view)
    assert (shown.state, shown.tokens_per_s, shown.left) == ("RUNNING", "300", "0:00:20")
    assert shown.reason == "slow: rank 1 on n2, 0.44 s of its own an update, the others 0.21 s"
    write(part, 1, own_s=0.25, time=time.time() + 0.5)
    assert status.step_status(step, view).reason == ""
    write(part, 0, rate=2.5, time=time.time() + 1, due=-60.0)
    shown = status.step_status(step, view)
    assert (shown.state, shown.tokens_per_s, shown.left) == ("HUNG", "", "")
    assert shown.reason == "rank 0 on n1 makes no progress: its heartbeat is 0:00:59 late"
    part.append("start", saved=0, job="7", node="n1")
    write(part, 0, rate=2.5, time=time.time() - 90)
    assert status.step_status(step, view).state == "RUNNING", "the heartbeat of an earlier start"


def test_status_names_processes_without_an_update_within_two_minutes(
    monkeypatch: pytest.MonkeyPatch, part: Part, step: Step
) -> None:
    """One hangs before its first heartbeat, or its node is lost; the other waits for it."""
    step.plan = replace(step.plan, resources=Resources(nodes=2, hang_slack_s=5, hang_start_s=600))
    monkeypatch.setattr(
        watch, "run_for_output", lambda command: ("n1\nn2\n" if command[-1] == "n[1-2]" else "", "")
    )

    def shown(ran_s: int) -> str:
        state = JobState("RUNNING", node="n[1-2]", name=step.job_name(step.jobs()[0]), ran_s=ran_s)
        return status.step_status(step, QueueView(jobs={"7": state})).reason

    write(part, 1, time=time.time() - 5000, mark="6.0")  # of an earlier job
    missing = "rank {} on n{} of 2 has not started 0:01:40 after its job began"
    assert shown(100) == f"{missing.format(0, 1)}; {missing.format(1, 2)}", "the program has not begun at all"
    assert shown(80) == ""
    part.append("start", saved=0, job="7", node="n1")
    write(part, 0, doing=signals.STARTING)
    assert shown(100) == (
        f"rank 0 on n1 of 2 has not reached its first update 0:01:40 after its job began; {missing.format(1, 2)}"
    )
    for rank in (0, 1):
        write(part, rank)
    assert shown(100) == ""


def test_status_names_a_part_of_any_stage_that_has_not_started(
    monkeypatch: pytest.MonkeyPatch, part: Part, step: Step
) -> None:
    """The record of its start is enough for a stage that writes no heartbeats."""
    step.plan = replace(step.plan, resources=Resources(timeout_min=5))
    monkeypatch.setattr(watch, "run_for_output", lambda command: ("n1\n", ""))

    def shown(ran_s: int = 100) -> str:
        state = JobState("RUNNING", node="n1", name=step.job_name(step.jobs()[0]), ran_s=ran_s)
        return status.step_status(step, QueueView(jobs={"7": state})).reason

    key = step.arrays()[0]["key"]
    part.append("start", saved=0, job="7", node="n1", key=key, time=time.time() - 5000)  # of an earlier job
    assert shown() == "rank 0 on n1 of 1 has not started 0:01:40 after its job began"
    assert shown(80) == ""
    part.append("start", saved=0, job="7", node="n1", key=key)
    assert shown() == ""


def test_a_part_that_runs_in_the_job_of_another_waits_there(part: Part, step: Step) -> None:
    step.mark_accepted(step.record_intent("array", phase="run", indices=[0], inline=True), ["7"])
    step.plan = replace(step.plan, resources=Resources(timeout_min=5))
    job = JobState("RUNNING", node="n1", name=step.job_name(step.arrays()[-1]), ran_s=1000)
    assert status.step_status(step, QueueView(jobs={"7": job})).reason == ""


def test_status_names_the_node_that_does_not_end_its_job(step: Step) -> None:
    """A lost node: its job was ended by the others and stays COMPLETING until Slurm gives the node up."""
    job = JobState("COMPLETING", node="n2", name=step.job_name(step.jobs()[0]), ran_s=0)
    shown = status.step_status(step, QueueView(jobs={"7": job}))
    assert (shown.state, shown.reason) == (
        "COMPLETING",
        "waits for n2 to end the job; if this lasts, the node is lost",
    )


def test_the_watcher_stands_in_the_scripts_of_watched_parts_alone(step: Step, tmp_path: Path) -> None:
    parts = [step.part("run", 0)]
    text = queue.script(queue.jobs_of(step, "array", "k", parts=parts, exclude=["n2", "n5"]))
    lines = text.splitlines()
    (line,) = [number for number, each in enumerate(lines) if "xling.slurm.watch" in each]
    assert lines[line].endswith(f"{tmp_path}/r count k & trap 'kill '$!' 2>/dev/null' EXIT")
    assert any(each.startswith("srun ") for each in lines[line:])
    assert "#SBATCH --exclude=n2,n5" in lines
    assert "xling.slurm.watch" not in queue.script(queue.jobs_of(step, "collect", "k"))
    calm = Site().resources("corpus mono", {"sbatch.exclude": "n9"})
    assert "slurm.watch" not in queue.script(
        queue.make_executor(tmp_path, "n", ("array",), calm, exclude=["n2"])
    )
    assert "--exclude=n9,n2" in queue.script(
        queue.make_executor(tmp_path, "n", ("array",), calm, exclude=["n2"])
    )
    assert Site().resources("pretrain").hang_slack_s == 35
    assert Site().resources("pretrain").hang_start_s == 600
    assert Site().resources("pretrain", {"hang_slack_s": "0"}).hang_slack_s == 0


def test_where_the_cluster_is_too_small_no_node_is_left_out(
    step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = step.part("run", 0)
    part.append("lost", reason="hangs", exclude=["n2"], counts=True)
    submitted: list[bool] = []

    def submit(jobs: queue.Executor, num_elements: int = 1) -> str:
        submitted.append("--exclude=n2" in queue.script(jobs))
        if submitted[-1]:
            raise UserError("Slurm refused the command sbatch: Requested node configuration is not available")
        return "9"

    monkeypatch.setattr(queue, "submit", submit)
    reconciler = reconcile._Reconciler(step.run, QueueView(), False, False)
    assert reconciler._submit(step, "array", parts=[part]) == ["9"]
    assert submitted == [True, False]
    assert [bool(entry.get("void")) for entry in step.jobs()] == [False, True, False]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_node_that_computes_wrongly_is_left_out(
    part: Part, step: Step, monkeypatch: pytest.MonkeyPatch, rank: int
) -> None:
    def broken(*_: object) -> None:
        raise signals.BadNodeError("cuda:0 computes wrongly")

    monkeypatch.setattr(array_task, "_run", broken)
    names = {
        "SLURM_PROCID": rank,
        "SLURM_NTASKS": 2,
        "SLURM_STEP_NODELIST": "localhost",
        "SLURMD_NODENAME": "n4",
    }
    for name, value in names.items():
        monkeypatch.setenv(name, str(value))
    for name in (
        "MASTER_ADDR",
        "MASTER_PORT",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        signals.HEARTBEAT_VARIABLE,
        signals.SLACK_VARIABLE,
    ):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    key = step.arrays()[0]["key"]
    with pytest.raises(signals.BadNodeError):
        array_task.Element(str(step.run.path), "count", "run", 0, key)()
    assert part.last_event()["event"] == ("lost" if rank else "failed")
    assert submission_decisions.nodes_to_exclude([part]) == ["n4"]
    assert submission_decisions.has_ended(part, key)


@pytest.mark.slurm
@pytest.mark.timeout(150)
def test_a_stopped_process_is_found_and_the_part_goes_on_elsewhere(cluster: Path, on_cluster: Path) -> None:
    """SIGSTOP for the first of two processes: found within 60 s of its next report, started again within 30 s."""
    cfg = LockstepConfig(on_cluster / "m")
    settings = {"run": "hang", "tasks_per_node": "2", "hang_slack_s": "3", "mem_gb": "1"}
    launch.submit_stage(LOCKSTEP, [cfg], "slurm", settings)
    part = opened("hang").steps["lockstep"].part("run", 0)
    state = cfg.out / "state"
    wait_until(lambda: state.exists() and int(state.read_text().split()[0]) >= 20, 60, "twenty updates")
    (pid,) = [
        pid
        for pid in bed.stragglers(cluster)
        if all(
            word in bed.process_file(pid, "environ")
            for word in (b"\0SLURM_PROCID=0\0", b"\0SLURM_STEP_ID=0\0")
        )
        and b"xling.slurm.entry" in bed.process_file(pid, "cmdline")
    ]
    os.kill(pid, signal.SIGSTOP)
    stopped = time.time()
    lost = wait_for_hang(part, 60)
    assert lost["reason"].startswith(f"rank 0 on {lost['exclude'][0]} (of 2, 2 are late) hangs after ")
    assert "slurm_stages.py" in lost["reason"] and " lockstep" in lost["reason"]
    assert outcome_of("hang", "lockstep")["state"] == "done"
    starts = [event for event in part.events() if event["event"] == "start"]
    assert [start["node"] for start in starts] == [starts[0]["node"], starts[1]["node"]]
    assert starts[0]["node"] == lost["exclude"][0] != starts[1]["node"]
    assert starts[1]["saved"] >= 20
    expected = sum(2 * update + 1 for update in range(1, cfg.updates + 1))
    assert (cfg.out / "result").read_text() == f"{expected}\n"
    found, again = lost["time"] - stopped, starts[1]["time"] - lost["time"]
    print(f"found after {found:.1f} s, started again after {again:.1f} s")
    assert found < 60 and again < 30


@pytest.mark.slurm
@pytest.mark.timeout(400)
def test_a_process_stopped_before_the_rendezvous_is_found(cluster: Path, on_cluster: Path) -> None:
    # The watcher continues the stopped process for its stack: it must not be done before it is recorded.
    cfg = LockstepConfig(on_cluster / "m", updates=150, stopped_at_start=True)
    settings = {"tasks_per_node": "2", "hang_slack_s": "60", "hang_start_s": "25", "mem_gb": "1"}
    launch.submit_stage(LOCKSTEP, [cfg], "slurm", {"run": "early", **settings})
    part = opened("early").steps["lockstep"].part("run", 0)
    lost = wait_for_hang(part, 240)  # a busy machine starts Python slowly
    assert lost["reason"].startswith(
        f"rank 1 on {lost['exclude'][0]} (of 2, 1 are late) hangs after 0 updates"
    )
    assert "during the start" in lost["reason"] and " in lockstep" not in lost["reason"]
    assert "stack:" in lost["reason"]  # of a process that may still be at its imports
    assert outcome_of("early", "lockstep")["state"] == "done"


@pytest.mark.slurm
@pytest.mark.timeout(400)
def test_status_names_a_process_without_a_heartbeat_and_a_lost_node(
    cluster: Path, on_cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 1 hangs before its first line; then its node is lost."""
    monkeypatch.setattr(status, "STARTED_AFTER_S", 3.0)
    here, cfg = bed.opened(cluster), LockstepConfig(on_cluster / "m", updates=20)
    settings = {"run": "lost", "nodes": "2", "hang_slack_s": "60", "hang_start_s": "300", "mem_gb": "1"}
    launch.submit_stage(LOCKSTEP, [cfg], "slurm", settings)
    step = opened("lost").steps["lockstep"]

    def on_second() -> list[int]:
        return [
            pid
            for pid in bed.stragglers(cluster)
            if b"\0SLURMD_NODENAME=n2\0" in bed.process_file(pid, "environ")
        ]

    def reason() -> str:
        return status.step_status(step, view_of(step.run)).reason

    wait_until(on_second, 60, "the process of rank 1")
    for pid in on_second():
        os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: "rank 1 on n2 of 2 has not " in reason(), 60, "the name of the process that hangs")
    bed.signal_daemon(here, "slurmd-n2", signal.SIGKILL)
    for pid in on_second():
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: reason().startswith("waits for n2 to end the job"), 60, "the name of the lost node")
    bed.start_daemon(here, "slurmd-n2")
    assert outcome_of("lost", "lockstep", 240)["state"] == "done"


def test_the_watcher_of_a_job_ends_with_its_batch_script(step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[float] = []
    monkeypatch.setattr(watch.Watcher, "late_processes", lambda self, now: looked.append(now))
    monkeypatch.setattr(watch.time, "sleep", lambda seconds: None)
    parents = iter([5, 5, 5, 1])
    monkeypatch.setattr(watch.os, "getppid", lambda: next(parents))
    key = step.arrays()[0]["key"]
    assert watch.main([str(step.run.path), step.name, key]) == 0 and len(looked) == 2
    assert watch.main([str(step.run.path), step.name, "of another submission"]) == 0 and len(looked) == 2
