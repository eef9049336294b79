"""Measures the longest silence of commands: how long a user sees nothing new on the screen.

Run:  python -m benchmarks.silence FOLDER [NAME ...]

It runs a chain of commands on synthetic text in FOLDER, which may not exist yet: toyworld, corpus, lines, vocab,
binarize, pretrain, eval, report and doctor, or those NAMEs of it. Each runs in a process of its own whose output is
read as it comes. It prints a line a command: seconds to the first output, longest silence, seconds in all, and whether
the last line names the next command. It exits with code 1 if a first line came after 2 s, a silence was longer than
6 s (one look more than 5 s on a busy machine), or a command failed.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

FIRST_S, SILENCE_S = 2.0, 6.0
COMMANDS = {
    "toyworld": "toyworld out=raw num_docs=3000",
    "corpus": "corpus mono lang=sw source=text:raw/mono/sw.txt out=sw",
    "lines": "corpus mono lang=sw source=lines:raw/mono/sw.txt out=lines",
    "vocab": "vocab corpora.sw=raw/mono/sw.txt corpora.en=raw/mono/en.txt size=800 out=vocab",
    "binarize": "binarize vocab=vocab corpora.sw=raw/mono/sw.txt corpora.en=raw/mono/en.txt out=shards",
    "pretrain": "pretrain data=shards objectives.mmlm.alpha=0.3 model.layers=2 model.dim=64 model.heads=2 "
    "train.updates=60 train.valid_every=60 train.log_every=60 out=model",
    "eval": "eval toy_ner checkpoint=model data=raw langs=en,sw seeds=1 systems=pretrained out=eval",
    "report": "report eval out=report",
    "doctor": "doctor",
}


def main() -> int:
    """Run the commands and print what was measured."""
    folder, names = Path(sys.argv[1]), sys.argv[2:] or [*COMMANDS]
    folder.mkdir(parents=True, exist_ok=True)
    is_good = True
    print("command    first  silence     all  next")
    for name in names:
        first, longest, total, last, code = measure(COMMANDS[name].split(), folder)
        fine = first <= min(FIRST_S, total) and longest <= SILENCE_S and code == 0
        is_good &= fine
        following = "yes" if "; next: xling" in last else "no"
        print(
            f"{name:<9} {first:5.1f} s {longest:5.1f} s {total:5.1f} s  {following}{'' if fine else '  TOO LONG'}"
        )
    return 0 if is_good else 1


def measure(words: list[str], folder: Path) -> tuple[float, float, float, str, int]:
    """Run a command; return seconds to its first output, longest silence, total, last line and exit code."""
    environment = {name: value for name, value in os.environ.items() if name != "XLING_QUIET"}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path.cwd()), environment.get("PYTHONPATH", "")])
    start = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "xling", *words],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        times, last = [start], ""
        for line in process.stdout:
            times.append(time.monotonic())
            last = line.strip() or last
    times.append(time.monotonic())
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    return gaps[0], max(gaps), times[-1] - start, last, process.returncode


if __name__ == "__main__":
    sys.exit(main())
