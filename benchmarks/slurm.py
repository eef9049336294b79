"""Figures of the Slurm launcher: overhead per element, two nodes against one, restart of a training.

Run on the test bed, with SYNTHETIC data::

    eval "$(python -m tests.slurm.testbed up --nodes 2 --cpus 8)"
    python -m benchmarks.slurm                       all of these
    python -m benchmarks.slurm overhead [elements]
    python -m benchmarks.slurm scaling
    python -m benchmarks.slurm restart

(As a script it would shadow the package of the same name.)
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xling.core.commands.runner import Phase, Stage
from xling.core.settings import config
from xling.slurm import launch, reconcile, submission_decisions
from xling.slurm.record import Run, open_run

HERE = "benchmarks.slurm"
TINY = ["model.layers=2", "model.dim=64", "model.heads=2", "model.ffn_dim=256", "model.precision=fp32"]


@dataclass(frozen=True)
class NothingConfig:
    """Parts that do nothing."""

    num_parts: int


def phases(cfg: NothingConfig) -> list[Phase]:
    """Return one phase."""
    return [Phase("nothing", cfg.num_parts)]


def nothing(cfg: NothingConfig, phase: str, index: int) -> None:
    """Do nothing, as every array element."""


def wait(ready: Callable[[], object]) -> float:
    """Wait for something; returns when it was seen."""
    while not ready():
        time.sleep(0.02)
    return time.time()


def overhead(folder: Path, num_elements: int) -> None:
    """Time to submit and to collect per element of an array, and from submission to the released barrier."""
    stage = Stage("nothing", f"{HERE}:NothingConfig", phases=f"{HERE}:phases", run_part=f"{HERE}:nothing")
    settings = {"run": "overhead", "profile": site(folder)}
    start = time.time()
    launch.submit_stage(stage, [NothingConfig(num_elements)], "slurm", settings)
    submitted = time.time()
    step = open_run(folder / "jobs" / "overhead").steps["nothing"]
    wait(step.outcome)
    events = [step.part("nothing", i).events() for i in range(num_elements)]
    began, ended = min(e[0]["time"] for e in events), max(e[-1]["time"] for e in events)
    began_collecting = time.time()
    submission_decisions.parts_to_submit(step)
    report("submit", 1000 * (submitted - start) / num_elements, "ms/element")
    report("collect", 1000 * (time.time() - began_collecting) / num_elements, "ms/element")
    report("run (16 slots)", (ended - began) / num_elements, "s/element")
    report("last element to released barrier", step.outcome()["time"] - ended, "s")


def scaling(folder: Path, shards: Path, rounds: int = 3) -> None:
    """Tokens per second of two processes, on one node and on two, one after the other in turn.

    Not side by side: a kernel that schedules by session gives two slurmd twice the share of one.
    """
    layouts = {"one": {"nodes": "1", "tasks_per_node": "2"}, "two": {"nodes": "2", "tasks_per_node": "1"}}
    words = ["train.updates=80", "train.log_every=20", *DEEPER]
    speeds: dict[str, list[float]] = {name: [] for name in layouts}
    for number in range(rounds):
        for name, layout in layouts.items():
            run = train(folder, shards, f"{name}{number}", words, cpus_per_task="1", **layout)
            wait(run.steps["pretrain"].outcome)
            text = (folder / f"{name}{number}" / "log.jsonl").read_text()
            lines = [line for line in map(json.loads, text.splitlines()) if line["split"] == "train"]
            # The first stretch holds the start.
            speeds[name].append(float(np.mean([2 * line["tokens_per_s"] for line in lines[1:]])))
    for name, rates in speeds.items():
        report(f"{name} node(s), 2 processes", float(np.mean(rates)), f"tokens/s; by round {rates}")
    ratios = [two / one for one, two in zip(speeds["one"], speeds["two"], strict=True)]
    report("two nodes against one", float(np.mean(ratios)), f"; by round {[round(r, 2) for r in ratios]}")


DEEPER = ["model.layers=4", "model.dim=128", "model.ffn_dim=512", "train.batch_tokens=2048"]


def restart(folder: Path, shards: Path) -> None:
    """From the kill of a training to its first new update."""
    for way in (["scontrol", "requeue"], ["scancel", "--signal=KILL"]):
        name = way[0]
        run = train(
            folder, shards, name, ["train.updates=100000", "train.log_every=1", "train.save_every=50"]
        )
        partial = folder / f"{name}.partial"
        log, step = partial / "log.jsonl", run.steps["pretrain"]
        wait(lambda p=partial: list(p.glob("update-*.sha256")))
        killed = time.time()
        subprocess.run([*way, step.arrays()[-1]["jobs"][0]], check=True)
        part, file = step.part("run", 0), log.stat().st_ino
        wait(lambda p=part: sum(e["event"] == "start" for e in p.events()) == 2)
        begun = next(e for e in reversed(part.events()) if e["event"] == "start")
        # The log is replaced by its part up to the checkpoint, and grows with the first new update.
        wait(lambda path=log, old=file: path.stat().st_ino != old)
        wait(lambda path=log, saved=begun["saved"]: last_update(path) > saved)
        report(f"{' '.join(way)}: kill to first new update", time.time() - killed, "s")
        report("  of which until the part starts again", begun["time"] - killed, "s")
        reconcile.cancel_run(run)


def last_update(log: Path) -> int:
    """Return number of the newest update in a training's log."""
    lines = log.read_text().splitlines()
    return int(json.loads(lines[-1])["update"]) if lines else 0


