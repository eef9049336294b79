"""Tables of Markdown and elements of pages are written by the room `pages` alone."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import ROOT

# The rule below the head of a Markdown table, and elements of HTML and SVG that the kit has.
OWN = re.compile(r"\|\s*:?-{3,}|<(table|svg|html)\b")


def written_elsewhere(path: Path) -> list[str]:
    """The lines of a file that write a table or a page themselves."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [f"{path}:{number}" for number, line in enumerate(lines, 1) if OWN.search(line)]


def test_tables_and_pages_come_from_one_kit(tmp_path: Path) -> None:
    rooms = ("xling", "corpora", "eval", "slurm")
    files = [path for room in rooms for path in (ROOT / room).rglob("*.py") if path.parent.name != "pages"]
    assert len(files) > 300
    assert not [path.name for path in files if written_elsewhere(path)]
    (tmp_path / "planted.py").write_text('head = "| a | b |\\n| --- | ---: |"\nrow = "| 1 | 2 |"\n')
    assert written_elsewhere(tmp_path / "planted.py") == [f"{tmp_path}/planted.py:1"]
