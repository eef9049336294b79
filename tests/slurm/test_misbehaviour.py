"""A cluster that misbehaves: requeued and cancelled collectors, a controller that is away, lost answers, lost nodes."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from slurm_helpers import job_states, wait_until
from slurm_stages import COUNT, CountConfig
from test_cluster import expected_count, opened, outcome_of, running_count

from tests.slurm.testbed import bed
from tests.slurm.testbed.conf_files import Bed
from xling import cli
from xling.core.commands.pipeline import Pipeline
from xling.core.commands.pipeline import Step as Planned
from xling.core.commands.runner import STAGES
from xling.core.errors import UserError
from xling.core.output.lease import HeldError, lease_path
from xling.slurm import commands, launch, reconcile, submit
from xling.slurm.record import Step
from xling.slurm.states import ask_about

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(180)]


GRAPH_SETTINGS = ("out", "updates", "save_every", "seconds")


def folder() -> Path:
    return Path("runs/jobs").absolute()


def starts_of(cfg: CountConfig) -> list[int]:
    return [int(line.split()[0]) for line in (cfg.out / "starts").read_text().splitlines()]


def collectors(step: Step) -> list[str]:
    return [i for e in step.jobs() if e["kind"] == "collect" for i in e["jobs"]]


def active_names() -> list[str]:
    shown = subprocess.run(["squeue", "-h", "-r", "-o", "%j"], capture_output=True, text=True, check=True)
    return shown.stdout.split()


def ended_well(name: str, cfg: CountConfig) -> None:
    assert outcome_of(name, "count", 240)["state"] == "done"
    assert (cfg.out / "result").read_text() == expected_count(cfg)


@pytest.mark.timeout(600)
def test_a_requeued_collector_submits_nothing_twice(on_cluster: Path) -> None:
    """The collector behind a first, failed round is requeued when its new array has just been submitted."""
    cfg = CountConfig(on_cluster / "m", updates=200, save_every=10, seconds=0.1)
    first = running_count("again", cfg)
    step = opened("again").steps["count"]
    collector = collectors(step)[0]
    subprocess.run(["scancel", first], check=True)
    wait_until(lambda: len(step.arrays()) == 2 and step.arrays()[1]["jobs"], 60, "the second array")
    subprocess.run(["scontrol", "requeue", collector], check=False)
    (second,) = step.arrays()[1]["jobs"]
    wait_until(lambda: job_states([second])[second].state == "RUNNING", 60, "the second array to run")
    # As if the collector had been put back a moment later still.
    for _ in range(3):
        # A requeue may have killed the collector while it submitted: its submission is in flight for IN_FLIGHT_S.
        reconcile.reconcile_patiently(opened("again"), reconcile.IN_FLIGHT_S + 30)
    assert len(step.arrays()) == 2
    assert sum(name.startswith("again.count.run.") for name in active_names()) == 1
    ended_well("again", cfg)
    assert len(step.arrays()) == 2
    assert len(starts_of(cfg)) == 2


def test_an_answer_that_got_lost_is_found_again(on_cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``sbatch`` did its work and nobody heard of it: the job is found by its name, not submitted again."""
    real, lost = submit.submit, []

    def deaf(jobs: submit.Executor, num_elements: int = 1) -> str:
        identity = real(jobs, num_elements)
        if not lost and "afterany" not in str(jobs.parameters.get("dependency")) and num_elements == 1:
            lost.append(identity)
            raise submit.TransientError("sbatch: Socket timed out on send/recv operation")
        return identity

    monkeypatch.setattr(submit, "submit", deaf)
    cfg = CountConfig(on_cluster / "m", updates=5)
    launch.submit_stage(COUNT, [cfg], "slurm", {"run": "deaf"})
    step = opened("deaf").steps["count"]
    ended_well("deaf", cfg)
    assert [e["jobs"] for e in step.jobs() if e["kind"] == "barrier"] == [lost]
    assert len(step.arrays()) == 1