def train(folder: Path, shards: Path, name: str, words: list[str], **layout: str) -> Run:
    """Submit a tiny pre-training."""
    from xling.training.settings import PretrainConfig

    cfg = config.load(PretrainConfig, overrides=[*TINY, *words, f"data={shards}", f"out={folder / name}"])
    launch.submit("pretrain", cfg, "slurm", {"run": name, "profile": site(folder), "mem_gb": "2", **layout})
    return open_run(folder / "jobs" / name)


def make_shards(folder: Path) -> Path:
    """Return synthetic text of two languages, binarised."""
    from xling.corpora.binarize import BinarizeConfig
    from xling.corpora.binarize import run as binarize
    from xling.corpora.toyworld import ToyworldConfig
    from xling.corpora.toyworld import run as toyworld
    from xling.text.vocab import VocabConfig
    from xling.text.vocab import run as vocab

    toyworld(ToyworldConfig(out=str(folder / "raw"), langs=("en", "sw"), num_docs=800))
    texts = {lang: (str(folder / "raw" / "mono" / f"{lang}.txt"),) for lang in ("en", "sw")}
    vocab(VocabConfig(corpora=texts, out=str(folder / "vocab"), size=600))
    binarize(BinarizeConfig(vocab=str(folder / "vocab"), out=str(folder / "shards"), corpora=texts))
    return folder / "shards"


def site(folder: Path) -> str:
    """Return a profile whose records go to the benchmark's own folder."""
    path = folder / "site.yaml"
    path.write_text(
        f'folder: "{folder}/jobs"\ndefault: {{mem_gb: 0.5, timeout_min: 20, array_parallelism: 16}}\n'
    )
    return str(path)


def report(what: str, value: float, unit: str) -> None:
    """Print one line of the result."""
    print(f"{what}: {value:.3g} {unit}", flush=True)


def main() -> None:
    """Run what the first word says, or everything, in a folder of its own."""
    words = sys.argv[1:2] or ["overhead", "scaling", "restart"]
    if not (shutil.which("sinfo") and os.environ.get("SLURM_CONF")):
        raise SystemExit(f"NOT RUN: {', '.join(words)}: no Slurm.\n\n{__doc__}")
    for word in words:
        with tempfile.TemporaryDirectory(prefix="xling-bench-", ignore_cleanup_errors=True) as temporary:
            folder = Path(temporary)
            if word == "overhead":
                overhead(folder, int(sys.argv[2]) if len(sys.argv) > 2 else 100)
            else:
                {"scaling": scaling, "restart": restart}[word](folder, make_shards(folder))


if __name__ == "__main__":
    main()
