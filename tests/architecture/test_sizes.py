"""No function and no file grows beyond what can be read at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FUNCTION_LINES, FILE_LINES = 60, 500
FOLDERS = ("xling", "corpora", "eval", "slurm", "benchmarks", "tests", ".ci")


def sources(root: Path = ROOT) -> Iterator[Path]:
    """Every Python file once: the links in xling/ are not followed."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            if folder != "xling" or path.relative_to(root / folder).parts[0] not in FOLDERS:
                yield path


def too_long(path: Path) -> list[str]:
    """The functions of a file that are too long, and the file if it is."""
    text = path.read_text(encoding="utf-8")
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            if lines > FUNCTION_LINES:
                found.append(f"{path}:{node.lineno}: {node.name} has {lines} lines")
    if len(text.splitlines()) > FILE_LINES:
        found.append(f"{path} has {len(text.splitlines())} lines")
    return found


def test_functions_and_files_can_be_read_at_once() -> None:
    files = list(sources())
    assert len(files) > 300
    assert [problem for path in files for problem in too_long(path)] == []


def test_a_page_of_results_can_be_read_at_once() -> None:
    lengths = {
        path.name: len(path.read_text().splitlines()) for path in (ROOT / "docs/results.d").glob("*.md")
    }
    assert lengths and {name: lines for name, lines in lengths.items() if lines > 100} == {}


def test_a_long_function_and_a_long_file_are_found(tmp_path: Path) -> None:
    path = tmp_path / "long.py"
    for lines, problems in ((60, 0), (61, 1)):
        body = "    x = 1\n" * (lines - 1)
        path.write_text(f"class Holder:\n  def fits():\n{body}")
        assert len(too_long(path)) == problems
    path.write_text("x = 1\n" * 501)
    assert too_long(path) == [f"{path} has 501 lines"]
