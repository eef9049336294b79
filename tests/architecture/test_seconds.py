"""The list of tests that take seconds, and the documents, name tests that are there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def functions(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_name_is_a_test() -> None:
    """A test that was renamed would be run by `make test-fast` again and nobody would notice."""
    names = (ROOT / "tests" / "seconds.txt").read_text(encoding="utf-8").splitlines()
    assert names == sorted(set(names))
    for name in names:
        path, *_, function = name.partition("[")[0].split("::")
        assert function in functions(path), f"{name}: run the whole suite with --note-seconds"


def test_every_test_that_a_document_names_is_there() -> None:
    """Names behind one file are separated by commas: `tests/a.py::test_one, test_two`."""
    named = 0
    for page in (ROOT / "docs").rglob("*.md"):
        for path, tests in re.findall(r"`(tests/[\w/]+\.py)::([^`]+)`", page.read_text(encoding="utf-8")):
            missing = set(re.split(r",\s*", tests)) - functions(path)
            assert not missing, f"{page.name}: {path} has no {missing}"
            named += 1
    assert named
