"""The same code without a cluster: subprocesses, this process, records, decisions, sweeps."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from slurm_helpers import HERE, ROOT
from slurm_stages import ASK, COUNT, SHARDS, AskConfig, CountConfig, ShardConfig

from xling.core import signals
from xling.core.commands.pipeline import Pipeline
from xling.core.commands.pipeline import Step as Planned
from xling.core.commands.runner import STAGES, load
from xling.core.errors import UserError
from xling.core.output.records import append_line, read_lines
from xling.core.settings.config import to_dict
from xling.slurm import commands, launch, reconcile, status, submission_decisions
from xling.slurm.array_task import _record_start
from xling.slurm.record import Part, Run, Step, open_run
from xling.slurm.states import JobState, QueueView
from xling.slurm.sweep import expand


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a space in its name."""
    path = tmp_path / "my work"
    path.mkdir()
    monkeypatch.chdir(path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(HERE)]))
    monkeypatch.delenv("XLING_SITE", raising=False)
    return path


def opened(name: str) -> Run:
    return open_run(Path("runs/jobs").absolute() / name)


@pytest.mark.parametrize("cluster", ["local", "debug"])
def test_phases_run_here(work: Path, cluster: str) -> None:
    cfg = ShardConfig(work / "corpus", 4, killed=(2,) if cluster == "local" else ())
    text = launch.submit_stage(SHARDS, [cfg], cluster, {"run": "here"})
    assert text == "here has ended well"
    left = {signals.HEARTBEAT_VARIABLE, signals.SLACK_VARIABLE} & set(os.environ)
    assert not left, "the next training of this process would write the heartbeat of this part"
    assert sorted(p.name for p in cfg.out.glob("*.?") if not p.name.startswith("tries")) == [
        "merged.0",
        "merged.1",
        "shard.0",
        "shard.1",
        "shard.2",
        "shard.3",
    ]
    tries = (cfg.out / "tries.clean.2").read_text()
    assert tries == ("xx" if cluster == "local" else "x")  # a part killed by SIGKILL is tried again
    assert opened("here").steps["shards"].outcome()["state"] == "done"
    run = opened("here").path
    assert not list(run.rglob("*.pkl")), "what runs is named by the record, not pickled"
    assert run.stat().st_mode & 0o777 == 0o700
    records = [path for path in run.rglob("*.json*") if path.is_file()]
    assert len(records) > 4 and {path.stat().st_mode & 0o777 for path in records} == {0o600}


