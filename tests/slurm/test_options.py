"""Further options of sbatch and srun, containers, and jobs that run from a copy of the code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slurm_helpers import wait_until
from slurm_stages import COUNT, CountConfig

from xling.core.errors import UserError
from xling.slurm import launch
from xling.slurm.options import sbatch_parameters, snapshot
from xling.slurm.record import open_run
from xling.slurm.resources import Resources, Site, read_site
from xling.slurm.submit import make_executor, script


def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **settings: str) -> str:
    monkeypatch.chdir(tmp_path)
    return str(launch.submit_stage(COUNT, [CountConfig(tmp_path / "out")], "plan", {"run": "r", **settings}))


def part_of(text: str, name: str) -> str:
    """The batch script under a title of a plan."""
    return text.split(f"==> r.count.{name} <==")[1].split("==>")[0]


def test_options_stand_in_the_script_of_the_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given_options = {
        "sbatch.exclude": "node[1-3]", "sbatch.exclusive": "true", "sbatch.comment": "two words; 'quoted' $HOME",
        "sbatch.mail-user": "me@example.org", "sbatch.spread-job": "false", "srun.cpu-bind": "cores",
    }  # fmt: skip
    text = planned(tmp_path, monkeypatch, **given_options)
    array = part_of(text, "run")
    assert "#SBATCH --exclude='node[1-3]'\n" in array and "#SBATCH --exclusive\n" in array
    assert "#SBATCH --mail-user=me@example.org\n" in array and "spread-job" not in text
    assert """#SBATCH --comment='two words; '"'"'quoted'"'"' $HOME'\n""" in array
    assert " --cpu-bind=cores " in array
    assert "exclusive" not in part_of(text, "barrier")


def test_texts_with_brackets_commas_and_flags_of_any_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = planned(
        tmp_path, monkeypatch, **{
            "constraint": "[a|b]&c", "sbatch.comment": "[test] run", "sbatch.exclusive": "True", "srun.exact": "False",
            "setup": "[ -f ~/.env ] && . ~/.env", "sbatch.mem-per-gpu": "8G", "mem_gb": "none",
        }
    )  # fmt: skip
    array = part_of(text, "run")
    for line in ("#SBATCH --constraint='[a|b]&c'", "#SBATCH --comment='[test] run'", "#SBATCH --exclusive",
                 "[ -f ~/.env ] && . ~/.env", "#SBATCH --mem-per-gpu=8G"):  # fmt: skip
        assert f"{line}\n" in array
    assert "--mem=" not in text and "exact" not in array  # the small jobs leave it out too


@pytest.mark.parametrize(
    ("setup", "lines"),
    [
        ("export CUDA_VISIBLE_DEVICES=0,1", ("export CUDA_VISIBLE_DEVICES=0,1",)),
        ("module load a\nexport B='x, y'\n", ("module load a", "export B='x, y'")),
        ("[module load a, module load b]", ("module load a", "module load b")),
    ],
)
def test_commas_in_a_line_of_shell_divide_nothing(tmp_path: Path, setup: str, lines: tuple[str, ...]) -> None:
    assert Site().resources("eval", {"setup": setup}).setup == lines
    if not setup.startswith("["):
        (tmp_path / "site.yaml").write_text(f"default: {{setup: {json.dumps(setup)}}}\n")
        assert read_site(str(tmp_path / "site.yaml")).resources("eval").setup == lines


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"sbatch.nodes": "2"}, "fix: use slurm.nodes="),
        ({"sbatch.time": "1:00"}, "fix: use slurm.timeout_min="),
        ({"sbatch.p": "gpu"}, "the long name of an option"),
        ({"sbatch.cpus-per-gpu": "4"}, "fix: use slurm.cpus_per_task="),
        ({"sbatch.mem-per-gpu": "8G"}, "mem_gb=none beside it"),
        ({"sbatch.array": "1-9"}, "xling sets --array itself"),
        ({"sbatch.clusters": "other"}, "xling sets --clusters itself"),
        ({"sbatch.wrap": "reboot"}, "xling sets --wrap itself"),
        ({"srun.output": "x"}, "xling sets --output itself"),
        ({"sbatch.--exclude": "x"}, "without its dashes"),
        ({"sbatch.Exclude": "x"}, "without its dashes"),
        ({"sbatch.comment": "a\nreboot"}, "printable text"),
        ({"sbatch.comment": "x" * 1001}, "at most 1,000 characters"),
        ({"container": "i.sif", "container_runtime": "docker"}, "valid: apptainer, pyxis"),
        ({"mounts": "[/data]"}, "container=IMAGE beside it"),
        ({"container": "--bind"}, "a path or an image's name"),
        ({"container": "a\nb"}, "a path or an image's name"),
    ],
)
def test_wrong_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], expected: str
) -> None:
    with pytest.raises(UserError) as caught:
        planned(tmp_path, monkeypatch, **settings)
    assert expected in str(caught.value)


@given(value=st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=30))
def test_no_value_becomes_shell(value: str) -> None:
    """bash reads the line of an option as a comment, and Slurm the value as one word."""
    resources = Site().resources("toyworld", {"sbatch": {"comment": value}})
    text = script(make_executor(Path("/tmp"), "n", ("array",), resources))
    lines = [line for line in text.split("\n") if line.startswith("#SBATCH --comment")]
    if value.lower() == "false":
        assert not lines
        return
    (line,) = lines
    read = subprocess.run(
        ["bash", "-c", f"printf %s {line.removeprefix('#SBATCH --comment=')}"], capture_output=True
    )
    assert sbatch_parameters({"comment": value}) in ({"comment": value}, {"comment": True}, {})
    assert value.lower() in ("true", "false") or read.stdout.decode() == value


