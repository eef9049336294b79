"""Averages of gradients over processes, exchanged while the backward pass goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor

from xling.models.distributed import processes

if TYPE_CHECKING:
    from jaxtyping import Float, Float32, Shaped

BUCKET_BYTES = 64 << 20


class Average:
    """Average of the gradients of all processes, in buckets of neighbouring parameters, the last of them first.

    In the last batch of an update a bucket is summed as soon as the gradients of its parameters are complete and
    the buckets before it are on their way. Sums are float32 regardless of the transport.

    Args:
        parameters: float32, the same in every process, in the same order; those of a sharded model are
            already averaged.

    Attributes:
        last: whether the batch is the last of an update.
    """

    def __init__(self, parameters: Sequence[Float32[Tensor, " ..."]]) -> None:
        several = [p for p in parameters if not processes.is_part(p)] if processes.size() > 1 else []
        self._buckets = list(_buckets(several[::-1]))
        self._place = {id(p): number for number, bucket in enumerate(self._buckets) for p in bucket}
        self.reset()

    def reset(self) -> None:
        """Begin an update."""
        self.last = False
        self._missing = [len(bucket) for bucket in self._buckets]
        self._used: list[bool] = []
        self._anywhere: list[bool] | None = None
        self._sums: list[dist.Work] = []

    def complete(self, parameter: Float[Tensor, " ..."]) -> None:
        """Note that the backward pass of a batch has added to the gradient of a parameter."""
        if self.last and id(parameter) in self._place:
            self._missing[self._place[id(parameter)]] -= 1
            while len(self._sums) < len(self._buckets) and not self._missing[len(self._sums)]:
                self._send()

    @torch.no_grad()
    def _send(self) -> None:
        bucket = self._buckets[len(self._sums)]
        self._used += [parameter.grad is not None for parameter in bucket]
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket]
        flat = torch.cat([grad.reshape(-1) for grad in grads])
        assert flat.dtype == torch.float32, f"gradients of {flat.dtype}"
        flat.div_(processes.size())
        sums = dist.all_reduce(flat, async_op=True)
        assert sums is not None
        self._sums.append(sums)
        for parameter, part in zip(bucket, torch.split(flat, [p.numel() for p in bucket]), strict=True):
            parameter.grad = part.view_as(parameter)

    def send_rest(self) -> None:
        """Send the buckets of which this process has no complete gradients, after the last batch of an update.

        All processes do so before they exchange anything else.
        """
        if not self._buckets or self._anywhere is not None:
            return
        while len(self._sums) < len(self._buckets):
            self._send()
        used = torch.tensor(self._used, dtype=torch.uint8, device=self._buckets[0][0].device)
        self._anywhere = processes.any_has(used).tolist()

    def finish(self) -> None:
        """Wait for the averages.

        A parameter without a gradient in any process keeps none; if only some processes have one, the others
        count as 0. So processes may hold batches of different objectives.
        """
        self.send_rest()
        for sums in self._sums:
            sums.wait()
        ordered = (parameter for bucket in self._buckets for parameter in bucket)
        for parameter, used in zip(ordered, self._anywhere or (), strict=True):
            if not used:
                parameter.grad = None
        self.reset()


def _buckets(tensors: Sequence[Shaped[Tensor, " ..."]]) -> Iterator[list[Tensor]]:
    """Group neighbouring tensors of one type into buckets of about `BUCKET_BYTES`."""
    bucket: list[Tensor] = []
    for tensor in tensors:
        full = sum(t.nbytes for t in bucket) >= BUCKET_BYTES
        if bucket and (full or tensor.dtype != bucket[0].dtype):
            yield bucket
            bucket = []
        bucket.append(tensor)
    if bucket:
        yield bucket
