"""Stages, arrays, restarts and pipelines on a real Slurm."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import subprocess
import time
from pathlib import Path

import pytest
from slurm_helpers import HERE, ROOT, job_states, require_slurm, start_bed, stop_bed, wait_until
from slurm_stages import ASK, COUNT, MEAN, SHARDS, AskConfig, CountConfig, MeanConfig, ShardConfig

from tests.slurm.testbed import bed
from xling.core.commands.pipeline import Pipeline, Step
from xling.core.commands.runner import STAGES
from xling.core.errors import UserError
from xling.slurm import commands, launch, states
from xling.slurm.record import Run, open_run

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(120)]


def opened(name: str) -> Run:
    return open_run(Path("runs/jobs").absolute() / name)


def outcome_of(name: str, step: str, timeout_s: float = 90) -> dict[str, object]:
    found = opened(name).steps[step]
    wait_until(found.outcome, timeout_s, f"an outcome of {name}")
    return found.outcome()


def queued() -> list[str]:
    shown = subprocess.run(["squeue", "-h", "-o", "%j %T"], capture_output=True, text=True, check=True)
    return shown.stdout.splitlines()


def expected_count(cfg: CountConfig) -> str:
    value = str(cfg.seed)
    for update in range(1, cfg.updates + 1):
        value = hashlib.sha256(f"{value} {update}".encode()).hexdigest()
    return value + "\n"


def running_count(
    name: str, cfg: CountConfig, settings: dict[str, str] | None = None, least: int = 12
) -> str:
    """Submit a counting stage and return its job id once it has passed ``least`` updates."""
    launch.submit_stage(COUNT, [cfg], "slurm", {"run": name, **(settings or {})})
    state = cfg.out / "state"
    wait_until(lambda: state.exists() and int(state.read_text().split()[0]) >= least, 30, "progress")
    return str(opened(name).steps["count"].arrays()[-1]["jobs"][0])


def test_array_with_two_killed_and_one_that_always_fails(on_cluster: Path) -> None:
    cfg = ShardConfig(on_cluster / "corpus", 20, broken=(11,), seconds=1.0)
    launch.submit_stage(SHARDS, [cfg], "slurm", {"run": "corpus"})
    step = opened("corpus").steps["shards"]
    jobs = step.arrays()[0]["jobs"]
    wait_until(lambda: all((cfg.out / f"tries.clean.{i}").exists() for i in (3, 7)), what="the two to run")
    subprocess.run(["scancel", "--signal=KILL", jobs[3], jobs[7]], check=True)

    outcome = outcome_of("corpus", "shards")
    assert outcome["state"] == "failed"
    assert outcome["reason"] == "1 part(s) failed: shards clean[11]: ValueError: shard 11 is broken"
    # The rest have finished, each at the first try; the two were tried again; the one as often as allowed.
    tries = {i: (cfg.out / f"tries.clean.{i}").stat().st_size for i in range(20)}
    assert tries == dict.fromkeys(range(20), 1) | {3: 2, 7: 2, 11: 3}
    assert sorted(p.name for p in cfg.out.glob("shard.*")) == sorted(
        f"shard.{i}" for i in range(20) if i != 11
    )
    events = step.part("clean", 3).events()
    assert [e["event"] for e in events] == ["start", "stopped", "start", "done"]
    assert events[1]["reason"] == "ended by Slurm (cancelled or requeued), after: preemption (SIGTERM)"
    # Neither the next phase nor the barrier has started.
    assert not list(cfg.out.glob("tries.merge.*"))
    wait_until(
        lambda: job_states([step.barrier()])[step.barrier()].state == "CANCELLED", what="the barrier's end"
    )
    wait_until(lambda: not [line for line in queued() if line.startswith("corpus")], what="an empty queue")

    text = commands.show_status(Path("runs/jobs").absolute(), "corpus")
    assert "FAILED  clean 19/20, 1 failed" in text
    assert "shards clean[11]: failed, started 3 times" in text
    assert "ValueError: shard 11 is broken" in commands.show_logs(Path("runs/jobs").absolute(), "corpus")


def test_second_phase_follows_from_the_first(on_cluster: Path) -> None:
    cfg = ShardConfig(on_cluster / "corpus", 4)
    launch.submit_stage(SHARDS, [cfg], "slurm", {"run": "small", "max_array_size": "3"})
    assert outcome_of("small", "shards") == {
        "state": "done",
        "reason": "",
        "time": pytest.approx(time.time(), abs=60),
    }
    assert len(list(cfg.out.glob("merged.*"))) == 2
    step = opened("small").steps["shards"]
    assert [len(array["jobs"]) for array in step.arrays()] == [
        3,
        1,
        2,
    ]  # the site's limit makes two arrays of four
    wait_until(lambda: job_states([step.barrier()])[step.barrier()].state == "COMPLETED", what="the barrier")


INTERRUPTIONS = {
    "requeue": ["scontrol", "requeue"],
    "kill": ["scancel", "--signal=KILL"],
    "preempt": ["scancel", "--signal=USR2"],
    "terminate": ["scancel", "--signal=TERM"],
}


def test_interrupted_runs_end_as_the_uninterrupted_one(on_cluster: Path) -> None:
    """Four ways to be interrupted, and the time limit, side by side."""
    cfgs = {
        way: CountConfig(on_cluster / way, updates=60, save_every=10, seconds=0.05) for way in INTERRUPTIONS
    }
    limited = CountConfig(on_cluster / "limit", updates=500, save_every=1000, seconds=0.1)
    # Slurm looks every 30 s whether the warning, 55 s before the limit of a minute, is due.
    launch.submit_stage(
        COUNT, [limited], "slurm", {"run": "limit", "timeout_min": "1", "signal_delay_s": "55"}
    )
    for way, cfg in cfgs.items():
        subprocess.run([*INTERRUPTIONS[way], running_count(way, cfg)], check=True)
    for way, cfg in (cfgs | {"limit": limited}).items():
        assert outcome_of(way, "count")["state"] == "done", way
        assert (cfg.out / "result").read_text() == expected_count(cfg), way
        starts = [int(line.split()[0]) for line in (cfg.out / "starts").read_text().splitlines()]
        events = opened(way).steps["count"].part("run", 0).events()
        stopped = [e for e in events if e["event"] == "stopped"]
        assert len(starts) >= 2, way
        assert starts == sorted(set(starts)), way  # it went on each time, it did not begin again
        if way in ("preempt", "terminate", "limit"):
            assert [e["saved"] for e in stopped] == starts[1:], (
                way
            )  # saved when asked, not at a multiple of ten
    assert {e["reason"] for e in stopped} == {"time limit or preemption (SIGUSR2)"}


def test_no_progress_three_times_stops_with_the_reason(on_cluster: Path) -> None:
    cfg = CountConfig(on_cluster / "model", updates=10_000, save_every=0, polite=False)
    # Within a minute of the time limit: earlier, the same signal is a preemption and never counts.
    settings = {"run": "stuck", "timeout_min": "1", "signal_delay_s": "55"}
    launch.submit_stage(COUNT, [cfg], "slurm", settings)
    starts = on_cluster / "model" / "starts"
    identity = ""
    for number in range(3):
        wait_until(lambda n=number: starts.exists() and len(starts.read_text().splitlines()) == n + 1, 40)
        identity = opened("stuck").steps["count"].arrays()[-1]["jobs"][0]
        subprocess.run(["scancel", "--signal=USR2", identity], check=True)
    outcome = outcome_of("stuck", "count")
    assert outcome["state"] == "failed"
    assert "came back 3 times without progress" in str(outcome["reason"])
    assert "by its time limit" in str(outcome["reason"])
    assert len(opened("stuck").steps["count"].arrays()) == 1  # such an end is final: no further attempts


def test_two_nodes_equal_one_process(on_cluster: Path) -> None:
    for name, nodes in (("one", 1), ("two", 2)):
        launch.submit_stage(
            MEAN, [MeanConfig(on_cluster / name)], "slurm", {"run": name, "nodes": str(nodes)}
        )
    for name in ("one", "two"):
        assert outcome_of(name, "mean")["state"] == "done"
    world_1, _, *one = (on_cluster / "one" / "weight").read_text().split()
    world_2, hosts, *two = (on_cluster / "two" / "weight").read_text().split()
    assert (world_1, world_2, hosts) == ("1", "2", "n[1-2]")
    assert [float(w) for w in one] == pytest.approx([float(w) for w in two], rel=1e-6)


def test_a_mistake_of_the_user_is_not_tried_again(on_cluster: Path) -> None:
    launch.submit_stage(ASK, [AskConfig(on_cluster)], "slurm", {"run": "wrong"})
    outcome = outcome_of("wrong", "ask")
    assert outcome["reason"] == "1 part(s) failed: ask run[0]: lang=swx; fix: did you mean sw?; valid: sv, sw"
    assert len(opened("wrong").steps["ask"].arrays()) == 1


def test_cancel_then_requeue_goes_on(on_cluster: Path) -> None:
    cfg = CountConfig(on_cluster / "model", updates=100, save_every=10)
    identity = running_count("stop", cfg)
    folder = Path("runs/jobs").absolute()
    with pytest.raises(UserError, match="under way"):
        commands.requeue(folder, "stop")
    commands.cancel(folder, "stop")
    wait_until(lambda: not job_states([identity])[identity].is_active, what="the end of the job")
    wait_until(lambda: not [line for line in queued() if line.startswith("stop")], what="an empty queue")
    assert not (cfg.out / "result").exists()
    assert "CANCELLED" in commands.show_status(folder)
    commands.requeue(folder, "stop")
    assert outcome_of("stop", "count")["state"] == "done"
    assert (cfg.out / "result").read_text() == expected_count(cfg)
    assert len((cfg.out / "starts").read_text().splitlines()) == 2


def test_sweep_is_one_array(on_cluster: Path) -> None:
    cfgs = [CountConfig(on_cluster / f"seed {seed}", updates=3, seed=seed) for seed in (1, 2, 3)]
    launch.submit_stage(COUNT, cfgs, "slurm", {"run": "seeds"})
    assert outcome_of("seeds", "count")["state"] == "done"
    assert [(cfg.out / "result").read_text() for cfg in cfgs] == [expected_count(cfg) for cfg in cfgs]
    (array,) = opened("seeds").steps["count"].arrays()
    assert array["jobs"] == [f"{array['jobs'][0].partition('_')[0]}_{i}" for i in range(3)]


def test_umask_and_secrets(on_cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_very-secret-token")
    before = os.umask(0o027)
    try:
        launch.submit_stage(COUNT, [CountConfig(on_cluster / "m", updates=2)], "slurm", {"run": "private"})
        assert outcome_of("private", "count")["state"] == "done"
    finally:
        os.umask(before)
    barrier = opened("private").steps["count"].barrier()
    wait_until(lambda: job_states([barrier])[barrier].state == "COMPLETED", what="the barrier")
    files = [path for path in (on_cluster / "runs/jobs/private").rglob("*") if not path.is_symlink()]
    assert len(files) > 8
    for path in files:
        assert not stat.S_IMODE(path.stat().st_mode) & 0o027, path
        assert path.is_dir() or b"very-secret" not in path.read_bytes(), path


def test_killed_from_inside_leaves_the_signal_as_reason(on_cluster: Path) -> None:
    cfg = ShardConfig(on_cluster / "corpus", 2, killed=(1,))
    launch.submit_stage(SHARDS, [cfg], "slurm", {"run": "inside"})
    assert outcome_of("inside", "shards")["state"] == "done"
    lost = [e for e in opened("inside").steps["shards"].part("clean", 1).events() if e["event"] == "lost"]
    assert len(lost) == 1
    assert "exit code 137 (SIGKILL)" in lost[0]["reason"]


def test_pipeline_is_a_graph_of_afterok(on_cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STAGES, "_entries", {"count": COUNT, "shards": SHARDS, "ask": ASK})
    steps = {
        "corpus": Step("shards", {"out": str(on_cluster / "c"), "num_parts": "4", "seconds": "1"}),
        "left": Step("count", {"out": str(on_cluster / "left"), "updates": "2"}, after=("corpus",)),
        "right": Step("count", {"out": str(on_cluster / "right"), "updates": "2"}, after=("corpus",)),
        "sum": Step("count", {"out": str(on_cluster / "sum"), "updates": "3"}, after=("left", "right")),
    }
    launch.submit_pipeline(Pipeline(steps), "slurm", {"run": "graph"})
    run = opened("graph")
    shown = subprocess.run(["squeue", "-h", "-o", "%j %E"], capture_output=True, text=True, check=True).stdout
    barriers = {name: step.barrier() for name, step in run.steps.items()}
    # The whole graph stands in the queue at once, before the number of parts of its later steps is known.
    shown = re.sub(r"\.[0-9a-f]{8} ", " ", shown)
    assert f"graph.left.collect afterok:{barriers['corpus']}(unfulfilled)" in shown
    assert f"graph.sum.collect afterok:{barriers['left']}(unfulfilled),afterok:{barriers['right']}" in shown
    folder = Path("runs/jobs").absolute()
    assert "WAITING" in commands.show_status(folder, "graph")
    assert outcome_of("graph", "sum")["state"] == "done"
    ended = {name: step.outcome()["time"] for name, step in run.steps.items()}
    first = {name: step.arrays()[0]["time"] for name, step in run.steps.items()}
    assert ended["corpus"] <= min(first["left"], first["right"])
    assert max(ended["left"], ended["right"]) <= first["sum"]
    assert [line.split()[2] for line in commands.show_status(folder, "graph").splitlines()[2:]] == [
        "DONE"
    ] * 4


def test_a_failed_step_ends_the_graph_behind_it(on_cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STAGES, "_entries", {"count": COUNT, "ask": ASK})
    steps = {
        "wrong": Step("ask", {"out": str(on_cluster)}),
        "beside": Step("count", {"out": str(on_cluster / "beside"), "updates": "2"}),
        "behind": Step(
            "count", {"out": str(on_cluster / "behind"), "updates": "2"}, after=("wrong", "beside")
        ),
        "end": Step("count", {"out": str(on_cluster / "end"), "updates": "2"}, after=("behind",)),
    }
    launch.submit_pipeline(Pipeline(steps), "slurm", {"run": "graph"})
    assert outcome_of("graph", "end")["reason"] == "not started: step wrong failed"
    assert outcome_of("graph", "behind")["reason"] == "not started: step wrong failed"
    assert outcome_of("graph", "beside")["state"] == "done"
    wait_until(lambda: not [line for line in queued() if line.startswith("graph")], what="an empty queue")
    assert not (on_cluster / "behind").exists()


def run_on_own_bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> Path:
    directory = bed.default_directory().with_name(f"xling bed {os.getpid()}")
    start_bed(directory, *options)
    for name, value in bed.environment(directory).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(HERE)]))
    monkeypatch.chdir(tmp_path)
    return directory


def test_states_come_from_sacct_where_there_is_accounting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_slurm(accounting=True)
    directory = run_on_own_bed(tmp_path, monkeypatch, "--accounting", "--nodes", "1", "--min-job-age", "2")
    try:
        cfg = ShardConfig(tmp_path / "c", 3, broken=(1,))
        launch.submit_stage(SHARDS, [cfg], "slurm", {"run": "a", "max_attempts": "1"})
        assert outcome_of("a", "shards")["state"] == "failed"
        assert states.run_for_output(["sacct", "-n", "-X", "-j", "1"])[0] is not None
        jobs = opened("a").steps["shards"].arrays()[0]["jobs"]
        monkeypatch.setattr(states, "_from_squeue", lambda: ({}, ""))
        monkeypatch.setattr(states, "_from_scontrol", lambda: ({}, ""))
        wait_until(lambda: job_states(jobs)[jobs[1]].state == "FAILED", 30, "sacct")
        assert [job_states(jobs)[j].state for j in jobs] == ["COMPLETED", "FAILED", "COMPLETED"]
        assert job_states(jobs)[jobs[1]].reason == "exit code 1"
    finally:
        stop_bed(directory)


def test_a_job_that_slurm_has_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_slurm()
    directory = run_on_own_bed(tmp_path, monkeypatch, "--nodes", "1", "--min-job-age", "2")
    try:
        launch.submit_stage(COUNT, [CountConfig(tmp_path / "m", updates=2)], "slurm", {"run": "old"})
        assert outcome_of("old", "count")["state"] == "done"
        (identity,) = opened("old").steps["count"].arrays()[0]["jobs"]
        wait_until(lambda: job_states([identity])[identity].state == "UNKNOWN", 90, "the purge")
        folder = Path("runs/jobs").absolute()
        assert "DONE" in commands.show_status(folder, "old")
        assert f"count run[0], job {identity}" in commands.show_logs(folder, "old")
    finally:
        stop_bed(directory)
