"""SIGKILL at random moments of every stage that goes on after a kill, until it ends: are the published bytes the same?

Run:  python -m tests.hostile.kills [--kills N] [--seed N] [--stages umt,eval,...] [--dir DIR]

SYNTHETIC text of two languages. Each stage runs twice undisturbed first: what differs between those two is named. Then
it is killed ``--kills`` times, at most `MOST` times before it may end, together with the processes that it
started. Each start is a fork of this process, which has imported torch, fairseq and the stages already, so that a kill
hits the work and not the imports. Left out of the comparison are speeds, times and the training losses of
``log.jsonl``: after a kill its next line is the mean since the checkpoint, not since the line before. Prints a
Markdown table; exit code 1 when a byte differed or a run did not end well.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xling import cli

MOST = 5
TIMEOUT_S = 3600.0  # the machine may be busy with other work
VARYING = {"tokens_per_s", "mfu", "seconds", "time", "created", "duration", "wall_s", "precision"}
IMPORTS = (
    "xling.training.train",
    "xling.transfer.translation.unsupervised",
    "xling.transfer.translation.supervised",
    "xling.eval.run.evaluation",
    "xling.eval.run.finetune",
    "xling.static.train",
)
TINY = (
    "model.layers=2", "model.dim=32", "model.heads=2", "model.ffn_dim=64", "model.max_positions=64",
    "model.precision=fp32", "train.batch_tokens=512", "train.warmup=4", "train.log_every=5", "train.lr=1e-3",
)  # fmt: skip
STEPS = ("train.updates=80", "train.save_every=6", "train.valid_every=40")


def commands(world: Path) -> dict[str, list[str]]:
    """Return the words of each stage, without ``out=``."""
    raw, shards, few = (
        world / "raw",
        f"data={world}/shards",
        ("train.updates=24", "train.save_every=3", "train.valid_every=12"),
    )
    decoder, mono = "model.decoder_layers=2", f"text:{raw}/mono/en.txt"
    contrast = "objectives.xlco.tokens_per_sample=64 objectives.xlco.queue_size=64 objectives.mmlm.tokens_per_sample=64"
    return {
        "pretrain mmlm+xlco": ["pretrain", shards, *TINY, *STEPS, *contrast.split()],
        "pretrain mass": ["pretrain", shards, *TINY, *STEPS, decoder, "objectives.mass.tokens_per_sample=64"],
        "pretrain mbart": ["pretrain", shards, *TINY, *STEPS, decoder, "objectives.mbart.tokens_per_sample=64"],
        "umt": ["umt", shards, *TINY, *few, "pairs=en-sw", "tokens_per_sample=48", "valid_lines=4"],
        "finetune": ["finetune", "toy_ner", f"checkpoint={world}/model", f"data={raw}", "fit.epochs=3"],
        "finetune mt": ["finetune", "mt", shards, *TINY, *STEPS, "directions=en-sw", "tokens_per_sample=64"],
        "vocab": ["vocab", "size=500", *(f"corpora.{lang}={raw}/mono/{lang}.txt" for lang in ("en", "sw"))],
        "binarize": [
            "binarize", f"vocab={world}/vocab", *(f"corpora.{lang}={raw}/mono/{lang}.txt" for lang in ("en", "sw")),
            f"pairs.en-sw={raw}/para/en-sw.en,{raw}/para/en-sw.sw", "valid_docs=20",
        ],
        "corpus mono": ["corpus", "mono", "lang=en", f"source={mono}"],
        "corpus parallel": ["corpus", "parallel", "pair=en-sw", f"source=moses:{raw}/para/en-sw"],
        "eval": [
            "eval", "toy_ner", f"checkpoint={world}/model", f"data={raw}", "seeds=1,2", "fit.epochs=2",
            "systems=pretrained,random",
        ],
    }  # fmt: skip


def prepare(world: Path) -> None:
    """Make text, vocabulary, shards and a model for the stages."""
    raw = world / "raw"
    corpora = [f"corpora.{lang}={raw}/mono/{lang}.txt" for lang in ("en", "sw")]
    pair = f"pairs.en-sw={raw}/para/en-sw.en,{raw}/para/en-sw.sw"
    toy = ["langs=en,sw", "num_docs=400", "num_pairs=1500", "num_ner=150", "num_nli=100"]
    call(["toyworld", *toy, f"out={raw}"])
    call(["vocab", "size=500", *corpora, f"out={world}/vocab"])
    call(["binarize", f"vocab={world}/vocab", *corpora, pair, "valid_docs=20", f"out={world}/shards"])
    start = ["objectives.mmlm.tokens_per_sample=64", "train.updates=40"]
    call(["pretrain", f"data={world}/shards", *TINY, *start, f"out={world}/model"])


def call(words: Sequence[str]) -> None:
    """Run a command in a fork, to its end."""
    assert started(words).end() == 0, words


@dataclass
class Child:
    """A fork that runs one command, in a process group of its own."""

    pid: int

    def wait(self, seconds: float) -> int | None:
        """Return its exit code, negative for a signal; None if it still runs after so long."""
        deadline = time.monotonic() + seconds
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() >= deadline:
                return None
            time.sleep(0.005)

    def end(self) -> int | None:
        """Return its exit code; None if it had to be killed after `TIMEOUT_S`."""
        if (code := self.wait(TIMEOUT_S)) is None:
            self.kill()
        return code

    def kill(self) -> None:
        """Kill it with all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait(TIMEOUT_S)