def graph(on_cluster: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, CountConfig]:
    """Submit c after a and b, d after c; the first two run for 12 s, the others end at once."""
    monkeypatch.setattr(STAGES, "_entries", {"count": COUNT})
    after = {"c": ("a", "b"), "d": ("c",)}
    cfgs = {n: CountConfig(on_cluster / n, 20, 5, seconds=0.0 if n in after else 0.6) for n in "abcd"}
    steps = {
        n: Planned("count", {k: str(getattr(cfg, k)) for k in GRAPH_SETTINGS}, after=after.get(n, ()))
        for n, cfg in cfgs.items()
    }
    launch.submit_pipeline(Pipeline(steps), "slurm", {"run": "graph"})
    wait_until(lambda: all((cfgs[n].out / "state").exists() for n in "ab"), 60, "the first steps")
    return cfgs


def graph_ended_well(cfgs: dict[str, CountConfig]) -> None:
    for name, cfg in cfgs.items():
        assert outcome_of("graph", name, 120)["state"] == "done"
        assert (cfg.out / "result").read_text() == expected_count(cfg), name
    wait_until(
        lambda: not [name for name in active_names() if name.startswith("graph")], 60, "an empty queue"
    )


def saved_by_controller(here: Bed, names: Sequence[str], since: float) -> bool:
    """Whether slurmctld, which saves its jobs within 5 s of a change, has saved what happened before ``since``."""
    state = here.directory / "state" / "job_state"
    return time.time() > since + 6 and all(name.encode() in state.read_bytes() for name in names)


