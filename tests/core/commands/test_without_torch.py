"""Corpora are built and inspected where neither torch nor fairseq is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# A module that is None in sys.modules cannot be imported, here or by anything that these commands import.
COMMANDS = """
import shlex, sys
for name in ("torch", "fairseq", "sacrebleu", "transformers", "sklearn", "faiss", "matplotlib", "submitit"):
    sys.modules[name] = None
from xling.cli import main
for command in sys.argv[1:]:
    if main(shlex.split(command)):
        sys.exit("failed: " + command)
"""


@pytest.mark.seconds
def test_corpus_commands_need_neither_torch_nor_fairseq(tmp_path: Path) -> None:
    text = "\n\n".join(
        f"The river number {n} runs down to the sea, and people of the village fish in it every day.\n"
        f"In the year {1900 + n} they built a bridge of stone over the water, and it stands to this day.\n"
        f"Nobody of the town {n * 7} remembers who it was that gave the money for all of this work."
        for n in range(60)
    )
    (tmp_path / "a.txt").write_text(text)
    rows = [f"We saw {n} birds in the morning.\tWir haben am Morgen {n} Vögel gesehen." for n in range(60)]
    (tmp_path / "a.tsv").write_text("\n".join(rows))
    commands = [
        "corpus mono lang=en source=text:a.txt out=mono dedup=false near_dedup=false before_dedup=[]",
        "corpus parallel pair=en-de source=tsv:a.tsv out=pairs audit=false dev_pairs=0 test_pairs=0",
        "corpus why 'river number 3' corpus=mono",
        "corpus lm lang=en text=mono out=lm",
        "vocab corpora.en=mono size=100 out=vocab",
        "doctor",
    ]
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS, *commands],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "mono" / "manifest.json").exists() and (tmp_path / "vocab" / "spm.model").exists()
    assert "pip install 'xling[train]'" in done.stdout
