"""``xling new``: what it writes runs, in a checkout and in another package, and replaces nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests import forked
from xling import cli, new
from xling.core.settings.config import read_yaml
from xling.eval.suites.table import suite_of

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("xling", "corpora", "eval", "slurm", "recipes", "tests", "pyproject.toml")


def run(folder: Path, home: Path, *words: str) -> str:
    """Output of a module of Python that must end well in ``folder``, with the xling in ``home``."""
    done = forked.run("-m", *words, cwd=folder, env={**os.environ, "PYTHONPATH": str(home)})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    copy = tmp_path / "checkout"
    copy.mkdir()
    for part in PARTS:
        if (ROOT / part).is_dir():
            unwanted = shutil.ignore_patterns("__pycache__", "golden")
            shutil.copytree(ROOT / part, copy / part, symlinks=True, ignore=unwanted)
        else:
            shutil.copy(ROOT / part, copy / part)
    return copy


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_kind_runs_and_is_clean_in_a_checkout(checkout: Path) -> None:
    names = [[kind, f"my_{kind.replace('-', '_')}"] for kind in new.KINDS]
    program = f"from xling import cli\nfor words in {names}:\n    assert cli.main(['new', *words]) == 0"
    (checkout / "write.py").write_text(program)
    written = [
        path for path in run(checkout, checkout, "write").splitlines() if Path(checkout, path).is_file()
    ]
    assert len(written) == 2 * len(new.KINDS)
    tests = [path for path in written if Path(path).name.startswith("test_")]
    contract = "tests/corpora/stages/test_streaming.py::test_contract[my_doc_filter]"
    assert "16 passed" in run(checkout, checkout, "pytest", "-q", "-p", "no:cacheprovider", *tests, contract)
    modules = [path for path in written if path.endswith(".py")]
    for words in (("check",), ("format", "--check")):
        run(checkout, checkout, "ruff", *words, "--no-cache", *modules)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_kind_runs_in_another_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "mine"
    for kind, facts in new.KINDS.items():
        name = f"my_{kind.replace('-', '_')}"
        assert cli.main(["new", kind, name, f"out={out}"]) == 0
        assert f'"{facts.plugin}.{name}" = "YOUR_PACKAGE.{name}"' in capsys.readouterr().out
    assert "15 passed" in run(tmp_path, ROOT, "pytest", "-q", "-p", "no:cacheprovider", str(out))


def test_nothing_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["new", "doc-filter", "mine", "out=here"]
    assert cli.main(words) == 0
    before = {path: path.read_text() for path in (tmp_path / "here").iterdir()}
    assert {path.name for path in before} == {"mine.py", "test_mine.py"}
    assert cli.main(words) == 2
    assert "here/mine.py is there already" in capsys.readouterr().err
    (tmp_path / "here" / "mine.py").unlink()
    assert cli.main(words) == 2, "the test is not replaced either"
    assert not (tmp_path / "here" / "mine.py").exists()


def test_a_suite_is_an_entry_below_those_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("xling", "eval/suites"):
        Path(folder).mkdir(parents=True)
        Path(folder, "__init__.py").touch()
    shutil.copy(ROOT / "eval/suites/table.yaml", "eval/suites")
    before = read_yaml(Path("eval/suites/table.yaml"))
    assert cli.main(["new", "suite", "mynews"]) == 0
    after = read_yaml(Path("eval/suites/table.yaml"))
    suite = suite_of("mynews", after.pop("mynews"))
    assert (after, suite.labels, suite.kind) == (before, ("no", "yes"), "classify")
    assert Path("tests/eval/test_mynews.py").is_file()
    assert not Path("eval/suites/mynews.py").exists()
    assert cli.main(["new", "suite", "mynews"]) == 2, "its test is there"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["doc-filter", "Mine", "out=x"], "name='Mine'; valid: lower-case letters"),
        (["doc-filter", "class", "out=x"], "name='class'"),
        (["doc-filter", "repair", "out=x"], "the name of the doc-filter 'repair' is taken"),
        (["pair-filter", "align", "out=x"], "the name of the pair-filter 'align' is taken"),
        (["metric", "bleu", "out=x"], "the name of the metric 'bleu' is taken"),
        (
            ["doc-filter", "mine"],
            "is not a checkout of xling; valid: the folder that holds xling/ and corpora/",
        ),
        (["filter", "mine", "out=x"], "did you mean 'doc-filter' or 'pair-filter'"),
    ],
)
def test_what_cannot_be_written_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["new", *words]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
