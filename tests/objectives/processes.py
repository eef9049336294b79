"""Trainings in several processes on this machine, and what came of them."""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch._dynamo
import torch.distributed.checkpoint
import torch.distributed.checkpoint.state_dict
import torch.distributed.fsdp  # these four take seconds, which each fork would take anew

from xling.core import signals
from xling.core.settings import schema
from xling.models.optim.adamw import XlingAdamW
from xling.training import train
from xling.training.update import Updates

WARM_UP = "mmlm+xlco"
"""Objectives of a training whose imports and caches the forks share."""


def in_processes(world: int, work: Callable[[int], None], fail: bool = False) -> None:
    """Call ``work(rank)`` in forks that find each other as processes of torchrun do; all ``fail`` or none."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]

    def begin(rank: int) -> None:
        if world > 1:
            named = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": rank, "MASTER_PORT": port}
            os.environ.update({k: str(v) for k, v in named.items()} | {"MASTER_ADDR": "127.0.0.1"})
        work(rank)

    schema.objectives()  # read once, not by every fork
    forks = multiprocessing.get_context("fork")
    children = [forks.Process(target=begin, args=(rank,)) for rank in range(world)]
    for child in children:
        child.start()
    for child in children:
        child.join(240)
    stuck = [child for child in children if child.is_alive()]
    for child in stuck:  # that wait for each other
        child.kill()
    assert not stuck and [child.exitcode != 0 for child in children] == [fail] * world


def trained(
    cfg: Any, world: int, stop: int = 0, before: Callable[[int], None] | None = None, fail: bool = False
) -> None:
    """Train in so many processes, up to an update or to the end; ``before(rank)`` is called in each."""

    def work(rank: int) -> None:
        if before:
            before(rank)
        make = Updates.make

        def stopping(self: Updates, samples: list[Any]) -> bool:
            if stop and self._trainer.get_num_updates() == stop:
                signals.request_stop("test")
            return make(self, samples)

        clip = XlingAdamW.clip_grad_norm

        def noting(self: XlingAdamW, *given: Any, **named: Any) -> torch.Tensor:
            norm = clip(self, *given, **named)
            with Path(f"{cfg.out}.norms-{rank}").open("a") as norms:
                norms.write(f"{float(norm)}\n")
            return norm

        try:
            with (
                mock.patch.object(Updates, "make", stopping),
                mock.patch.object(XlingAdamW, "clip_grad_norm", noting),
            ):
                train.run(cfg)
        except signals.Stopped:
            assert stop

    in_processes(world, work, fail)


def losses(out: Path) -> list[float]:
    lines = (out / "log.jsonl").read_text().splitlines()
    return [event["loss"] for event in map(json.loads, lines) if event["split"] == "train"]


def published(out: Path) -> dict[str, torch.Tensor]:
    kept: dict[str, torch.Tensor] = torch.load(out / "model.pt", weights_only=True)["weights"]
    return kept
