"""The real trainer on the test bed: two nodes against one process, and interruptions against none."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from slurm_helpers import wait_until

from xling import cli
from xling.core.output import manifest
from xling.core.settings import config
from xling.slurm import commands, launch
from xling.slurm.record import Run, Step, open_run

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(240)]


def submit(name: str, out: Path, shards: Path, words: tuple[str, ...], **settings: str) -> Run:
    from xling.training.settings import PretrainConfig

    cfg = config.load(PretrainConfig, overrides=[*words, f"data={shards}", f"out={out}"])
    launch.submit("pretrain", cfg, "slurm", {"run": name, "mem_gb": "2", **settings})
    return open_run(Path("runs/jobs").absolute() / name)


def ended(run: Run) -> None:
    step = run.steps["pretrain"]
    wait_until(step.outcome, 200, f"the end of {run.name}")
    assert step.outcome()["state"] == "done", commands.show_logs(run.path.parent, run.name)


def updates_saved(out: Path) -> int:
    marks = sorted(out.with_name(f"{out.name}.partial").glob("update-*.sha256"))
    return int(marks[-1].stem.removeprefix("update-")) if marks else 0


def test_two_nodes_train_the_weights_of_one_process(
    on_cluster: Path, shards: Path, tiny: tuple[str, ...]
) -> None:
    """The same global batch: one process that adds up two batches, or two nodes with one batch each.

    Dropout is off, since each process draws its own. Float32 sums come in another order, so the weights agree
    to a tolerance: 2e-5 absolute after 30 updates at a learning rate of 1e-3. The run on two nodes is killed in
    mid-training and goes on.
    """
    import torch

    words = (*tiny, "train.updates=30", "train.save_every=5", "train.lr=1e-3", "model.dropout=0")
    one = submit("one", on_cluster / "one", shards, (*words, "train.accumulate=2"))
    two = submit("two", on_cluster / "two", shards, (*words, "train.accumulate=1"), nodes="2")
    wait_until(lambda: updates_saved(on_cluster / "two") >= 5, 90, "the first checkpoint")
    step = two.steps["pretrain"]
    subprocess.run(["scancel", "--signal=KILL", *step.arrays()[0]["jobs"]], check=True)
    ended(one)
    ended(two)
    assert saves(step)[0] == 0 < saves(step)[-1] < 30
    first, second = (
        torch.load(on_cluster / name / "model.pt", weights_only=True)["weights"] for name in ("one", "two")
    )
    assert first.keys() == second.keys()
    for name, weight in first.items():
        torch.testing.assert_close(second[name], weight, rtol=0, atol=2e-5, msg=lambda m, n=name: f"{n}: {m}")
    losses = [json.loads(line) for line in (on_cluster / "two" / "log.jsonl").read_text().splitlines()]
    expected = [json.loads(line) for line in (on_cluster / "one" / "log.jsonl").read_text().splitlines()]
    assert losses[-1]["loss"] == pytest.approx(expected[-1]["loss"], abs=1e-4)


def test_training_interrupted_three_times_ends_bit_for_bit(
    on_cluster: Path, shards: Path, tiny: tuple[str, ...]
) -> None:
    """Requeued, asked to stop and killed, one after the other, against an uninterrupted run."""
    from xling.training.settings import PretrainConfig
    from xling.training.train import run

    words = (*tiny, "train.updates=160", "train.save_every=20", "train.valid_every=80", "model.dropout=0.1")
    out = on_cluster / "model"
    found = submit("broken", out, shards, words)
    step = found.steps["pretrain"]
    for command in (["scontrol", "requeue"], ["scancel", "--signal=USR2"], ["scancel", "--signal=KILL"]):
        saved = step.part("run", 0).num_saved()
        wait_until(lambda n=saved: step.part("run", 0).num_saved() > n, 90, "a new checkpoint")
        starts = len(saves(step))
        subprocess.run([*command, step.arrays()[-1]["jobs"][0]], check=True)
        wait_until(lambda n=starts: len(saves(step)) > n, 90, "the next start")
    ended(found)
    began = saves(step)
    assert len(began) == 4
    assert 0 == began[0] < began[1] < began[2] < began[3] < 160
    plain = on_cluster / "plain"
    run(config.load(PretrainConfig, overrides=[*words, f"data={shards}", f"out={plain}"]))
    assert manifest.read(out).files["model.pt"] == manifest.read(plain).files["model.pt"]


def saves(step: Step) -> list[int]:
    """What was saved at each start."""
    return [e["saved"] for e in step.part("run", 0).events() if e["event"] == "start"]


def test_pipeline_from_the_toy_world_to_the_table(
    on_cluster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every real stage, from the command line, as one graph; paths have spaces."""
    recipe = Path(__file__).with_name("toy_pipeline.yaml")
    assert cli.main(["run", str(recipe), "cluster=slurm", "slurm.run=toy", "slurm.mem_gb=2"]) == 0
    assert capsys.readouterr().out.startswith("submitted toy (barriers: raw ")
    run = open_run(Path("runs/jobs").absolute() / "toy")
    wait_until(run.steps["report"].outcome, 220, "the report")
    states = {name: step.outcome() for name, step in run.steps.items()}
    assert {name: state["state"] for name, state in states.items()} == dict.fromkeys(run.steps, "done"), (
        states
    )
    assert "sw" in (on_cluster / "runs/toy world/report/report.md").read_text()
