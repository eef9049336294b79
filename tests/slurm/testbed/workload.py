"""Small stages whose results tell on every disturbance: what the nemesis runs on the test bed."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from xling.core import signals
from xling.core.commands.runner import Phase, Stage
from xling.core.output.manifest import write_atomic

DOUBLED = "doubled"


@dataclass(frozen=True)
class PartsConfig:
    """``num_parts`` files, then one made of all of them."""

    out: Path
    num_parts: int = 3
    seconds: float = 1.0


def parts_phases(cfg: PartsConfig) -> list[Phase]:
    """Return the phases: the files, then the digest of all."""
    return [Phase("make", cfg.num_parts), Phase("merge", 1)]


def parts_run(cfg: PartsConfig, phase: str, index: int) -> None:
    """Write one file, as slowly as the settings say."""
    with alone(cfg.out, f"{phase}.{index}"):
        time.sleep(cfg.seconds)
        if phase == "make":
            write_atomic(cfg.out / f"part.{index}", f"{index}\n" * 100)
        else:
            contents = [(cfg.out / f"part.{i}").read_bytes() for i in range(cfg.num_parts)]
            write_atomic(cfg.out / "result", hashlib.sha256(b"".join(contents)).hexdigest() + "\n")


@dataclass(frozen=True)
class ChainConfig:
    """A training in small: a chain of hashes, saved every ``save_every`` links."""

    out: Path
    updates: int = 40
    save_every: int = 5
    seconds: float = 0.1


def chain(cfg: ChainConfig) -> None:
    """Continue from the saved state; the result depends on every link in order."""
    with alone(cfg.out, "chain"), signals.resumable(), signals.watched():
        state = cfg.out / "state"
        number, value = state.read_text().split() if state.exists() else ("0", "start")
        for update in range(int(number) + 1, cfg.updates + 1):
            value = hashlib.sha256(f"{value} {update}".encode()).hexdigest()
            time.sleep(cfg.seconds)
            stop = signals.stop_requested()
            save = bool(stop) or update % cfg.save_every == 0
            if save:
                write_atomic(state, f"{update} {value}")
            signals.beat(update, cfg.updates, "updates", saved=update if save else None)
            if stop:
                raise signals.Stopped
        write_atomic(cfg.out / "result", value + "\n")


def expected(name: str, num_parts: int = 3, updates: int = 40) -> str:
    """Return the result of an undisturbed run."""
    if name == "parts":
        return hashlib.sha256("".join(f"{i}\n" * 100 for i in range(num_parts)).encode()).hexdigest() + "\n"
    value = "start"
    for update in range(1, updates + 1):
        value = hashlib.sha256(f"{value} {update}".encode()).hexdigest()
    return value + "\n"


@contextmanager
def alone(out: Path, name: str) -> Iterator[None]:
    """Create a marker file if the same work runs twice at the same time on this machine."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / f"{name}.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            (out / DOUBLED).write_text(f"{name} {os.environ.get('SLURM_JOB_ID')}\n")
        yield


HERE = "tests.slurm.testbed.workload"
PARTS = Stage("parts", f"{HERE}:PartsConfig", phases=f"{HERE}:parts_phases", run_part=f"{HERE}:parts_run")
CHAIN = Stage("chain", f"{HERE}:ChainConfig", run=f"{HERE}:chain")
