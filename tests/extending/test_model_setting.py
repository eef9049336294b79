"""A model setting is one file: the command trains with it, checks its range, and records it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests import forked

HERE = Path(__file__).parent


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return forked.run(str(HERE / "with_trial_files.py"), "xling", "pretrain", *words, cwd=HERE.parents[1])


def test_its_name_and_range_are_checked() -> None:
    done = run("data=none", "out=none", "model.embedding_noise=-1")
    assert (done.returncode, "model.embedding_noise=-1.0; valid: a number from 0" in done.stderr) == (2, True)
    unknown = run("data=none", "out=none", "model.embedding_nois=1")
    assert (unknown.returncode, "did you mean 'model.embedding_noise'" in unknown.stderr) == (2, True)


@pytest.mark.slow
def test_one_file_changes_what_is_trained_and_is_recorded(
    shards: Path, tiny: list[str], tmp_path: Path
) -> None:
    words = [f"data={shards}", *tiny]
    commands = [
        [*words, "train.updates=2", f"out={tmp_path / name}", f"model.embedding_noise={noise}"]
        for name, noise in (("without", "0"), ("with", "50"))
    ]
    again = [*words, "train.updates=1", f"init={tmp_path / 'with'}", f"out={tmp_path / 'c'}"]
    done = run(*commands[0], "+", "pretrain", *commands[1], "+", "pretrain", *again)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "c" / "model.pt").is_file()
    losses = {}
    for name in ("without", "with"):
        log = [json.loads(line) for line in (tmp_path / name / "log.jsonl").read_text().splitlines()]
        losses[name] = [event["loss"] for event in log]
    assert losses["with"] != losses["without"]
    manifest = json.loads((tmp_path / "with" / "manifest.json").read_text())
    assert manifest["config"]["model"]["embedding_noise"] == 50.0
