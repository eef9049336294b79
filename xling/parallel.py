"""The processes of one data-parallel training, started by torchrun, or by Slurm with one task per GPU.

Both name the place to meet in ``MASTER_ADDR``, ``MASTER_PORT``, ``RANK``, ``WORLD_SIZE`` and ``LOCAL_RANK``;
without them a training is one process and everything here is free. N processes with ``accumulate=k`` see the
same batches per update as one process with ``accumulate=N*k``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

BUCKET_BYTES = 64 << 20


@contextmanager
def joined() -> Iterator[None]:
    """Meet the other processes, by NCCL where every process has a GPU, else by gloo."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        yield
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(_local_rank())
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()
        _forget_group()


def size() -> int:
    """Number of processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """Number of this process, from 0; only 0 writes checkpoints and results."""
    return dist.get_rank() if dist.is_initialized() else 0


def agreed(flag: bool) -> bool:
    """Whether ``flag`` is set in any process; all have to ask."""
    if size() == 1:
        return flag
    device = torch.device("cuda", _local_rank()) if dist.get_backend() == "nccl" else torch.device("cpu")
    votes = torch.tensor([int(flag)], device=device)
    dist.all_reduce(votes, dist.ReduceOp.MAX)
    return bool(votes.item())


def wait() -> None:
    """Wait until every process is here."""
    if size() > 1:
        dist.barrier()


@torch.no_grad()
def average(parameters: Sequence[Tensor]) -> None:
    """Average the gradients of all processes, in place.

    A parameter that no process has a gradient of keeps none; where some have one, the others count as 0. Processes
    may therefore hold batches of different objectives. Over gloo the sums are float32, over NCCL in
    the type of the gradients.

    Args:
        parameters: the same in every process, in the same order.
    """
    if size() == 1 or not parameters:
        return
    device = parameters[0].device
    used = torch.tensor([p.grad is not None for p in parameters], dtype=torch.uint8, device=device)
    dist.all_reduce(used, dist.ReduceOp.MAX)
    wanted = [p for p, any_has in zip(parameters, used.tolist(), strict=True) if any_has]
    for parameter in wanted:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    for bucket in _buckets([p.grad for p in wanted if p.grad is not None]):
        flat = torch.cat([grad.reshape(-1) for grad in bucket])
        summed = flat.float() if dist.get_backend() == "gloo" else flat
        summed.div_(size())
        dist.all_reduce(summed)
        for grad, part in zip(bucket, torch.split(summed, [g.numel() for g in bucket]), strict=True):
            grad.copy_(part.view_as(grad))


def _buckets(tensors: list[Tensor]) -> Iterator[list[Tensor]]:
    """Neighbours of one type, of about `BUCKET_BYTES` together."""
    bucket: list[Tensor] = []
    for tensor in tensors:
        full = sum(t.nbytes for t in bucket) >= BUCKET_BYTES
        if bucket and (full or tensor.dtype != bucket[0].dtype):
            yield bucket
            bucket = []
        bucket.append(tensor)
    if bucket:
        yield bucket


def configure(distributed_training: Any) -> None:
    """Tell fairseq's configuration about the processes that `joined` found."""
    distributed_training.distributed_world_size = size()
    if size() > 1:
        distributed_training.distributed_rank = rank()
        distributed_training.device_id = _local_rank()
        distributed_training.distributed_no_spawn = True
        # torch's wrapper averages only what its forward pass has met, and losses use the head and what objectives
        # add outside of it. This one only hands calls through: `average` does the averaging.
        distributed_training.ddp_backend = "legacy_ddp"


def _local_rank() -> int:
    return int(os.environ.get("LOCAL_RANK", "0")) % max(torch.cuda.device_count(), 1)


def _forget_group() -> None:
    """Cause: fairseq keeps the first process group of a process for ever."""
    from fairseq.distributed.utils import get_global_group

    get_global_group.__dict__.pop("_global_group", None)
