"""Which errors of Slurm's commands are refusals, and which mean that Slurm did not answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from xling import cli
from xling.core.commands.pipeline import Pipeline, Step
from xling.core.commands.runner import STAGES, load
from xling.core.errors import UserError
from xling.core.settings.config import from_dict
from xling.slurm import launch, submit
from xling.slurm.resources import Resources

# Codes 1000 to 1004, 1007, 1008, 1012, 1013, 1800 to 1803, 2061, 2105 and 5000 to 5005 of slurm_errno.h.
NO_ANSWERS = (
    "Unexpected message received", "Communication connection failure", "Message send failure",
    "Message receive failure", "Communication shutdown failure", "Protocol authentication error",
    "Insane message length", "Can't find an address, check slurm.conf", "Unexpected missing socket error",
    "Unable to contact slurm controller (connect failure)", "Unable to contact slurm controller (send failure)",
    "Unable to contact slurm controller (receive failure)", "Unable to contact slurm controller (shutdown failure)",
    "PrologSlurmctld is still running", "System submissions disabled", "Received zero length message",
    "Received message length < 0", "Failed to send entire message", "Header lengths are longer than data received",
    "Socket timed out on send/recv operation", "Zero Bytes were transmitted or received",
)  # fmt: skip
REFUSALS = (
    "Incompatible versions of client and server code", "Invalid job id specified", "Access/permission denied",
    "Requested node configuration is not available", "Invalid partition name specified",
)  # fmt: skip


@pytest.fixture
def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A command that fails with what the test writes into the returned file."""
    command, said = tmp_path / "scontrol", tmp_path / "said"
    command.write_text(f"#!/bin/sh\ncat '{said}' >&2\nexit 1\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return said


@pytest.mark.parametrize("said", NO_ANSWERS)
def test_an_error_of_slurms_protocol_is_no_refusal(scontrol: Path, said: str) -> None:
    """The controller went away in the middle of a request. It may have read it, so the caller has to look."""
    scontrol.write_text(f"slurm_suspend error: {said} for job 218\n")
    with pytest.raises(submit.TransientError, match="for job 218"):
        submit.run_command("scontrol", "release", "218")


@pytest.mark.parametrize("said", REFUSALS)
def test_a_refusal_is_told_at_once(scontrol: Path, said: str) -> None:
    scontrol.write_text(f"{said}\n")
    with pytest.raises(UserError, match=f"refused the command scontrol: {said}"):
        submit.run_command("scontrol", "release", "218")


def test_a_setting_without_effect_is_refused_before_it_is_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    halves = STAGES["corpus halves"]
    cfg = from_dict(
        load(halves.config),
        {"files": ["a", "b"], "pair": "en-sw", "out": "o", "cut": "order", "seed": 3},
        "test",
    )
    for submitted in (lambda: launch.submit(halves.name, cfg, "plan"),
                      lambda: launch.submit_sweep(halves.name, [cfg], "plan")):  # fmt: skip
        with pytest.raises(UserError, match="seed=3 changes nothing here"):
            submitted()


def test_a_pipeline_is_checked_and_reduced_before_it_is_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = {"checkpoint": str(tmp_path), "data": "data"}
    steps = {
        name: Step("eval", {**model, "suites": [name], "out": f"runs/{name}"}, optional=True)
        for name in ("xnli", "pawsx")
    }
    with pytest.raises(UserError, match=r"data=data \(of the steps xnli, pawsx\)"):
        launch.submit_pipeline(Pipeline(steps), "slurm", {"run": "both"})
    rows = tmp_path / "data" / "rows" / "xnli"
    rows.mkdir(parents=True)
    row = '{"id": "1", "fields": {"text_a": "a", "text_b": "b"}, "label": "neutral"}\n'
    for name in ("en.train", "en.dev", "sw.test"):
        (rows / f"{name}.jsonl").write_text(row)
    assert [
        step["step"]
        for step in launch.submit_pipeline(Pipeline(steps), "plan", {"run": "both"}).data["steps"]
    ] == ["xnli"]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("slurm.mem=4G", "unknown setting 'mem'"),
        ("slurm.timeout_min=2:00:00", "timeout_min='2:00:00'"),
        ("slurm.sbatch.p=gpu", "sbatch.p: 'p' is not an option"),
        ("slurm.profile=nowhere.yaml", "nowhere.yaml"),
    ],
)
def test_a_dry_run_checks_what_it_would_ask_of_the_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: str, said: str
) -> None:
    (tmp_path / "sw.txt").write_text("Habari ya asubuhi.\n")
    words = ["corpus", "mono", "lang=sw", f"source=text:{tmp_path / 'sw.txt'}", f"out={tmp_path / 'out'}"]
    assert cli.main([*words, "cluster=slurm", "--dry-run", setting]) == 2
    assert said in capsys.readouterr().err


def test_gpus_are_asked_for_once() -> None:
    assert Resources(gres="gpu:a100:4").gpus_per_node == 0
    assert Resources(gres="tmpfs:100G", gpus_per_node=2).gpus_per_node == 2
    with pytest.raises(UserError, match="gres=gpu:a100:4 with gpus_per_node=8; valid: one of them"):
        Resources(gres="gpu:a100:4", gpus_per_node=8)
