"""The tool that plants mutants: what it changes, and what it calls found."""

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
             + height)
"""


@pytest.fixture(scope="module")
def mutants() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants", TOOL)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module
    spec.loader.exec_module(module)
    return module


def test_every_expression_of_a_function_is_changed_and_no_line_moves(
    mutants: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / "module.py"
    path.write_text(MODULE)
    made = mutants.chosen([path], 100, 1)
    assert sorted((one.line, one.before) for one in made if one.line == 3) == [
        (3, "2"), (3, "3"), (3, "height != 2"), (3, "width < 3"), (3, "width < 3 and height != 2"),
    ]  # fmt: skip
    assert {(one.before, one.after) for one in made} >= {
        ("width * height", "(width + height)"),
        ("return width * height", "return None"),
        ("width + height", "(width - height )"),
    }
    assert all(
        one.text.count("\n") == MODULE.count("\n") for one in made if not one.before.startswith("return")
    )
    assert not any("width > 0" in one.before for one in made), "assertions stay"
    assert len({one.text for one in made}) == len(made)
    assert mutants.chosen([path], 3, 1) == made[:3]


def test_a_strong_test_finds_what_a_weak_one_does_not(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(MODULE)
    (tmp_path / "test_it.py").write_text(
        "from module import area\n\n\ndef test_strong():\n    assert area(2, 5) == 10\n\n\n"
        "def test_weak():\n    area(2, 5)\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    script = f"""
import runpy
tool = runpy.run_path({str(TOOL)!r})
import pathlib
path = pathlib.Path("module.py").resolve()
one = next(m for m in tool["chosen"]([path], 100, 1) if m.before == "width * height")
tried = [(one, ["test_it.py::test_strong"]), (one, ["test_it.py::test_weak"]), (one, [])]
tool["control"](tried)
print([outcome for _, outcome in tool["outcomes"](tried, 1)])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=200
    )
    assert done.stdout.strip() == "['killed', 'survived', 'not covered']", done.stderr
    (tmp_path / "test_it.py").write_text(
        "def test_strong():\n    assert False\n\n\ntest_weak = test_strong\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=200
    )
    assert (done.returncode, "without any mutant" in done.stderr) == (1, True)
