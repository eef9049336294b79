"""`xling slurm plan`: golden files, compared whole, and the same script that is really submitted."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from slurm_stages import COUNT, MEAN, SHARDS, CountConfig, MeanConfig, ShardConfig

from xling import cli
from xling.core.commands.pipeline import Pipeline, Step
from xling.core.commands.runner import STAGES
from xling.core.errors import UserError
from xling.slurm import launch, submit

GOLDEN = Path(__file__).parent.parent / "golden" / "slurm"
SITE = """\
folder: runs/my jobs
default: {account: nlp, setup: ["module load python/3.11", "export A='b c'"]}
stages:
  pretrain: {partition: gpu, nodes: 2, tasks_per_node: 4, gpus_per_node: 4, gres: "", constraint: "a100&ib"}
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site.yaml").write_text(SITE)
    monkeypatch.setattr(STAGES, "_entries", {"count": COUNT, "mean": MEAN, "shards": SHARDS, **STAGES})
    return "site.yaml"


def compare(name: str, text: str, tmp_path: Path) -> None:
    """Against the golden file; what belongs to this machine is replaced first."""
    text = text.replace(str(tmp_path), "<work>").replace(sys.executable, "<python>") + "\n"
    path = GOLDEN / f"{name}.txt"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        pytest.fail(f"{path} did not exist and was written: read it, then run again")
    assert text == path.read_text()


def test_training_on_two_nodes(site: str, tmp_path: Path) -> None:
    settings = {"profile": site, "run": "big"} | {"nodes": "2", "tasks_per_node": "4", "gpus_per_node": "4"}
    text = launch.submit("mean", MeanConfig(tmp_path / "out"), "plan", settings | {"timeout_min": "1440"})
    compare("plan_training", text, tmp_path)
    assert not (tmp_path / "runs").exists()  # a plan leaves nothing behind


def test_pipeline_whose_parts_are_not_all_known(site: str, tmp_path: Path) -> None:
    monkeypatched = Pipeline(
        {
            "corpus": Step("shards", {"out": str(tmp_path / "c"), "num_parts": "20"}),
            "sum": Step("count", {"out": str(tmp_path / "m")}, after=("corpus",)),
            "other": Step("count", {"out": str(tmp_path / "o")}, after=("corpus",)),
            "report": Step("mean", {"out": str(tmp_path / "r")}, after=("sum", "other")),
        }
    )
    text = launch.submit_pipeline(
        monkeypatched, "plan", {"profile": site, "run": "graph", "array_parallelism": "6"}
    )
    compare("plan_pipeline", text, tmp_path)


def test_sweep(site: str, tmp_path: Path) -> None:
    cfgs = [CountConfig(tmp_path / str(seed), seed=seed) for seed in range(3)]
    compare(
        "plan_sweep", launch.submit_sweep("count", cfgs, "plan", {"profile": site, "run": "seeds"}), tmp_path
    )


def test_from_the_command_line(site: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["slurm", "plan", "toyworld", f"out={tmp_path}/t", "slurm.profile=site.yaml", "slurm.run=toy"]
    assert cli.main(words) == 0
    text = capsys.readouterr().out
    assert text.startswith(
        "run toy: 1 step, at most 0.2 node-hours where known\n  toyworld (xling toyworld): run[1];"
    )
    assert "#SBATCH --account=nlp" in text
    assert cli.main([*words[:3], "cluster=slrm", *words[3:]]) == 0  # plan has the last word


def test_the_plan_is_what_is_submitted(site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for sbatch keeps what it is given; the plan has to show the same text."""
    log = tmp_path / "taken"
    log.mkdir()
    sbatch = tmp_path / "bin" / "sbatch"
    sbatch.parent.mkdir()
    sbatch.write_text(
        f'#!/bin/sh\nn=$(ls "{log}" | wc -l)\ncp "$1" "{log}/$n"\necho "Submitted batch job $((n + 100))"\n'
    )
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", f"{sbatch.parent}:/usr/bin:/bin")
    settings = {"profile": site, "run": "same"}
    cfg = ShardConfig(tmp_path / "c", 20)
    plan = launch.submit("shards", cfg, "plan", settings)
    launch.submit("shards", cfg, "slurm", settings)
    taken = [p.read_text() for p in sorted(log.iterdir(), key=lambda p: int(p.name))]
    assert len(taken) == 3
    barrier, array, collector = taken
    collector = collector.replace("afterany:101", "'afterany:<clean array>'")
    barrier, array, collector = (
        re.sub(r"\b[0-9a-f]{8}\b", "KEY", text) for text in (barrier, array, collector)
    )
    for text in (barrier, array, collector):
        assert text.rstrip() in plan
    assert "--array=0-19%20" in array
    assert submit.script(
        submit.make_executor(tmp_path / "a b", "x", ("y",), launch.read_site(site).resources("collect"))
    )


def test_a_swept_pipeline_is_one_array_a_step(site: str, tmp_path: Path) -> None:
    plans = [
        Pipeline(
            {
                "first": Step("count", {"out": f"{tmp_path}/c{cell}"}),
                "second": Step(
                    "count", {"out": f"{tmp_path}/{cell}-{seed}", "seed": f"{seed}"}, after=("first",)
                ),
                "table": Step("mean", {"out": f"{tmp_path}/r"}, after=("second",)),
            }
        )
        for cell in ("a", "b")
        for seed in (1, 2, 3)
    ]
    facts = launch.submit_pipeline(plans, "plan", {"profile": site, "run": "grid"}).data
    assert [sum(step["phases"].values()) for step in facts["steps"]] == [2, 6, 1]
    shards = [
        Pipeline({"parts": Step("shards", {"out": f"{tmp_path}/{n}", "num_parts": "4"})}) for n in range(2)
    ]
    with pytest.raises(UserError, match=r"a sweep over parts \(xling shards\); valid: steps of one part"):
        launch.submit_pipeline(shards, "plan", {"profile": site, "run": "grid"})
