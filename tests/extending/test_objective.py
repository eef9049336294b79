"""An objective is one file: the command trains it, and its settings are checked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return forked.run(str(HERE / "with_trial_files.py"), *words, cwd=ROOT)


@pytest.mark.slow
def test_one_file_is_trained_and_published(shards: Path, tiny: list[str], tmp_path: Path) -> None:
    words = [f"data={shards}", *(word for word in tiny if not word.startswith("objectives"))]
    mix = "objectives={ending: {share: .5, tokens_per_sample: 32}, mmlm: {tokens_per_sample: 32}}"
    wrong = ("pretrain", *words, "objectives.ending.shar=1", f"out={tmp_path}/other")
    done = run("xling", "pretrain", *words, mix, f"out={tmp_path}/model", "train.updates=3", "+", *wrong)
    assert done.returncode == 2 and "objectives.ending: unknown setting 'shar'" in done.stderr, done.stderr
    log = [json.loads(line) for line in (tmp_path / "model" / "log.jsonl").read_text().splitlines()]
    assert any("loss/ending" in event for event in log)
    manifest = json.loads((tmp_path / "model" / "manifest.json").read_text())
    assert manifest["config"]["objectives"]["ending"]["share"] == ".5"
    assert not (tmp_path / "other").exists()


_TRIED = """
import sys
from xling.core.settings import schema
from xling.objectives import declared
apart = declared.find("apart")
assert apart.decoder and not apart.shardable and "torch" not in sys.modules
told = schema.objectives()
print(*(key.name for name in ("apart", "ending") for key in told[name]))
print(*(name for name in ("writer", "heir", "computed", "ending") if declared.find(name).decoder))
print(*(name for name in ("far", "none", "torn") if name in told))
from xling.objectives import OBJECTIVES
assert OBJECTIVES["apart"].decoder and OBJECTIVES["apart"].config().depth == 3
"""
_FILES = {
    "apart_settings": """
@declare("apart")
@dataclass
class ApartConfig(TaskConfig):
    decoder: ClassVar[bool] = True
    shardable: ClassVar[bool] = False
    depth: int = 3
""",
    "apart": """
import apart_settings
@objective("apart")
class Apart(Ending):
    pass
""",
    "writer": """
@objective("writer")
class Writer(Ending):
    decoder: ClassVar[bool] = True
""",
    "heir": """
from writer import Writer
@objective("heir")
class Heir(Writer):
    pass
""",
    "computed": """
@objective("computed")
class Computed(Ending):
    decoder = "computed".startswith("c")
""",
    "far": """
from ending import EndingConfig
@dataclass
class FarConfig(EndingConfig):
    near: bool = False
@objective("far")
class Far(Ending):
    config = FarConfig
""",
    "torn": "class Torn(",
}
_LIGHT = "from xling.objectives.base_settings import TaskConfig, declare\n"
_HEAVY = "from ending import Ending\nfrom xling.objectives.base import objective\n"


def test_one_of_another_package_states_its_facts_in_any_style(tmp_path: Path) -> None:
    """Annotated, inherited or computed; without torch where a module of settings lies beside it."""
    about = tmp_path / "trial-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: trial\nVersion: 1.0\n")
    names = ("ending", "apart", "writer", "heir", "computed", "far", "torn", "none")
    lines = "".join(f"objective.{name} = {name}\n" for name in names)
    (about / "entry_points.txt").write_text(f"[xling.plugins]\n{lines}")
    for name, text in _FILES.items():
        head = "from dataclasses import dataclass\nfrom typing import ClassVar\n"
        head += _LIGHT if name.endswith("settings") else _HEAVY
        (tmp_path / f"{name}.py").write_text(head + text)
    places = [str(place) for place in (ROOT, tmp_path, HERE / "trial" / "objectives")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(places)}
    command = [sys.executable, "-c", _TRIED]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    settings, with_decoder, others = done.stdout.splitlines()
    expected = ("objectives.apart.depth", "objectives.apart.alpha", "objectives.ending.share")
    assert {*expected} <= {*settings.split()}
    assert (with_decoder, others) == ("writer heir computed", "far")
