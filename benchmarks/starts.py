"""Processor seconds of each command until its first line, on toy data that it makes first.

Usage: ``python -m benchmarks.starts FOLDER``. FOLDER is empty or not there. It prints JSON: the command, its seconds
(user and system, its children left out), and whether torch was imported when the first line came. A command without a
line has the seconds of all that it did.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
SHAPE = "model.layers=1 model.dim=16 model.heads=2 model.ffn_dim=16 model.max_positions=64"
TRAIN = "train.updates=2 train.batch_tokens=256 train.valid_every=2 train.warmup=1"
STAGES = (
    "toyworld out=raw num_docs=60 num_pairs=60 num_ner=30 num_nli=30",
    "corpus mono lang=en source=text:raw/mono/en.txt out=en before_dedup=repair dedup=false near_dedup=false "
    "after_dedup=[]",
    "corpus parallel pair=en-sw source=moses:raw/para/en-sw out=en-sw filters=[]",
    "vocab corpora.en=raw/mono/en.txt corpora.sw=raw/mono/sw.txt out=vocab size=150 coverage=1.0",
    "binarize vocab=vocab corpora.en=raw/mono/en.txt corpora.sw=raw/mono/sw.txt "
    "pairs.en-sw=raw/para/en-sw.en,raw/para/en-sw.sw out=shards",
    f"pretrain data=shards out=model objectives.mmlm.tokens_per_sample=32 {SHAPE} {TRAIN}",
    "eval toy_ner data=raw checkpoint=model out=scores fit.epochs=1 fit.max_length=32 seeds=1",
    "finetune toy_ner data=raw checkpoint=model out=ner fit.epochs=1 fit.max_length=32",
    f"finetune mt data=shards out=mt tokens_per_sample=32 {SHAPE} model.decoder_layers=1 {TRAIN}",
    "mine pair=en-sw src=raw/para/en-sw.en tgt=raw/para/en-sw.sw checkpoint=model out=mined",
    "export hf model exported",
    "import hf exported imported",
    "report scores out=report",
)  # fmt: skip


def seconds_of(pid: int) -> float:
    """Return the processor seconds of a running process, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def first_line(words: list[str], folder: Path) -> dict[str, object]:
    """Run a command; return its first line, the seconds until then, and its exit code."""
    environment = os.environ | {
        "PYTHONPATH": str(Path(__file__).resolve().parent.parent),
        "OMP_NUM_THREADS": "1",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "xling", *words],
        cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert process.stdout, "a pipe was asked for"
    line = process.stdout.readline()
    seconds = seconds_of(process.pid) if line else 0.0
    has_torch = "libtorch" in Path(f"/proc/{process.pid}/maps").read_text() if line else None
    last = [line, *process.stdout.read().splitlines()][-1]
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    told: dict[str, object] = {
        "command": " ".join(words[:2]),
        "seconds": round(seconds or usage.ru_utime + usage.ru_stime, 2),
        "torch": has_torch,
        "line": line.decode(errors="replace").strip()[:80],
        "code": process.returncode,
    }
    return told | ({"last": last.decode(errors="replace")[:200]} if process.returncode else {})


def main(folder: str) -> int:
    """Measure all stages, in an order in which each finds what it reads."""
    place = Path(folder).absolute()
    place.mkdir(parents=True, exist_ok=True)
    rows = [first_line(stage.split(), place) for stage in STAGES]
    print(json.dumps(rows, indent=1, ensure_ascii=False))
    return int(any(row["code"] for row in rows))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
