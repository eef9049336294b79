"""The wheel as a user installs it: away from the checkout, beside packages of the same names as our folders."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from xling.eval.scores.score_file import read_scores

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("xling", "corpora", "eval", "slurm", "recipes", "pyproject.toml", "README.md", "LICENSE")
OTHERS = ("corpora", "eval", "slurm", "recipes")
BUILD = "import sys; from setuptools import build_meta as b; print(getattr(b, sys.argv[1])(sys.argv[2]))"
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}

pytestmark = pytest.mark.slow


def run(*words: str | Path, cwd: Path, timeout_s: float = 240) -> str:
    """Standard output of a program that knows nothing of the checkout: it must end well."""
    command = [str(word) for word in words]
    env = ENVIRONMENT | {"HOME": str(cwd)}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout_s)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def build(kind: str, source: Path, target: Path) -> Path:
    """What the build backend makes of a source tree: ``build_sdist`` or ``build_wheel``."""
    return target / run(sys.executable, "-c", BUILD, kind, target, cwd=source).split()[-1]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout, since a build writes into its folder."""
    copy = tmp_path_factory.mktemp("source")
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, copy / part, symlinks=True, ignore=unwanted)
        else:
            shutil.copy(ROOT / part, copy / part)
    return copy


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is built from the sdist, as an installer without a wheel does it."""
    folder = tmp_path_factory.mktemp("dist")
    sdist = build("build_sdist", source, folder)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return build("build_wheel", folder / sdist.name.removesuffix(".tar.gz"), folder)


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, which reaches the dependencies of the present one but not its xling."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    made = folder / "bin" / "python"
    # A path in a .pth file is searched, but the .pth files in it, such as that of an editable install, are not read.
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    words = ["--no-deps", "--no-index", "--no-cache-dir", "--disable-pip-version-check"]
    run(sys.executable, "-m", "pip", "--python", made, "install", *words, wheel, cwd=folder)
    return made


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder of the user that has packages of its own under the names of our folders."""
    for name in OTHERS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('the package of the user')\n")
    return tmp_path


def test_the_wheel_holds_every_file_of_the_package(source: Path, wheel: Path) -> None:
    rooms = {"xling": "xling", "corpora": "xling/corpora", "eval": "xling/eval", "slurm": "xling/slurm"}
    wanted = {f"xling/{path.relative_to(source)}" for path in (source / "recipes").rglob("*.yaml")}
    for room, place in rooms.items():
        files = (path for path in (source / room).rglob("*") if path.is_file() and not path.is_symlink())
        wanted |= {f"{place}/{path.relative_to(source / room)}" for path in files}
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert found == wanted
    endings = {Path(name).suffix for name in found}
    assert {".py", ".yaml", ".tsv", ".npz"} <= endings


def test_the_wheel_is_the_same_from_a_checkout_and_from_its_sdist(
    source: Path, wheel: Path, tmp_path: Path
) -> None:
    direct = build("build_wheel", source, tmp_path)
    with zipfile.ZipFile(direct) as first, zipfile.ZipFile(wheel) as second:
        contents = [{item.filename: item.CRC for item in a.infolist()} for a in (first, second)]
    assert contents[0].keys() == contents[1].keys()
    differs = {name for name in contents[0] if contents[0][name] != contents[1][name]}
    assert all(".dist-info/" in name for name in differs), differs


def test_an_installed_xling_reads_its_own_files(python: Path, elsewhere: Path) -> None:
    assert run(python, "-m", "xling", "--version", cwd=elsewhere).startswith("xling 0.")
    where = "import xling, xling.corpora, xling.eval, xling.slurm; print(*(m.__file__ for m in "
    places = run(python, "-c", where + "(xling, xling.corpora, xling.eval, xling.slurm)))", cwd=elsewhere)
    assert all(Path(place).is_relative_to(python.parents[1]) for place in places.split()), places
    command = python.parent / "xling"
    assert "quickstart" in run(command, "run", cwd=elsewhere)
    assert "xnli" in run(command, "eval", "list", cwd=elsewhere)
    tables = "from xling.core import languages; from xling.eval.tables.published import read_published; "
    words = "from xling.corpora.toyworld import lexicon; assert read_published(); print(languages.get('swh').code)"
    assert run(python, "-c", tables + words, cwd=elsewhere) == "sw\n"


@pytest.mark.timeout(600)
def test_an_installed_xling_runs_the_quickstart_to_its_table(python: Path, elsewhere: Path) -> None:
    run(python, "-m", "xling", "quickstart", "scale=tiny", "out=runs/q", cwd=elsewhere, timeout_s=580)
    scores = read_scores(elsewhere / "runs" / "q" / "eval" / "tables" / "scores.json")
    assert {s.system for s in scores} == {"pretrained", "random", "majority"}
    assert {s.suite for s in scores} == {"toy_ner", "toy_xnli"}
    assert "zero_shot" in (elsewhere / "runs" / "q" / "report" / "report.md").read_text(encoding="utf-8")
