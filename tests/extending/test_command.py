"""A command of another package: an entry point and a module are all that help, pipelines and Slurm need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def install(site: Path, points: dict[str, str]) -> None:
    """Write the metadata of a package with these entry points."""
    about = site / "trial-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: trial\nVersion: 1.0\n")
    lines = "".join(f"{name} = {value}\n" for name, value in points.items())
    (about / "entry_points.txt").write_text(f"[xling.plugins]\n{lines}")


@pytest.fixture
def trial(tmp_path: Path) -> Run:
    """Run Python in ``tmp_path`` with the trial package installed."""

    def run(*words: str, **points: str) -> subprocess.CompletedProcess[str]:
        site = tmp_path / f"site{len(list(tmp_path.glob('site*')))}"
        install(site, {"command.corpus.count": "trial_count:COUNT"} | points)
        places = [str(HERE.parents[1]), str(site), str(HERE / "trial" / "commands")]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(places), "XLING_SHAPES": "0"}
        command = [sys.executable, *words]
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)

    return run


def test_it_is_listed_described_and_suggested(trial: Run) -> None:
    for words, said in (
        (["help", "all"], "count the words of a text\n"),
        (["corpus", "count", "--help"], "xling corpus count [text] [RECIPE.yaml]"),
        (["schema", "corpus", "count"], '"title": "corpus count"'),
    ):
        done = trial("-m", "xling", *words)
        assert done.returncode == 0 and said in done.stdout, done.stdout[-2000:] + done.stderr
    wrong = trial("-m", "xling", "corpus", "cuont")
    assert (wrong.returncode, "did you mean 'corpus count'" in wrong.stderr) == (2, True), wrong.stderr


def test_it_runs_alone_in_a_pipeline_and_as_a_job(trial: Run, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("one two three\n")
    done = trial("-m", "xling", "corpus", "count", "text", "out=alone", "--json")
    assert json.loads(done.stdout) == {"words": 3}, done.stderr
    assert json.loads((tmp_path / "alone" / "manifest.json").read_text())["stage"] == "corpus count"
    (tmp_path / "steps.yaml").write_text(
        "steps:\n  count: {stage: corpus count, config: {text: text, out: step}}\n"
    )
    done = trial("-m", "xling", "run", "steps.yaml")
    assert (done.returncode, done.stdout) == (0, "3 words\n"), done.stderr
    done = trial("-m", "xling", "run", "steps.yaml", "count.out=job", "cluster=debug")
    assert done.returncode == 0 and (tmp_path / "job" / "words.json").read_text() == "3", done.stderr


def test_a_command_of_our_own_imports_nothing_of_it(trial: Run) -> None:
    code = "import sys; from xling import cli; assert cli.main(['new', '--help']) == 0; print(*sys.modules)"
    done = trial("-c", code)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not loaded & {"trial_count", "xling.papers"} and "xling.new" in loaded


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("vocab", "trial_count:COUNT", "the command 'vocab' of package trial has a name that is taken"),
        ("run", "trial_count:COUNT", "'run' of package trial: trial_count:COUNT has a name that is taken"),
        ("a.b.c", "trial_count:COUNT", "has a name that is not one word or two"),
        (
            "other",
            "trial_count:COUNT",
            "trial_count:COUNT is not a Stage of the name 'other'",
        ),
        ("other", "trial_count:run", "is not a Stage of the name 'other'"),
        ("other", "trial_absent:COUNT", "cannot be loaded: ModuleNotFoundError"),
    ],
)
def test_what_cannot_be_a_command_is_told_in_one_line(
    trial: Run, name: str, value: str, message: str
) -> None:
    done = trial("-m", "xling", "--help", **{f"command.{name}": value})
    assert done.returncode == 2 and message in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("xling: ")
