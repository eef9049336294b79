"""An objective is one file: the command trains it, and its settings are checked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(HERE / "with_trial_files.py"), *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)


@pytest.mark.slow
def test_one_file_is_trained_and_published(shards: Path, tiny: list[str], tmp_path: Path) -> None:
    words = [f"data={shards}", *(word for word in tiny if not word.startswith("objectives"))]
    mix = "objectives={ending: {share: .5, tokens_per_sample: 32}, mmlm: {tokens_per_sample: 32}}"
    done = run("xling", "pretrain", *words, mix, f"out={tmp_path}/model", "train.updates=3")
    assert done.returncode == 0, done.stderr
    log = [json.loads(line) for line in (tmp_path / "model" / "log.jsonl").read_text().splitlines()]
    assert any("loss/ending" in event for event in log)
    manifest = json.loads((tmp_path / "model" / "manifest.json").read_text())
    assert manifest["config"]["objectives"]["ending"]["share"] == ".5"
    wrong = run("xling", "pretrain", *words, "objectives.ending.shar=1", f"out={tmp_path}/other")
    assert (wrong.returncode, "share" in wrong.stderr) == (2, True), wrong.stderr