def test_the_parts_run_in_a_container_and_the_collector_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_settings = {"container": "my image.sif", "mounts": "[/data, '/a b:/c']", "gpus_per_node": "1"}
    text = planned(tmp_path, monkeypatch, **given_settings)
    (run,) = [line for line in part_of(text, "run").splitlines() if line.startswith("srun ")]
    records = tmp_path / "runs/jobs/r"
    wanted = (
        f"apptainer exec --nv --pwd {tmp_path} --bind /data --bind '/a b:/c' --bind {tmp_path} --bind {records} "
        "'my image.sif' python3 -u -m xling.slurm.entry array"
    )
    assert wanted in run
    assert text.count("apptainer") == 1 and sys.executable in part_of(text, "barrier")


def test_pyxis_starts_the_container_by_options_of_srun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {
        "container": "nvcr.io#nvidia/pytorch:25.01-py3",
        "container_runtime": "pyxis",
        "mounts": "[/data]",
    }
    (run,) = [
        line
        for line in part_of(planned(tmp_path, monkeypatch, **settings), "run").splitlines()
        if line.startswith("srun ")
    ]
    records = tmp_path / "runs/jobs/r"
    assert "'--container-image=nvcr.io#nvidia/pytorch:25.01-py3'" in run
    assert f"--container-mounts=/data:/data,{tmp_path}:{tmp_path},{records}:{records}" in run
    assert f"--container-workdir={tmp_path} python3 -u -m xling.slurm.entry array" in run


def test_a_copy_of_the_package_is_imported_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = planned(tmp_path, monkeypatch, snapshot="true")
    for name in ("run", "barrier"):
        line = f"export PYTHONSAFEPATH=1 PYTHONPATH={tmp_path}/runs/jobs/r/code"
        assert line in part_of(text, name)
    snapshot(tmp_path / "code")
    copied = tmp_path / "code/xling"
    assert (copied / "recipes/hour.yaml").is_file() and (copied / "slurm/options.py").is_file()
    assert not list(copied.rglob("__pycache__"))
    shown = subprocess.run(
        [sys.executable, "-c", "import xling.slurm.options as o; print(o.__file__)"],
        env=os.environ | {"PYTHONPATH": str(tmp_path / "code"), "PYTHONSAFEPATH": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert Path(shown.stdout.strip()) == copied / "slurm/options.py"
    with pytest.raises(UserError, match="cannot be copied"):
        snapshot(tmp_path / "code")  # it is there already


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"sbatch.export": "NONE", "snapshot": "true"}, "--export=ALL"),
        ({"sbatch.export": "HOME,LANG"}, "--export=ALL"),
        ({"sbatch.export": "NONE", "srun.export": "PATH"}, "--export=PATH"),
        ({}, ""),
    ],
)
def test_a_part_gets_what_its_batch_script_exports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], wanted: str
) -> None:
    """sbatch(1): srun takes over --export of sbatch, so that PYTHONPATH of the copied code would be lost."""
    lines = part_of(planned(tmp_path, monkeypatch, **settings), "run").splitlines()
    (run,) = [line for line in lines if line.startswith("srun ")]
    assert [word for word in run.split() if word.startswith("--export")] == [*filter(None, [wanted])]
    exported = settings.get("sbatch.export")
    assert [line for line in lines if "--export" in line and line.startswith("#SBATCH")] == (
        [f"#SBATCH --export={exported}"] if exported else []
    )


def test_old_records_have_none_of_these() -> None:
    assert Resources() == Resources(sbatch={}, srun={}, container="", mounts=(), snapshot=False)


@pytest.mark.slurm
@pytest.mark.timeout(120)
def test_on_a_cluster(on_cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for Apptainer records its words and runs the command; the jobs import the copy of the code."""
    tool = on_cluster / "bin/apptainer"
    tool.parent.mkdir()
    tool.write_text(
        '#!/bin/bash\nprintf "%s\\n" "$@" > "$0.words"\nwhile [ "$1" != image.sif ]; do shift; done\nshift\nexec "$@"\n'
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    settings = {
        "run": "copied", "container": "image.sif", "container_python": sys.executable, "snapshot": "true",
        "sbatch.comment": "it's a 'test'", "sbatch.begin": "now+6",
    }  # fmt: skip
    launch.submit_stage(COUNT, [CountConfig(on_cluster / "out", updates=5)], "slurm", settings)
    run = open_run(on_cluster / "runs/jobs/copied")
    asked = ["squeue", "--noheader", "--format=%k"]
    assert "it's a 'test'" in subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    entry = run.code / "xling/slurm/entry.py"
    entry.write_text(
        entry.read_text().replace("def main(", "print('the copy', flush=True)\n\n\ndef main(", 1)
    )
    step = run.steps["count"]
    wait_until(step.outcome, 90, "an outcome")
    assert step.outcome()["state"] == "done"
    words = tool.with_name("apptainer.words").read_text().splitlines()
    assert words[0] == "exec" and str(on_cluster) in words and words[-2:][0] == "count"
    logs = [path.read_text() for path in step.log.glob("*.out")]
    assert sum("the copy" in log for log in logs) >= 2  # the part and the barrier
