"""An objective is one file: the command trains it, and its settings are checked."""

from __future__ import annotations

import json
import os
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


_DESCRIBED = """
import sys
from xling.core.settings import schema
told = schema.objectives()
print([key.name for key in told["ending"]], "ending" in schema.declaring("decoder = True"), "far" in told)
assert "torch" not in sys.modules
"""


def test_one_of_another_package_is_described_without_torch(tmp_path: Path) -> None:
    """One whose base lies in a module that no entry point names is imported when a training asks for it."""
    about = tmp_path / "trial-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: trial\nVersion: 1.0\n")
    lines = (
        "objective.ending = ending\nobjective.far = far\nobjective.none = no_module\nobjective.torn = torn\n"
    )
    (about / "entry_points.txt").write_text(f"[xling.plugins]\n{lines}")
    far = "from other import Base\n\n\n@objective('far')\nclass Far(Base):\n    pass\n"
    (tmp_path / "far.py").write_text(far)
    (tmp_path / "torn.py").write_text("class Torn(")
    places = [str(place) for place in (ROOT, tmp_path, HERE / "trial" / "objectives")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(places)}
    command = [sys.executable, "-c", _DESCRIBED]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    names, decoder, is_far = done.stdout.rsplit(maxsplit=2)
    assert "objectives.ending.share" in names and "objectives.ending.alpha" in names
    assert (decoder, is_far) == ("False", "False")
