"""The wheel as a user installs it: away from the checkout, beside packages of the same names as our folders."""

from __future__ import annotations

import itertools
import re
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
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8", "XLING_QUIET": "true"}
LANGS = {"en", "de", "fr", "es", "sw", "tr", "ru"}
# All that the quickstart may write to standard error: its steps, what a corpus is made of, and progress.
TOLD = (
    r"\[\d+/13\] \w+: xling [a-z ]+( ended after [\d.]+ (s|min) \([\d.]+ (s|min) of processor time\))?",
    r"[a-z]{2}: 1 part into \S+",
    r"  text:\S+: 1 shard, .*B, licence: as the files' own",
    r"(binarize|pretrain) \S+: [\d,]+ of [\d,]+ (docs|pairs|updates), .*",
    r"toy_\w+, \w+, seed \d+: [\d,]+ of [\d,]+ updates, .*",
    r"report: (read|compare): \d+ of \d+ (runs|systems), .*",
)


pytestmark = pytest.mark.slow


def told(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """What a program says that knows nothing of the checkout: it must end well."""
    command = [str(word) for word in words]
    env = ENVIRONMENT | {"HOME": str(cwd)}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=580)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done


def run(*words: str | Path, cwd: Path) -> str:
    """Its standard output."""
    return told(*words, cwd=cwd).stdout


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
def test_an_installed_quickstart_ends_with_a_table_and_a_rerun_does_nothing(
    python: Path, elsewhere: Path
) -> None:
    out, words = elsewhere / "runs" / "q", ("-m", "xling", "quickstart", "scale=tiny", "out=runs/q")
    lines = told(python, *words, cwd=elsewhere).stderr.replace("\r", "\n").splitlines()
    assert not [line for line in lines if line and not any(re.fullmatch(each, line) for each in TOLD)]
    scores = read_scores(out / "eval" / "tables" / "scores.json")
    assert {s.system for s in scores} == {"pretrained", "random", "majority"}
    assert {s.suite for s in scores} == {"toy_ner", "toy_xnli"}
    for system, suite in itertools.product(("pretrained", "random", "majority"), ("toy_ner", "toy_xnli")):
        assert {s.lang for s in scores if (s.system, s.suite) == (system, suite)} == LANGS
    assert all(score.synthetic and score.signature for score in scores)
    page, text = ((out / "report" / f"report.{kind}").read_text(encoding="utf-8") for kind in ("html", "md"))
    for shown in (page, text):
        assert "synthetic" in shown.lower() and "random" in shown
    assert "zero_shot" in text and "http://" not in page.replace("http://www.w3.org", "")
    before = {p: p.stat().st_mtime_ns for p in out.rglob("manifest.json")}
    assert len(before) >= 12
    run(python, *words, cwd=elsewhere)
    assert {p: p.stat().st_mtime_ns for p in out.rglob("manifest.json")} == before