def test_a_restart_of_the_controller_ends_no_step(
    cluster: Path, on_cluster: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A graph in full swing; the controller is killed, is away, comes back: every step ends well, soon after."""
    cfgs = graph(on_cluster, monkeypatch)
    run, here, began = opened("graph"), bed.opened(cluster), time.time()
    names = [step.job_name(entry) for step in run.steps.values() for entry in step.jobs()]
    wait_until(lambda: saved_by_controller(here, names, began), 30, "the saved state of the controller")
    bed.signal_daemon(here, "slurmctld", signal.SIGKILL)
    try:
        assert not (cfgs["a"].out / "result").exists()
        text = commands.show_status(folder(), "graph")
        assert [line.split()[2:4] for line in text.splitlines()[2:6]] == [["NO", "ANSWER"]] * 4
        assert "Slurm does not answer: " in text
        assert "LOST" not in text and "requeue" not in text
        assert "trouble" not in text
        assert cli.main(["slurm", "cancel", "graph"]) == 1
        assert "not certainly cancelled: Slurm does not answer" in capsys.readouterr().out
        (run.path / "cancelled").unlink()  # the user changes his mind
        wait_until(lambda: (cfgs["a"].out / "result").exists(), 60, "the end of a part meanwhile")
        time.sleep(5)
    finally:
        bed.start_daemon(here, "slurmctld")
    back = time.monotonic()
    graph_ended_well(cfgs)
    assert time.monotonic() - back < 100
    assert all(len(step.arrays()) == 1 for step in run.steps.values())


def test_a_controller_that_lost_its_jobs(
    cluster: Path, on_cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller comes back without a job and gives ids anew; a line of cron has the graph end well."""
    cfgs = graph(on_cluster, monkeypatch)
    here = bed.opened(cluster)
    bed.signal_daemon(here, "slurmctld", signal.SIGKILL)
    shutil.rmtree(here.directory / "state")
    (here.directory / "state").mkdir()
    bed.start_daemon(here, "slurmctld")
    run = opened("graph")

    def cron() -> bool:
        with contextlib.suppress(submit.TransientError, HeldError):
            reconcile.reconcile(run)
        time.sleep(2)
        return all(step.outcome() for step in run.steps.values())

    wait_until(cron, 120, "the end of the graph")
    graph_ended_well(cfgs)


def test_a_submission_waits_for_the_controller(cluster: Path, on_cluster: Path) -> None:
    """The command itself meets an absent controller: it waits, and submits everything once."""
    here = bed.opened(cluster)
    bed.signal_daemon(here, "slurmctld", signal.SIGKILL)
    words = ["import sys; from slurm_stages import COUNT, CountConfig; from xling.slurm import launch;"]
    words += ["from pathlib import Path; cfg = CountConfig(Path('m').absolute(), updates=3);"]
    words += ["launch.submit_stage(COUNT, [cfg], 'slurm', {'run': 'late'})"]
    process = subprocess.Popen([sys.executable, "-c", " ".join(words)], stderr=subprocess.PIPE, text=True)
    try:
        time.sleep(12)
        assert process.poll() is None
    finally:
        bed.start_daemon(here, "slurmctld")
    _, told = process.communicate(timeout=90)
    assert process.returncode == 0, told
    ended_well("late", CountConfig(on_cluster / "m", updates=3))
    kinds = [entry["kind"] for entry in opened("late").steps["count"].jobs() if not entry.get("void")]
    assert sorted(kinds) == ["array", "barrier", "collect"]


def test_another_cluster_is_no_answer(on_cluster: Path) -> None:
    cfg = CountConfig(on_cluster / "m", updates=100, seconds=0.2)
    identity = running_count("far", cfg)
    record = folder() / "far" / "run.json"
    facts = json.loads(record.read_text())
    assert facts["slurm"].startswith("xling")
    record.write_text(json.dumps(facts | {"slurm": "elsewhere"}))
    text = commands.show_status(folder(), "far")
    assert "NO ANSWER" in text
    assert "far is on cluster elsewhere, this shell speaks to xling" in text
    answer = commands.cancel(folder(), "far")
    assert answer.exit_code == 1
    assert job_states([identity])[identity].state == "RUNNING"
    with pytest.raises(UserError, match="set SLURM_CONF"):
        commands.requeue(folder(), "far")


def test_a_cancelled_collector_is_replaced(on_cluster: Path) -> None:
    """By the next one who looks, while the part runs and after it has ended; the barrier is released at the end."""
    cfg = CountConfig(on_cluster / "m", updates=60, save_every=10, seconds=0.1)
    running_count("left", cfg)
    step = opened("left").steps["count"]
    subprocess.run(["scancel", *collectors(step)], check=True)
    assert "RUNNING" in commands.show_status(folder(), "left")
    assert len(collectors(step)) == 2
    subprocess.run(["scancel", *collectors(step)], check=True)
    wait_until(lambda: (cfg.out / "result").exists(), 60, "the end of the part")
    wait_until(
        lambda: not any(n.startswith("left.count.run") for n in active_names()), 60, "the end of the job"
    )
    assert cli.main(["slurm", "reconcile"]) == 0
    ended_well("left", cfg)
    barrier = step.barrier()
    wait_until(lambda: job_states([barrier])[barrier].state == "COMPLETED", 60, "the barrier")


def test_cancel_verifies(on_cluster: Path) -> None:
    cfg = CountConfig(on_cluster / "m", updates=300, save_every=10, seconds=0.1)
    running_count("stop", cfg)
    assert lease_path(cfg.out).exists()
    answer = commands.cancel(folder(), "stop")
    assert answer.exit_code == 0
    assert not [name for name in active_names() if name.startswith("stop.")]
    assert opened("stop").steps["count"].outcome()["state"] == "cancelled"
    assert not lease_path(cfg.out).exists()


def test_a_killed_submitter_leaves_a_run_that_goes_on(on_cluster: Path) -> None:
    """Killed between writing down a submission and hearing of it, at each of the three submissions."""
    for number in range(3):
        name = f"killed{number}"
        cfg = CountConfig(on_cluster / name, updates=3)
        code = (
            "import os, sys; from pathlib import Path\n"
            "from slurm_stages import COUNT, CountConfig; from xling.slurm import launch, submit as queue\n"
            "real, left = queue.submit, [int(sys.argv[2])]\n"
            "def submit(jobs, n=1):\n"
            "    ids = real(jobs, n)\n"
            "    if not left[0]: os.kill(os.getpid(), 9)\n"
            "    left[0] -= 1\n"
            "    return ids\n"
            "queue.submit = submit\n"
            "cfg = CountConfig(Path(sys.argv[1]).absolute(), updates=3)\n"
            "launch.submit_stage(COUNT, [cfg], 'slurm', {'run': sys.argv[1]})\n"
        )
        done = subprocess.run([sys.executable, "-c", code, name, str(number)])
        assert done.returncode == -9
        assert cli.main(["slurm", "reconcile", name]) == 0
        ended_well(name, cfg)
        entries = opened(name).steps["count"].jobs()
        assert sorted(e["kind"] for e in entries) == ["array", "barrier", "collect"]
        assert all(e["jobs"] for e in entries)


def test_one_run_at_a_time_writes_an_output(on_cluster: Path) -> None:
    cfg = CountConfig(on_cluster / "m", updates=300, save_every=10, seconds=0.1)
    running_count("one", cfg)
    with pytest.raises(
        UserError, match=r"m is being written by step count of run one; see: xling slurm status one"
    ):
        launch.submit_stage(COUNT, [cfg], "slurm", {"run": "two"})
    assert not (folder() / "two").exists()
    commands.cancel(folder(), "one")
    launch.submit_stage(COUNT, [cfg], "slurm", {"run": "three"})
    ended_well("three", cfg)


def test_a_job_that_no_node_could_start(cluster: Path, on_cluster: Path) -> None:
    """Slurm holds it until it is released, and drains the node; a site mends that, and the run goes on."""
    here = bed.opened(cluster)
    cfg = CountConfig(on_cluster / "m", updates=3)
    here.broken.touch()
    try:
        launch.submit_stage(COUNT, [cfg], "slurm", {"run": "held"})
        (identity,) = opened("held").steps["count"].arrays()[0]["jobs"]
        wait_until(lambda: ask_about().jobs[identity].is_put_aside, 30, "the failed start")
    finally:
        here.broken.unlink()
        for name in here.node_names:  # one that is not drained cannot be resumed
            subprocess.run(["scontrol", "update", f"NodeName={name}", "State=RESUME"], capture_output=True)
    assert cli.main(["slurm", "reconcile"]) == 0
    ended_well("held", cfg)


def test_a_node_lost_and_three_preemptions_before_the_first_checkpoint(
    cluster: Path, on_cluster: Path
) -> None:
    """Neither counts against the part."""
    cfg = CountConfig(on_cluster / "m", updates=40, save_every=30, seconds=0.25, polite=False)
    launch.submit_stage(COUNT, [cfg], "slurm", {"run": "poor"})
    starts = cfg.out / "starts"
    for number in range(4):
        wait_until(lambda n=number: starts.exists() and len(starts_of(cfg)) == n + 1, 60, "a start")
        identity = opened("poor").steps["count"].arrays()[-1]["jobs"][0]
        if number % 2:
            subprocess.run(["scontrol", "requeue", identity], check=True)
        else:
            preempt(identity)
    ended_well("poor", cfg)
    assert starts_of(cfg)[:4] == [0, 0, 0, 0]


def preempt(identity: str) -> None:
    """Start a job of higher priority that needs both nodes, and wait until it has run."""
    command = ["sbatch", "--parsable", "--partition=urgent", "--nodes=2", "--exclusive", "--wrap=sleep 1"]
    done = subprocess.run(
        [*command, "--output=/dev/null", "--mem=0"], capture_output=True, text=True, check=True
    )
    urgent = done.stdout.strip()
    wait_until(lambda: job_states([urgent])[urgent].state == "COMPLETED", 60, f"the preemption of {identity}")
