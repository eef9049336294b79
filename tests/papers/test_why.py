"""The cells of the recipe `why` on real text: each has as many pieces as its text can fill."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from xling.core.commands import pipeline
from xling.core.commands.runner import run_local

pytestmark = pytest.mark.data
WHY = pipeline.recipes()["why"]
CELLS = pipeline.read_sweep(WHY)["scale"]


@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_has_its_pieces(cell: str, tmp_path: Path) -> None:
    words = [f"data={os.environ['XLING_DATA']}", f"out={tmp_path}", f"scale={cell}"]
    steps = pipeline.read(WHY, words)
    for name in ("text", "vocab"):
        run_local(steps.steps[name].stage, steps.settings(name), 1)
    lines = (tmp_path / "vocab" / cell / "dict.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) == steps.settings("vocab").size - 3  # SentencePiece's specials
