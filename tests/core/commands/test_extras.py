"""A command that needs a missing package names it before any work is done."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from xling import doctor
from xling.core.commands import inputs
from xling.core.commands.runner import STAGES, run_local
from xling.core.errors import UserError

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAIRS = [(name, extra) for name, stage in STAGES.items() for extra in stage.extra.split()]


class Unset:
    """Settings of which none is given."""

    def __getattr__(self, name: str) -> str:
        return ""


def test_the_table_is_that_of_the_project() -> None:
    told = PROJECT["optional-dependencies"]
    names = metadata.packages_distributions()
    for extra, packages in inputs.EXTRAS.items():
        wanted = {Requirement(line).name for line in told[extra]}
        assert {names[package][0].replace("_", "-").lower() for package in packages} == wanted, extra
    (everything,) = told["all"]
    assert Requirement(everything).extras == set(inputs.EXTRAS) <= set(told)
    base = {Requirement(line).name for line in PROJECT["dependencies"]}
    assert not base & {Requirement(line).name for extra in inputs.EXTRAS for line in told[extra]}


@pytest.mark.parametrize(("command", "extra"), PAIRS)
def test_a_command_says_what_it_misses_before_it_works(
    monkeypatch: pytest.MonkeyPatch, command: str, extra: str
) -> None:
    package = inputs.EXTRAS[extra][-1]
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError) as caught:
        run_local(command, Unset())
    assert str(caught.value) == (
        f"{package} is not installed, and xling {command} needs it; fix: pip install 'xling[{extra}]'"
    )


CASES = [
    pytest.param("submitit", "slurm", ["corpus", "mono", "lang=sw", "out=o", "cluster=slurm"], id="slurm"),
    pytest.param("matplotlib", "report", ["quickstart", "out=o"], id="pipeline"),
]


@pytest.mark.parametrize(("package", "extra", "words"), CASES)
def test_an_import_that_fails_is_one_line(tmp_path: Path, package: str, extra: str, words: list[str]) -> None:
    (tmp_path / "x.warc").write_text("")
    code = (
        f"import sys; sys.modules[{package!r}] = None; from xling.cli import main; sys.exit(main({words!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(f"xling: {package} is not installed, and xling ")
    assert done.stderr.endswith(f"fix: pip install 'xling[{extra}]'\n") and done.stderr.count("\n") == 1


def test_another_module_that_is_missing_is_a_fault() -> None:
    assert inputs.explain_import_error(ModuleNotFoundError("No module named 'x'", name="x"), "xling") is None


def test_doctor_warns_of_missing_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    (fine,) = doctor.optional(doctor.DoctorConfig())
    assert fine.state == doctor.OK
    monkeypatch.setitem(sys.modules, "faiss", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    (told,) = doctor.optional(doctor.DoctorConfig())
    assert told.state == doctor.OK and told.detail == "mining lacks faiss; report lacks matplotlib"
    assert told.fix == "pip install 'xling[mining,report]'"
