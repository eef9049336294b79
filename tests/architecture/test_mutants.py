"""The tool that plants mutants: what it changes, what it leaves alone, and what it calls found."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import ROOT

TOOL = ROOT / ".ci" / "mutants.py"
MODULE = """def area(width: int, height: int) -> int:
    assert width > 0
    if width < 3 and height != 2:
        return width * height
    return -(width
             + height), 7
"""
LEFT_ALONE = """def messages(a: int, rows: list[int]) -> str:
    if a:
        print(a + 1)
        raise ValueError(a + 2)
    first: Literal[3] = zip(rows, rows, strict=True)
    time.sleep(a + 4)
    match a:
        case 5:
            run(timeout=a + 6)
    return f"{a + 7}"
"""
# Each test file is one program; the second test of the first runs the module in a program of its own.
TESTS = """import subprocess, sys
from module import area

def test_weak():
    area(2, 5)

def test_of_another_program():
    code = "import module; assert module.area(2, 5) == 10"
    subprocess.run([sys.executable, "-c", code], check=True)
"""


@pytest.fixture(scope="module")
def mutants() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants", TOOL)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module
    spec.loader.exec_module(module)
    return module


def test_every_expression_of_a_function_is_changed(mutants: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(MODULE)
    every = mutants.chosen([path], 100, 1)
    assert {(one.line, one.before, one.after) for one in every} == {
        (3, "2", "3"), (3, "3", "4"), (3, "height != 2", "height == 2"), (3, "width < 3", "width <= 3"),
        (3, "width < 3 and height != 2", "width < 3 or height != 2"),
        (4, "width * height", "width + height"), (4, "width * height", "None"),
        (5, "-(width + height)", "width + height"), (5, "width + height", "width - height"),
        (5, "-(width + height), 7", "None"), (6, "7", "8"),
    }  # fmt: skip
    assert len(every) == 11
    assert mutants.chosen([path], 3, 1) == every[:3]
    assert mutants.chosen([path], 11, 2) != every


def test_what_cannot_be_observed_stays(mutants: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(LEFT_ALONE)
    assert [(one.line, one.after) for one in mutants.chosen([path], 100, 1)] == [(10, "None")]


def test_every_mutant_is_what_its_switch_turns_on(mutants: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(MODULE)
    every = mutants.chosen([path], 100, 1)
    text = mutants.with_switches(MODULE.encode(), list(enumerate(every))).decode()
    assert text.count("\n") == MODULE.count("\n")

    def answers(number: int) -> list[object]:
        scope: dict[str, object] = {}
        exec(text.replace("__import__('mutant_changes').on", f"({number}).__eq__"), scope)
        return [scope["area"](*given) for given in ((2, 5), (3, 5), (2, 2), (3, 2), (9, 9))]  # type: ignore[operator]

    right = [10, (-8, 7), (-4, 7), (-5, 7), (-18, 7)]
    assert answers(-1) == right
    assert [one.after for n, one in enumerate(every) if answers(n) == right] == []


SCRIPT = """
import runpy, sys
from pathlib import Path
tool = runpy.run_path({tool!r}, run_name="mutants")
tool["main"].__globals__.update(ROOT=Path.cwd(), WARM=())
sys.argv = ["mutants", "module.py", "--count", "100", "--tests", *{tests!r}]
tool["main"]()
"""


def run(folder: Path, *tests: str) -> str:
    """What the tool prints about ``module.py`` of a folder."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(tool=str(TOOL), tests=tests)],
        cwd=folder, capture_output=True, text=True, timeout=250,
    )  # fmt: skip
    return done.stdout + done.stderr


def test_a_strong_test_finds_what_a_weak_one_does_not(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(MODULE)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    (tmp_path / "test_it.py").write_text(TESTS)
    printed = run(tmp_path, "test_it.py")
    assert "module.py:3: survived: 3 -> 4" in printed, printed
    assert "module.py:5: not reached: width + height -> width - height" in printed
    assert "width * height -> " not in printed, "a program that a test starts has the mutant"
    assert "3 of 11 found" in printed
    # A test that fails anyway finds nothing.
    (tmp_path / "test_it.py").write_text(
        "from module import area\n\n\ndef test_strong():\n    assert area(3, 5) == (-8, 7)\n\n\n"
        "def test_that_fails():\n    assert area(3, 5) == 0\n"
    )
    again = run(tmp_path, "test_it.py")
    assert "# fails alone: test_it.py::test_that_fails" in again, again
    assert "module.py:3: not reached: 2 -> 3" in again and "7 of 11 found" in again


def test_what_a_fixture_reaches_is_reached_by_all_its_tests(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(MODULE)
    (tmp_path / "test_it.py").write_text(
        "import pytest\nfrom module import area\n\n\n@pytest.fixture(scope='module')\ndef made():\n"
        "    return area(3, 5)\n\n\ndef test_weak(made):\n    pass\n\n\n"
        "def test_strong(made):\n    assert made == (-8, 7)\n"
    )
    printed = run(tmp_path, "test_it.py")
    assert "7 of 11 found" in printed, printed


def test_a_plan_without_tests_is_refused(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(MODULE)
    (tmp_path / "test_it.py").write_text("import nothing_of_this_name\n")
    assert "No module named 'nothing_of_this_name'" in run(tmp_path, "test_it.py")
