"""Run the commands of the guides from top to bottom, at a scale at which a training takes seconds.

Every block that is marked ``sh`` or ``python`` in ``docs/guides`` runs, in the order of `ORDER` and in one folder: each
guide goes on with what the one before made. Other blocks are not run, so ``text`` marks a command that needs a network
or a cluster. A comment ``<!-- tiny STAGE: key=value ... -->`` replaces settings of the commands ``xling STAGE`` in its
guide.

Run ``python .ci/guides.py``, or with the names of some guides, which then have to be able to start.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

GUIDES = Path(__file__).resolve().parents[1] / "docs" / "guides"
ORDER = (
    "corpus", "train", "own_files", "serve_a_language", "evaluate", "own_test_set", "translate", "adapt", "slurm",
    "extend",
)  # fmt: skip
OTHERS = ("eval list", "eval rescore", "finetune mt")
"""Commands that do not take the settings of the stage that their first word names."""
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TINY = re.compile(r"<!-- tiny ([\w -]+): (.*?) -->")


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield language and code of the blocks to run, with the settings of the guide's comments."""
    tiny = {stage: words.split() for stage, words in TINY.findall(text)}
    for kind, code in BLOCK.findall(text):
        yield kind, code if kind == "python" else "\n".join(smaller(line, tiny) for line in code.splitlines())


def smaller(line: str, tiny: dict[str, list[str]]) -> str:
    """Replace and add settings in a line that calls one of the stages; other lines stay."""
    named = match[1] if (match := re.match(r"xling\s+((?:[a-z-]+ )*[a-z-]+)", line)) else ""
    stages = [stage for stage in tiny if f"{named} ".startswith(f"{stage} ")]
    command = " ".join(named.split()[:2])
    if not stages or (command in OTHERS and command not in tiny):
        return line
    words = tiny[max(stages, key=len)]
    keys = {word.partition("=")[0] for word in words}
    kept = [word for word in shlex.split(line, comments=True) if word.partition("=")[0] not in keys]
    return shlex.join([*kept, *words])


def run(guide: str, folder: Path) -> None:
    """Run a guide in a folder.

    Raises:
        SystemExit: a block failed.
    """
    for number, (kind, code) in enumerate(blocks((GUIDES / f"{guide}.md").read_text(encoding="utf-8")), 1):
        command = ["bash", "-euo", "pipefail", "-c", code] if kind == "sh" else [sys.executable, "-c", code]
        answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if answer.returncode:
            said = f"{code}\n{answer.stdout}{answer.stderr}"
            raise SystemExit(f"docs/guides/{guide}.md, block {number}:\n{said}")


def main() -> None:
    """Run the guides that are named, or all."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        for guide in sys.argv[1:] or ORDER:
            started = time.monotonic()
            run(guide, Path(folder))
            print(f"docs/guides/{guide}.md: {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