def started(words: Sequence[str], log: str = os.devnull) -> Child:
    """Start a command in a fork of this process."""
    pid = os.fork()
    if pid:
        with contextlib.suppress(OSError):  # the child does it too: whoever is first
            os.setpgid(pid, pid)
        return Child(pid)
    code = 70
    try:
        os.setpgid(0, 0)
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        code = cli.main(list(words))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def contents(out: Path) -> dict[str, Any]:
    """Return path -> contents of every published file but the manifest, which holds times.

    JSON files come without speeds and times.
    """
    return {
        str(path.relative_to(out)): _stable(path)
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }


def _stable(path: Path) -> Any:
    if path.suffix == ".json":
        return _without_times(json.loads(path.read_bytes()))
    if path.suffix == ".jsonl":
        events = [json.loads(line) for line in path.read_bytes().splitlines()]
        return [
            event["update"] if event.get("split") == "train" else _without_times(event) for event in events
        ]
    return path.read_bytes()


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(each) for key, each in value.items() if key not in VARYING}
    return [_without_times(each) for each in value] if isinstance(value, list) else value


@dataclass
class Count:
    """What happened to one stage."""

    kills: int = 0
    ends: int = 0
    seconds: float = 0.0
    varying: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def torment(words: Sequence[str], folder: Path, kills: int, draw: random.Random) -> Count:
    """Kill a stage at random moments and compare what it publishes with undisturbed runs."""
    count, out, log = Count(), folder / "out", str(folder / "log")
    given, calm = [*words, f"out={out}"], []
    for _ in range(2):  # under the same name: settings are part of what is published
        began = time.monotonic()
        if (code := started(given, log).end()) != 0:
            count.wrong.append(f"undisturbed: exit code {code}: {_last_line(log)}")
            return count
        count.seconds = time.monotonic() - began
        calm.append(contents(out))
        _clear(folder)
    count.varying = [name for name in calm[0] if calm[0][name] != calm[1].get(name)]
    expected = {name: value for name, value in calm[0].items() if name not in count.varying}
    while count.kills < kills and not count.wrong:
        for _ in range(min(MOST, kills - count.kills)):
            child = started(given, log)
            if child.wait(draw.uniform(0, count.seconds)) is not None:
                break
            child.kill()
            count.kills += 1
        code = started(given, log).end()
        seen = contents(out)
        differing = [name for name in expected if seen.get(name) != expected[name]]
        if code != 0 or differing or seen.keys() != calm[0].keys():
            count.wrong.append(
                f"exit code {code}, different: {differing or sorted(seen.keys() ^ calm[0].keys())}: {_last_line(log)}"
            )
        count.ends += 1
        _clear(folder)
    return count


def _clear(folder: Path) -> None:
    """Remove all that a stage wrote, so that the next run starts from nothing."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "log":
            path.unlink()


def _last_line(log: str) -> str:
    lines = Path(log).read_text(encoding="utf-8", errors="replace").splitlines()
    return lines[-1] if lines else ""


@contextlib.contextmanager
def place(given: Path | None) -> Iterator[Path]:
    """Provide a folder for everything."""
    if given:
        given.mkdir(parents=True, exist_ok=True)
        yield given.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        yield Path(folder)


def main() -> int:
    """Run the command line; return 1 when something was wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.hostile.kills", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--kills", type=int, default=5, help="of each stage")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stages", default="", help="some of them, separated by commas")
    parser.add_argument("--dir", type=Path, help="folder that is kept")
    options = parser.parse_args()
    for name in IMPORTS:
        importlib.import_module(name)
    gc.freeze()
    counts: dict[str, Count] = {}
    with place(options.dir) as folder:
        world = folder / "world"
        if not (world / "model").exists():
            prepare(world)
        todo = commands(world)
        for name in options.stages.split(",") if options.stages else todo:
            scratch = folder / name.replace(" ", "-")
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir(parents=True)
            counts[name] = torment(
                todo[name], scratch, options.kills, random.Random(f"{options.seed} {name}")
            )
            print(name, counts[name], file=sys.stderr, flush=True)
    print(
        "| stage | kills | runs that ended | different bytes | undisturbed, s |\n| --- | --- | --- | --- | --- |"
    )
    for name, count in counts.items():
        print(f"| {name} | {count.kills} | {count.ends} | {len(count.wrong)} | {count.seconds:.1f} |")
    print(f"\n{sum(c.kills for c in counts.values())} kills, seed {options.seed}")
    return 1 if any(count.wrong for count in counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
