"""What one of many processes of a training exchanges and keeps, counted without the others.

Run:  python -m benchmarks.ranks [--recipe xlmr_base] [--world 512] [--node 8] [--accumulate 2] [--only MODE,...]

Rank 0 builds the recipe's model with 250,002 pieces and makes one update in a process group whose other members are not
there (torch's ``fake`` backend). No other rank holds more. Every collective is counted with the bytes
that a process sends in a ring. Few tokens are computed, since neither bytes nor calls depend on them. Prints Markdown.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import tempfile
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from benchmarks.pretrain import Shape, write_data
from benchmarks.traffic import Traffic
from xling.core.settings import config
from xling.models.distributed import processes
from xling.models.files.sharded_state import ShardedState
from xling.models.optim.adamw import XlingAdamW
from xling.training.assemble import build_trainer
from xling.training.settings import PretrainConfig

FEW = Shape(12, 768, 12, 250_002, 128, 128, 1, 1, 20_000, 2e-4)
MODES = {
    "none": (),
    "full": ("train.sharding=full",),
    "full, exchange=batch": ("train.sharding=full", "train.exchange=batch"),
    "hybrid": ("train.sharding=hybrid", "train.shard_size={node}"),
    "hybrid, exchange=batch": (
        "train.sharding=hybrid",
        "train.shard_size={node}",
        "train.exchange=batch",
    ),
}
SMALL = 4096  # bytes: what is less are losses, counts and norms
GB = 1e9
READER = 26 << 20  # bytes of host memory of the reader of a billion blocks: docs/results.d/pretrain.md


def held(tensors: Iterable[Any]) -> int:
    """Return the bytes that this process keeps of tensors."""
    return sum(processes.local(tensor).nbytes for tensor in tensors if isinstance(tensor, Tensor))


def count(cfg: PretrainConfig, world: int) -> dict[str, Any]:
    """Make one update as rank 0 of ``world``; return its collectives and the bytes that it keeps.

    Returns:
        ``calls``: number by (processes, whether they are small); ``sent``: bytes by processes; ``weights``, ``state``
        (masters and moments), ``gradients`` (after the exchange) and ``checkpoint``: bytes of this process; ``whole``:
        bytes of the whole checkpoint; ``built``: bytes of the float32 weights that a process makes at the start.
    """
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", rank=0, world_size=world, store=FakeStore())
    trainer, task = build_trainer(cfg, Path())
    task.load_dataset("train")
    dataset = task.dataset("train")
    _, batches = next(dataset.windows(cfg.train.batch_tokens))
    samples = [dataset.collater([dataset[int(i)] for i in batches[0]]) for _ in range(cfg.train.accumulate)]
    gradients = list[int]()
    clip = XlingAdamW.clip_grad_norm

    def zeroed(self: XlingAdamW, *given: Any, **named: Any) -> Any:
        grads = [master.grad for master in self.masters if master.grad is not None]
        gradients.append(held(grads))
        for grad in grads:  # the weights of processes that are not there make no numbers
            processes.local(grad).zero_()
        return clip(self, *given, **named)

    with mock.patch.object(XlingAdamW, "clip_grad_norm", zeroed), Traffic() as traffic:
        trainer.train_step(samples)
    model, optimizer = trainer.get_model(), trainer.optimizer
    moments = [value for state in optimizer._optimizer.state.values() for value in state.values()]
    own = {id(working) for working in optimizer.working}
    trainer.consolidate_optimizer()
    kept = ShardedState.of(trainer.state_dict())
    return {
        "calls": Counter((call.size, call.num_bytes <= SMALL) for call in traffic.calls),
        "sent": sum((Counter({call.size: call.sent}) for call in traffic.calls), Counter()),
        "weights": held([*model.parameters(), *model.buffers()]),
        "state": held([*moments, *(master for master in optimizer.masters if id(master) not in own)]),
        "gradients": gradients[0],
        "checkpoint": held(kept.tensors.values()),
        "whole": kept.num_bytes(),
        "built": sum(4 * weight.numel() for weight in model.parameters()),
    }


def row(mode: str, told: dict[str, Any], node: int) -> str:
    """Return a line of the table."""
    big, sent = Counter[bool](), Counter[bool]()
    for (size, small), number in told["calls"].items():
        big[size <= node] += 0 if small else number
    for size, num_bytes in told["sent"].items():
        sent[size <= node] += num_bytes
    tiny = sum(number for (_, small), number in told["calls"].items() if small)
    gigabytes = (
        sent[True], sent[False], told["weights"], told["state"], told["gradients"], told["checkpoint"], told["whole"],
        told["built"], told["checkpoint"] + READER,
    )  # fmt: skip
    cells = [mode, big[True], big[False], tiny, *(f"{value / GB:.3f}" for value in gigabytes)]
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    """Count every mode in a process of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--recipe", default="xlmr_base")
    parser.add_argument("--world", type=int, default=512)
    parser.add_argument("--node", type=int, default=8)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--only", default=";".join(MODES))
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        data = write_data(Path(folder), FEW) / "pairs"
        print(
            f"{given.recipe}, {given.world} processes, {given.node} a node, {given.accumulate} batches an update\n"
        )
        print("| sharding | calls in a node | beyond | of a few bytes | GB sent in a node | beyond | GB of weights "
              "| masters, moments | gradients | GB of a checkpoint: its part | whole "
              "| GB of host memory: at the start | later |")  # fmt: skip
        print("|---|" + "---:|" * 12)
        for mode in given.only.split(";"):
            words = [word.format(node=given.node) for word in MODES[mode]]
            common = (
                f"data={data}", f"out={folder}/out", "langs=", "train.batch_tokens=512", "model.precision=bf16",
                f"train.accumulate={given.accumulate}",
            )  # fmt: skip
            cfg = config.load(PretrainConfig, f"recipes/{given.recipe}.yaml", [*common, *words])
            with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as process:
                print(row(mode, process.submit(count, cfg, given.world).result(), given.node), flush=True)


if __name__ == "__main__":
    main()
