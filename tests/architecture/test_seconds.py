"""The list of tests that take seconds names tests that are there."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_name_is_a_test() -> None:
    """A test that was renamed would be run by `make test-fast` again and nobody would notice."""
    names = (ROOT / "tests" / "seconds.txt").read_text(encoding="utf-8").splitlines()
    assert names == sorted(set(names))
    functions: dict[str, set[str]] = {}
    for name in names:
        path, *_, function = name.partition("[")[0].split("::")
        if path not in functions:
            tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
            functions[path] = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert function in functions[path], f"{name}: run the whole suite with --note-seconds"