@pytest.mark.parametrize("place", ["", "run.json"])
def test_a_record_that_others_may_write_is_not_run(work: Path, place: str) -> None:
    cfg = ShardConfig(work / "corpus", 3, broken=(1,))
    with pytest.raises(UserError, match="shard 1 is broken"):
        launch.submit_stage(SHARDS, [cfg], "debug", {"run": "r"})
    run = opened("r")
    path = run.path / place
    path.chmod(path.stat().st_mode | 0o020)
    told = r"others may write to .*, and jobs run what it names; fix: read it, then: chmod -R go-w '"
    with pytest.raises(UserError, match=told):
        commands.requeue(run.path.parent, "r")
    words = ["-m", "xling.slurm.entry", "part", str(run.path), "shards", "clean", "0"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert done.returncode != 0 and "others may write to" in done.stderr
    run.slurm, run.cluster = "c", "slurm"
    with pytest.raises(UserError, match=told):
        reconcile.reconcile(run)
    path.chmod(path.stat().st_mode & ~0o020)
    with pytest.raises(UserError, match="shard 1 is broken"):
        commands.requeue(run.path.parent, "r")


def test_the_record_of_another_user_is_not_run(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = planned(work)
    run.check_owner()
    mine = os.geteuid()
    os.chown(run.path / "run.json", 4711 if mine == 0 else mine, -1)
    if mine:
        monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    with pytest.raises(UserError, match="belongs to another user"):
        run.check_owner()


def test_a_part_that_runs_again_is_not_in_trouble(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = planned(work)
    part = run.steps["count"].part("run", 0)
    part.append("lost", reason="the job left no result: NODE_FAIL", counts=False, saved=0)
    states = {"11": JobState("NODE_FAIL", "", "n1")}
    monkeypatch.setattr(status, "view_of", lambda run: QueueView(jobs=states))
    assert "parts in trouble" in status.run_status(run) and "NODE_FAIL" in status.run_status(run)
    states["11"] = JobState("RUNNING", "", "n2")
    assert "trouble" not in status.run_status(run)
    states["11"] = JobState("COMPLETED", "", "n2")
    part.append("done", text="")
    assert "trouble" not in status.run_status(run)


def test_a_refused_submission_says_so(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, and where a later step of a run is refused."""
    sbatch = work / "bin" / "sbatch"
    sbatch.parent.mkdir()
    sbatch.write_text("#!/bin/sh\necho 'sbatch: error: Invalid partition name specified' >&2\nexit 1\n")
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", f"{sbatch.parent}:/usr/bin:/bin")
    wanted = "Slurm refused the command sbatch: sbatch: error: Invalid partition name specified"
    with pytest.raises(UserError, match=wanted):
        launch.submit_stage(COUNT, [CountConfig(work / "m")], "slurm", {"run": "r"})
    assert list((work / "runs/jobs").iterdir()) == [] and not list(work.glob(".*.lease"))
    step = planned(work).steps["count"]
    step.part("run", 0).append("lost", reason="NODE_FAIL", counts=False, saved=0)
    reconcile._Reconciler(step.run, QueueView(), False, False)._continue_step(step)
    said = f"cannot go on: {wanted}; fix: change the slurm.* setting that it names"
    assert (step.outcome()["state"], step.outcome()["reason"]) == ("failed", said)
    assert status.step_status(step, QueueView()).state == "FAILED"


def test_a_part_that_always_fails_is_named(work: Path) -> None:
    cfg = ShardConfig(work / "corpus", 3, broken=(1,))
    with pytest.raises(
        UserError, match=r"1 part\(s\) of bad failed: shards clean\[1\]: ValueError: shard 1 is broken"
    ):
        launch.submit_stage(SHARDS, [cfg], "debug", {"run": "bad"})
    assert (cfg.out / "tries.clean.1").read_text() == "xxx"
    assert not list(cfg.out.glob("tries.merge.*"))
    folder = Path("runs/jobs").absolute()
    assert "shards clean[1]: failed, started 3 times" in commands.show_status(folder, "bad")
    # What is done stays done; what has failed is tried afresh.
    with pytest.raises(UserError, match="shard 1 is broken"):
        commands.requeue(folder, "bad")
    assert (cfg.out / "tries.clean.1").read_text() == "xxxxxx"
    assert (cfg.out / "tries.clean.0").read_text() == "x"


def test_a_mistake_of_the_user_is_final(work: Path) -> None:
    with pytest.raises(UserError, match="did you mean sw"):
        launch.submit_stage(ASK, [AskConfig(work)], "debug", {"run": "ask"})
    assert len(opened("ask").steps["ask"].arrays()) == 1


def test_a_stopped_part_goes_on(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cfg = CountConfig(work / "m", updates=9, save_every=100, seconds=0)
    beats: list[tuple[int, int | None]] = []

    def beat(done: int, *_: object, saved: int | None = None, **__: object) -> None:
        beats.append((done, saved))
        if beats[-1] == (4, None):
            os.kill(os.getpid(), signal.SIGUSR2)

    monkeypatch.setattr(signals, "beat", beat)
    launch.submit_stage(COUNT, [cfg], "debug", {"run": "stop"})
    events = [e["event"] for e in opened("stop").steps["count"].part("run", 0).events()]
    assert events == ["start", "stopped", "start", "done"]
    # Asked after update 4, it saved update 5 and went on from there.
    assert beats == [
        (1, None),
        (2, None),
        (3, None),
        (4, None),
        (5, 5),
        (6, None),
        (7, None),
        (8, None),
        (9, None),
    ]


def test_signals_are_handed_back(work: Path) -> None:
    before = signal.getsignal(signal.SIGUSR2), signal.getsignal(signal.SIGTERM)
    launch.submit_stage(COUNT, [CountConfig(work / "m", updates=1, seconds=0)], "debug", {"run": "r"})
    assert (signal.getsignal(signal.SIGUSR2), signal.getsignal(signal.SIGTERM)) == before


def test_pipeline_runs_in_order_and_stops_at_a_failure(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STAGES, "_entries", {"count": COUNT, "ask": ASK, "shards": SHARDS})
    steps = {
        "first": Planned("count", {"out": str(work / "m"), "updates": "2"}),
        "wrong": Planned("ask", {"out": str(work)}, after=("first",)),
        "never": Planned("shards", {"out": str(work / "c")}, after=("wrong",)),
    }
    with pytest.raises(UserError, match="lang=swx"):
        launch.submit_pipeline(Pipeline(steps), "debug", {"run": "graph"})
    run = opened("graph")
    assert [s.outcome().get("state") for s in run.steps.values()] == ["done", "failed", None]


def test_sweep_words() -> None:
    words = ["recipe.yaml", "out=runs/{seed}-{lr}", "sweep.lr=1e-4,3e-4", "sweep.seed=1,2"]
    assert expand(words) == [
        ["recipe.yaml", "out=runs/1-1e-4", "lr=1e-4", "seed=1"],
        ["recipe.yaml", "out=runs/2-1e-4", "lr=1e-4", "seed=2"],
        ["recipe.yaml", "out=runs/1-3e-4", "lr=3e-4", "seed=1"],
        ["recipe.yaml", "out=runs/2-3e-4", "lr=3e-4", "seed=2"],
    ]
    for wrong in (["sweep.a="], ["sweep.=1"], ["sweep.a=1", "sweep.a=2"]):
        with pytest.raises(UserError, match="once for each key"):
            expand(wrong)


def test_sweep_must_not_write_twice_to_one_place(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STAGES, "_entries", {"count": COUNT, "shards": SHARDS})
    with pytest.raises(UserError, match="more than once"):
        launch.submit_sweep("count", [CountConfig(work, seed=s) for s in (1, 2)], "debug")
    with pytest.raises(UserError, match="stages of one part"):
        launch.submit_sweep("shards", [ShardConfig(work), ShardConfig(work / "b")], "debug")
    cfgs = [CountConfig(work / str(s), updates=1, seconds=0, seed=s) for s in (1, 2)]
    launch.submit_sweep("count", cfgs, "debug", {"run": "sweep"})
    assert (work / "1" / "result").read_text() != (work / "2" / "result").read_text()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"nodez": "2"}, "unknown setting 'nodez'"),
        ({"run": "a b"}, "letters, digits"),
        ({"run": "../up"}, "letters, digits"),
        ({"run": "-rf"}, "letters, digits"),
        ({"run": "x" * 300}, "at most 80 letters"),
    ],
)
def test_wrong_settings(work: Path, settings: dict[str, str], expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        launch.submit_stage(COUNT, [CountConfig(work)], "debug", settings)
    assert not (work / "runs").exists()


def test_wrong_cluster_names_the_valid_ones(work: Path) -> None:
    with pytest.raises(UserError, match="did you mean 'slurm'"):
        launch.submit_stage(COUNT, [CountConfig(work)], "slurn")


def test_no_slurm_here(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match="no sbatch is here"):
        launch.submit_stage(COUNT, [CountConfig(work)], "slurm", {"run": "r"})
    # Slurm has nothing of it, so nothing is left of it here: no ghost of a run, no held output.
    assert list((work / "runs/jobs").iterdir()) == []
    assert not list(work.glob(".*.lease"))


def test_a_damaged_run_does_not_hide_the_others(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launch.submit_stage(SHARDS, [ShardConfig(work / "corpus", 4)], "debug", {"run": "well"})
    odd = work / "runs/jobs/odd"
    odd.mkdir()
    (odd / "run.json").write_text('{"cluster": "local"}')
    shown = commands.show_status((work / "runs/jobs").absolute())
    assert "well" in shown and "odd" not in shown
    assert "run.json is damaged" in capsys.readouterr().err


def test_the_log_of_a_part_that_ran_here_is_found(work: Path) -> None:
    launch.submit_stage(SHARDS, [ShardConfig(work / "corpus", 4)], "local", {"run": "here"})
    logs = commands.show_logs((work / "runs/jobs").absolute(), "here").data["logs"]
    assert any(path.endswith("_log.out") for path in logs)


def test_a_run_whose_folder_has_moved_is_left_as_it_is(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work / "there").mkdir()
    monkeypatch.chdir(work / "there")
    with pytest.raises(UserError):
        launch.submit_stage(SHARDS, [ShardConfig(work / "corpus", 3, broken=(1,))], "debug", {"run": "bad"})
    jobs = work / "there/runs/jobs"
    before = sorted((p.name, p.read_bytes()) for p in jobs.rglob("*") if p.is_file())
    monkeypatch.chdir(work)
    (work / "there").rename(work / "elsewhere")
    moved = work / "elsewhere/runs/jobs"
    with pytest.raises(UserError, match=r"was started in .*there, which is not there; fix: move it back"):
        commands.requeue(moved, "bad")
    assert sorted((p.name, p.read_bytes()) for p in moved.rglob("*") if p.is_file()) == before


@pytest.mark.parametrize(
    ("out", "expected"), [(".", "the folder that the command runs in"), ("/", "the root folder")]
)
def test_an_output_that_cannot_be_one_is_refused(work: Path, out: str, expected: str) -> None:
    stage = STAGES["corpus mono"]
    with pytest.raises(UserError, match=f"is {expected}; valid: a folder of its own"):
        launch.submit_stage(stage, [load(stage.config)("en", out, source=("text:x",))], "plan")


def test_a_percent_in_the_path_is_refused(work: Path) -> None:
    (work / "site.yaml").write_text("folder: 100%done\n")
    with pytest.raises(UserError, match="a path without %"):
        launch.submit_stage(COUNT, [CountConfig(work)], "debug", {"profile": "site.yaml"})


def test_unknown_words_and_runs(work: Path) -> None:
    launch.submit_stage(COUNT, [CountConfig(work / "m", updates=1, seconds=0)], "debug", {"run": "count-1"})
    folder = Path("runs/jobs").absolute()
    with pytest.raises(UserError, match="did you mean 'count-1'"):
        commands.show_status(folder, "count1")
    with pytest.raises(UserError, match="did you mean 'status'"):
        commands.main(["stauts"])
    with pytest.raises(UserError, match="did you mean 'count'"):
        commands.show_logs(folder, "count-1", "cuont")
    with pytest.raises(UserError, match="has ended well"):
        commands.requeue(folder, "count-1")
    with pytest.raises(UserError, match="too many words or no run"):
        commands.show_logs(folder)
    with pytest.raises(UserError, match="there is a run called"):
        launch.submit_stage(COUNT, [CountConfig(work)], "debug", {"run": "count-1"})


def planned(work: Path) -> Run:
    """A run whose record is made by hand, as Slurm's jobs would leave it."""
    run = Run(Path("runs/jobs").absolute() / "r", "slurm", {})
    site = launch.read_site()
    cfg = CountConfig(work / "m")
    plan = launch._step_plan(site, COUNT, [cfg], (), {})
    run = Run(run.path, "slurm", {"count": plan})
    run.create()
    run.steps["count"].record_submission("barrier", ["10"])
    run.steps["count"].record_submission("array", ["11"], phase="run", indices=[0], saved={}, round=0)
    return run


def test_a_job_unknown_to_slurm_is_reported_by_its_record(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    run = planned(work)
    part = run.steps["count"].part("run", 0)
    part.append("start", saved=0, job="11", restart=0, node="n1")
    assert "NO ANSWER" in status.run_status(run)
    assert "no squeue is here" in status.run_status(run)
    part.append("failed", reason="ValueError: bad", final=False, saved=0)
    assert "count run[0]: failed, started 1 times, job 11: ValueError: bad" in status.run_status(run)
    part.append("done", text="")
    run.steps["count"].end("done")
    assert "DONE" in status.run_status(run)
    assert "trouble" not in status.run_status(run)


def test_status_shows_progress_speed_and_time_left(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = planned(work)
    part = run.steps["count"].part("run", 0)
    running = JobState("RUNNING", "", "n1")
    monkeypatch.setattr(status, "view_of", lambda run: QueueView(jobs={"11": running}))
    beat = signals.Heartbeat(250, 1000, "updates", 2.5, 3912.0, 200, "loss 3.1", time.time())
    part.heartbeat_path.write_text(json.dumps(to_dict(beat)))
    head, line = status.run_status(run).splitlines()[-2:]
    cells = {name: line[head.index(name) :].split("  ")[0] for name in head.split()}
    assert cells == {
        "step": "count",
        "stage": "count",
        "state": "RUNNING",
        "parts": "0/1, 1 running",
        "progress": "250/1,000 (25 %) updates loss 3.1",
        "tokens/s": "3,912",
        "left": "0:05:00",
    }
    old = signals.Heartbeat(250, 1000, "updates", 2.5, 3912.0, 200, "", time.time() - 700)
    part.heartbeat_path.write_text(json.dumps(to_dict(old)))
    assert "no sign of life for 0:11:40" in status.run_status(run)


def decided(step: Step) -> tuple[list[int], list[int]]:
    again, failed = submission_decisions.parts_to_submit(step)
    return [p.index for p in again], [p.index for p in failed]


def test_attempts_are_bounded_unless_something_was_saved(work: Path) -> None:
    step = planned(work).steps["count"]
    part = step.part("run", 0)
    for _ in range(2):
        part.append("failed", reason="no such file", final=False, saved=0)
        assert decided(step) == ([0], [])
    part.append("lost", reason="out of memory", counts=True, saved=0)
    assert decided(step) == ([], [0])
    part.heartbeat_path.write_text(json.dumps(to_dict(signals.Heartbeat(saved=40))))
    assert decided(step) == ([0], [])
    part.append("failed", reason="no such file", final=True, saved=40)
    assert decided(step) == ([], [0])
    part.append("reset")
    step.record_submission("reset", [])
    assert decided(step) == ([0], [])
    part.append("done", text="")
    assert decided(step) == ([], [])


def test_preemption_and_lost_nodes_never_count(work: Path) -> None:
    """Fifty of each before the first checkpoint; the limits for failures and for time limits stay."""
    step = planned(work).steps["count"]
    part = step.part("run", 0)
    for number in range(50):
        _record_start(part, f"k{number}")
        part.append("stopped", reason="preemption (SIGTERM)", saved=0, limit=False)
        part.append("lost", reason="NODE_FAIL", counts=False, saved=0)
    assert decided(step) == ([0], [])
    for _ in range(3):
        _record_start(part, "k")
        part.append("stopped", reason="time limit", saved=0, limit=True)
    with pytest.raises(UserError, match="came back 3 times without progress"):
        _record_start(part, "k")
    assert decided(step) == ([], [0])


def test_record_lines_survive_many_writers(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path\n"
        "from xling.core.output.records import append_line\n"
        "for i in range(200): append_line(Path(sys.argv[2]), {'who': sys.argv[3], 'i': i, 'text': 'é' * 300})\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(ROOT), str(path), str(n)]) for n in range(3)]
    assert [w.wait() for w in writers] == [0, 0, 0]
    lines = read_lines(path)
    assert len(lines) == 600
    for who in "012":
        assert [line["i"] for line in lines if line["who"] == who] == list(range(200))
    append_line(path, {"last": 1})
    assert read_lines(path)[-1] == {"last": 1}


def test_part_names_itself(work: Path) -> None:
    assert str(Part(planned(work).steps["count"], "run", 3)) == "count run[3]"


def test_the_command_line_starts_fast_and_without_torch() -> None:
    code = "import sys, xling.cli; print(','.join(m for m in ('torch', 'fairseq', 'submitit') if m in sys.modules))"
    # CPU time, so that a busy machine does not count; on an idle one it is the time on the clock.
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        env = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert done.stdout.strip() == ""
    assert min(seconds) < 0.5


def test_the_log_of_the_part_in_trouble_is_shown_else_that_of_the_newest(work: Path) -> None:
    with pytest.raises(UserError):
        launch.submit_stage(SHARDS, [ShardConfig(work / "corpus", 3, broken=(1,))], "debug", {"run": "bad"})
    launch.submit_stage(SHARDS, [ShardConfig(work / "other", 3)], "debug", {"run": "well"})
    jobs = (work / "runs/jobs").absolute()
    assert commands.show_logs(jobs, "bad").startswith("shards clean[1], ")
    assert commands.show_logs(jobs, "well").startswith("shards merge[0], ")
