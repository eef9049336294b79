"""A short check of every process of a distributed training before it starts: a product, then a sum over all.

A device that computes wrong numbers, or a network that does not answer, would otherwise show up hours later, or never.
Works on GPUs and CPUs, with NCCL and gloo, in milliseconds.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from xling.array_types import Float
from xling.core import signals

SUM_TIMEOUT_S = 120.0
SIZE = 512
RECORDED_CALLS = 2000


def record_calls() -> None:
    """Let NCCL's flight recorder keep the last collective calls, and write them on a time-out, or when asked.

    The files lie beside the heartbeat of the process, if a launcher gave it one: ``HEARTBEAT.nccl<rank>`` with the
    calls, and a pipe ``HEARTBEAT.ask<rank>.pipe`` that asks for them. Variables that are set already stay.

    Source: torch's ProcessGroupNCCL and FlightRecorder.
    """
    heartbeat = os.environ.get(signals.HEARTBEAT_VARIABLE)
    wanted = {"TORCH_FR_BUFFER_SIZE": str(RECORDED_CALLS), "TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}
    if heartbeat:
        wanted |= {
            "TORCH_FR_DUMP_TEMP_FILE": f"{heartbeat}.nccl",
            "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": str(Path(heartbeat).with_name(Path(heartbeat).name + ".ask")),
        }
    for name, value in wanted.items():
        os.environ.setdefault(name, value)


def check_device(device: torch.device) -> None:
    """Multiply matrices of small whole numbers on ``device``, whose product is known exactly.

    Raises:
        BadNodeError: the product is wrong, or the device does not compute.
    """
    rows = torch.arange(SIZE, dtype=torch.float64)
    left = (rows[:, None] * 7 + rows * 3) % 5 - 2
    right = (rows[:, None] * 3 + rows * 11) % 7 - 3
    exact = left @ right
    try:
        wrong = {
            dtype: int((product(left, right, dtype, device).double() != exact.to(dtype).double()).sum())
            for dtype in (torch.float32, torch.bfloat16)
        }
    except RuntimeError as error:
        raise signals.BadNodeError(f"{device} does not compute: {error}") from error
    for dtype, count in wrong.items():
        if count:
            text = (
                f"{count:,} of {exact.numel():,} numbers of a product in {str(dtype).removeprefix('torch.')}"
            )
            raise signals.BadNodeError(f"{device} computes wrongly: {text} are wrong")


def product(
    left: Float[Tensor, "rows inner"],
    right: Float[Tensor, "inner columns"],
    dtype: torch.dtype,
    device: torch.device,
) -> Float[Tensor, "rows columns"]:
    """Return the product of two float64 matrices as a device computes it, on the CPU."""
    return (left.to(device, dtype) @ right.to(device, dtype)).cpu()


def check_group(device: torch.device, timeout_s: float = SUM_TIMEOUT_S) -> None:
    """Sum over all processes and check the result; every process of the group calls it.

    Raises:
        RuntimeError: a process did not answer within ``timeout_s`` seconds, or the sum is wrong.
    """
    size, rank = dist.get_world_size(), dist.get_rank()
    summed = torch.tensor([1.0, rank], device=device)
    where = f"rank {rank} of {size} on {signals.node_name() or 'this machine'}"
    try:
        dist.all_reduce(summed, async_op=True).wait(timedelta(seconds=timeout_s))
    except RuntimeError as error:
        raise RuntimeError(f"{where}: no sum over all processes within {timeout_s:.0f} s: {error}") from error
    total = summed.tolist()
    if total != [size, size * (size - 1) / 2]:
        raise RuntimeError(f"{where}: the sum over all processes is {total}, which is wrong")
