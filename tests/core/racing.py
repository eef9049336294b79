"""Rounds of processes that want one output at the same time, some of which are killed; for `test_races`.

A process of a round is a fork of this one. It runs a stage whose output is the word that its settings give, and
each start of real work adds a line to a file, so that work done twice is seen.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xling.core.commands.runner import STAGES, Stage, run_local
from xling.core.errors import UserError
from xling.core.output import manifest, source_version
from xling.core.output.lease import HeldError

DONE, HELD, OTHER_SETTINGS, KILLED = 0, 3, 4, -9
STEPS = (
    (Path, "rename"),
    (Path, "replace"),
    (Path, "mkdir"),
    (Path, "unlink"),
    (shutil, "rmtree"),
    (os, "link"),
)


@dataclass(frozen=True)
class Settings:
    data: Path
    out: Path
    log: Path
    word: str = "first"


def train(cfg: Settings) -> manifest.Manifest:
    key = {"word": cfg.word}
    if done := manifest.up_to_date(cfg.out, "race", key, [cfg.data]):
        return done
    with cfg.log.open("a") as log:
        log.write(f"{cfg.word}\n")
    with manifest.publish(cfg.out, "race", key, [cfg.data]) as publication:
        (publication.path / "model.pt").write_text(cfg.word)
        time.sleep(0.003)
    return manifest.read(cfg.out)


def killed_at(step: int) -> None:
    """Let this process be killed before its ``step``-th change of the file system."""
    calls = [0]

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            calls[0] += 1
            if calls[0] == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **named)

        return call

    for owner, name in STEPS:
        setattr(owner, name, counted(getattr(owner, name)))


def started(cfg: Settings, overwrite: bool, step: int, release: str) -> int:
    """Fork a process that runs the stage; return its id."""
    if pid := os.fork():
        return pid
    answer = 99
    try:
        source_version.full_version = lambda: release
        os.environ.pop(manifest.OVERWRITE_VARIABLE, None)
        if overwrite:
            os.environ[manifest.OVERWRITE_VARIABLE] = "true"
        killed_at(step)
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123 - until the process ends
        run_local("race", cfg)
        answer = DONE
    except HeldError:
        answer = HELD
    except UserError as error:
        answer = OTHER_SETTINGS if "overwrite=true" in str(error) else 98
    except BaseException as error:
        sys.__stderr__.write(f"{type(error).__name__}: {error}\n")
    finally:
        os._exit(answer)


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class World:
    """A folder with data, an output, and a symbolic link to it and to the folder."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.draw = root, random.Random(seed)
        self.log = root / "log"
        self.log.touch()
        (root / "data.txt").write_text("data")
        (root / "runs").mkdir()
        (root / "by-link").symlink_to(root / "runs")
        self.name = "model"
        self.link = root / "link"
        self.link.symlink_to(self.out)

    @property
    def out(self) -> Path:
        return self.root / "runs" / self.name

    def spelled(self) -> Path:
        relative = Path(os.path.relpath(self.out))
        return self.draw.choice([self.out, relative, self.root / "by-link" / self.name, self.link])

    def settings(self, word: str) -> Settings:
        return Settings(self.root / "data.txt", self.spelled(), self.log, word)

    def num_trained(self, word: str) -> int:
        return self.log.read_text().split().count(word)

    def complete(self) -> set[str]:
        """The words of all complete outputs, whatever their folders are called."""
        folders = [p for p in (self.root / "runs").iterdir() if (p / manifest.FILE_NAME).is_file()]
        return {(p / "model.pt").read_text() for p in folders}

    def move(self) -> None:
        name = f"model{self.draw.randrange(10**9)}"
        self.out.rename(self.out.with_name(name))
        self.name = name
        self.link.unlink()
        self.link.symlink_to(self.out)

    def round(self, number: int) -> str:
        """Let two or three processes run at once, then one alone; return the action, or raise AssertionError."""
        had = (self.out / "model.pt").read_text() if self.out.exists() else ""
        if had and self.draw.random() < 0.2:
            self.move()
        action = self.draw.choice(["same", "same", "other", "overwrite", "overwrite"]) if had else "same"
        word = had if had and action == "same" else f"word{number}"
        before = self.num_trained(word)
        runs, deaths = [], 0
        for _ in range(self.draw.choice([2, 3])):
            step = self.draw.choice([0, self.draw.randrange(1, 16)])
            release = f"{self.draw.randrange(9)}.0"
            runs.append(started(self.settings(word), action == "overwrite", step, release))
        codes = [ended(pid) for pid in runs]
        deaths = codes.count(KILLED)
        allowed = {DONE, HELD, KILLED} if action != "other" else {OTHER_SETTINGS, HELD, KILLED}
        told = f"round {number}, {action}, codes {codes}, complete {self.complete()}"
        assert set(codes) <= allowed, told
        if had:
            assert self.complete() & {had, word}, f"{told}: no weights are left"
        if had and action != "overwrite":
            assert had in self.complete(), f"{told}: {had} was lost"
        last = had if action == "other" else word
        assert ended(started(self.settings(last), action == "overwrite", 0, "9.9")) == DONE, told
        assert (self.out / "model.pt").read_text() == last, told
        assert [p.name for p in (self.root / "runs").iterdir()] == [self.name], told
        trained = self.num_trained(word) - before
        needed = 0 if action == "other" or (had and action == "same") else 1
        assert needed <= trained <= needed * (1 + deaths), f"{told}: {trained} trainings of {word}"
        return action


def main(root: str, seed: int, rounds: int) -> None:
    STAGES.add("race", Stage("race", "tests.core.racing:Settings", run="tests.core.racing:train"))
    os.chdir(root)
    world = World(Path(root), seed)
    actions = [world.round(number) for number in range(rounds)]
    print({name: actions.count(name) for name in sorted(set(actions))})
