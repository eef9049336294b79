"""Stages of the tests' own, imported by the jobs: small, deterministic, and able to fail on purpose."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from xling.core import signals
from xling.core.commands.runner import Phase, Stage
from xling.core.errors import UserError
from xling.core.output.manifest import write_atomic


@dataclass(frozen=True)
class ShardConfig:
    """A corpus in small: ``num_parts`` shards, then a merge whose number of parts follows from their results."""

    out: Path
    num_parts: int = 20
    killed: tuple[int, ...] = ()
    broken: tuple[int, ...] = ()
    seconds: float = 0.0


def shard_phases(cfg: ShardConfig) -> list[Phase]:
    """Two phases; the second has one part per two shards that are there."""
    made = len(list(cfg.out.glob("shard.*")))
    return [Phase("clean", cfg.num_parts), Phase("merge", made // 2)]


def shard_part(cfg: ShardConfig, phase: str, index: int) -> None:
    """Write a shard; parts in ``killed`` end by SIGKILL at the first try, parts in ``broken`` always fail."""
    cfg.out.mkdir(parents=True, exist_ok=True)
    with (cfg.out / f"tries.{phase}.{index}").open("a") as tries:
        tries.write("x")
    time.sleep(cfg.seconds)
    if phase == "clean" and index in cfg.killed and (cfg.out / f"tries.clean.{index}").stat().st_size == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if phase == "clean" and index in cfg.broken:
        raise ValueError(f"shard {index} is broken")
    name = "shard" if phase == "clean" else "merged"
    write_atomic(cfg.out / f"{name}.{index}", f"{phase} {index}\n")


@dataclass(frozen=True)
class CountConfig:
    """A training in small: a chain of hashes, one link an update, saved every ``save_every`` updates.

    An update takes ``seconds`` until it was interrupted once, and no time after that.
    """

    out: Path
    updates: int = 60
    save_every: int = 10
    seconds: float = 0.05
    seed: int = 1
    polite: bool = True


def count(cfg: CountConfig) -> str:
    """Go on from what is saved; the last line of the result depends on every update in its order."""
    cfg.out.mkdir(parents=True, exist_ok=True)
    state = cfg.out / "state"
    done, value = 0, str(cfg.seed)
    if state.exists():
        number, value = state.read_text().split()
        done = int(number)
    with (cfg.out / "starts").open("a") as starts:
        starts.write(f"{done} {time.time()} {os.environ.get('SLURM_JOB_ID', '')}\n")
    if not cfg.polite:
        return _count(cfg, state, done, value)
    with signals.resumable():
        return _count(cfg, state, done, value)


def _count(cfg: CountConfig, state: Path, done: int, value: str) -> str:
    seconds = 0 if done else cfg.seconds
    for update in range(done + 1, cfg.updates + 1):
        value = hashlib.sha256(f"{value} {update}".encode()).hexdigest()
        time.sleep(seconds)
        asked = bool(cfg.polite and signals.stop_requested())
        save = bool(cfg.save_every) and (update % cfg.save_every == 0 or asked)
        if save:
            write_atomic(state, f"{update} {value}")
        signals.beat(update, cfg.updates, "updates", tokens_per_s=512, saved=update if save else None)
        if asked:
            raise signals.Stopped
    write_atomic(cfg.out / "result", value + "\n")
    return value


@dataclass(frozen=True)
class MeanConfig:
    """Data-parallel steps of plain gradient descent on a quadratic, over gloo."""

    out: Path
    steps: int = 5


def mean(cfg: MeanConfig) -> None:
    """Each process takes its share of a fixed global batch; gradients are summed over the processes."""
    import torch
    import torch.distributed as dist

    world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    if world > 1:
        dist.init_process_group("gloo")
    generator = torch.Generator().manual_seed(3)
    batch, target = torch.randn(8, 5, generator=generator), torch.randn(8, generator=generator)
    weight = torch.zeros(5)
    for _ in range(cfg.steps):
        mine = slice(rank, None, world)
        gradient = batch[mine].T @ (batch[mine] @ weight - target[mine])
        if world > 1:
            dist.all_reduce(gradient)
        weight = weight - 0.05 * gradient
    if rank == 0:
        cfg.out.mkdir(parents=True, exist_ok=True)
        hosts = os.environ.get("SLURM_STEP_NODELIST", "")
        write_atomic(cfg.out / "weight", f"{world} {hosts} {' '.join(f'{w:.9e}' for w in weight.tolist())}\n")
    if world > 1:
        dist.destroy_process_group()


@dataclass(frozen=True)
class LockstepConfig:
    """A training in small whose processes wait for each other at every update, over gloo."""

    out: Path
    updates: int = 60
    save_every: int = 10
    seconds: float = 0.1
    stopped_at_start: bool = False


def lockstep(cfg: LockstepConfig) -> None:
    """Add up what all processes hold; go on from what is saved.

    With ``stopped_at_start`` rank 1 is stopped by SIGSTOP when it starts for the first time.
    """
    cfg.out.mkdir(parents=True, exist_ok=True)
    mark = cfg.out / "was_stopped"
    if cfg.stopped_at_start and os.environ["RANK"] == "1" and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGSTOP)
    import torch
    import torch.distributed as dist

    from xling.models.distributed import processes

    state = cfg.out / "state"
    done, value = (int(word) for word in state.read_text().split()) if state.exists() else (0, 0)
    with signals.watched(), processes.process_group():
        for update in range(done + 1, cfg.updates + 1):
            time.sleep(cfg.seconds)
            total = torch.tensor([update + processes.rank()])
            dist.all_reduce(total)
            value += int(total)
            save = update % cfg.save_every == 0 and processes.rank() == 0
            if save:
                write_atomic(state, f"{update} {value}")
            signals.beat(update, cfg.updates, "updates", saved=update if save else None)
        if processes.rank() == 0:
            write_atomic(cfg.out / "result", f"{value}\n")
        processes.wait()


@dataclass(frozen=True)
class AskConfig:
    """A stage that the user has set up wrongly, and that meets a secret."""

    out: Path


def ask(cfg: AskConfig) -> None:
    """Refuse the settings."""
    raise UserError("lang=swx", "sv, sw", "did you mean sw?")


SHARDS = Stage(
    "shards",
    "slurm_stages:ShardConfig",
    phases="slurm_stages:shard_phases",
    run_part="slurm_stages:shard_part",
)
COUNT = Stage("count", "slurm_stages:CountConfig", run="slurm_stages:count")
MEAN = Stage("mean", "slurm_stages:MeanConfig", run="slurm_stages:mean")
LOCKSTEP = Stage("lockstep", "slurm_stages:LockstepConfig", run="slurm_stages:lockstep")
ASK = Stage("ask", "slurm_stages:AskConfig", run="slurm_stages:ask")
