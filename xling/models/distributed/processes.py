"""Processes of one data-parallel training, started by torchrun, or by Slurm with one task per GPU.

Both set ``MASTER_ADDR``, ``MASTER_PORT``, ``RANK``, ``WORLD_SIZE`` and ``LOCAL_RANK``. Without them a
training is one process and the functions here cost nothing. Gradients are averaged over processes while the backward
pass goes on. N processes with ``accumulate=k`` see the same
batches per update as one process with ``accumulate=N*k``.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
import torch.distributed as dist
from torch import Tensor, nn

from xling.array_types import Float, Float32, Shaped
from xling.core import machine, signals
from xling.core.errors import UserError
from xling.core.output.command_result import tell
from xling.models.distributed import health_check

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

FORWARD = ("project",)
"""Methods of layers, beside ``forward``, for which a sharded layer gathers its weights."""
PATIENCE_S, POLL_S = 10.0, 0.2
"""Seconds after which a process says that it waits for the others, and between looks at a request to stop."""
BUCKET_BYTES = 64 << 20
"""Gradients that are averaged at once."""
_waited_s = 0.0
_cpu_groups: dict[str, dist.ProcessGroup] = {}


def is_part(tensor: Any) -> TypeGuard[DTensor]:
    """Return whether a tensor is a shard of a sharded tensor.

    No such tensor exists before the module of its class is loaded. Only `shard` loads it, since that takes a
    second.
    """
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


@contextmanager
def process_group() -> Iterator[None]:
    """Join the process group, with NCCL if every process has a GPU, else with gloo.

    Raises:
        BadNodeError: the device of this process computes wrongly.
        RuntimeError: a process is missing or does not answer.
        UserError: the variables of the environment do not fit together.
    """
    if machine.place()[1] < 2:
        yield
        return
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", _local_rank())
        torch.cuda.set_device(device)
        health_check.record_calls()
    health_check.check_device(device)
    _join("nccl" if torch.cuda.is_available() else "gloo")
    try:
        health_check.check_group(device)
        yield
    finally:
        dist.destroy_process_group()
        _forget_group()


def _join(backend: str) -> None:
    """Meet the other processes; say so where that takes long, and let signals end the wait.

    Torch waits outside of Python, where no handler of a signal runs. So it waits in another thread.
    """
    failed: list[BaseException] = []

    def meet() -> None:
        try:
            dist.init_process_group(backend)
        except BaseException as error:  # raised again by the thread that waits
            failed.append(error)

    rank, num = machine.place()
    machine.await_address(tell, _check_stop)
    thread = threading.Thread(target=meet, name="rendezvous", daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    if thread.is_alive():
        tell(
            f"xling: process {rank} is waiting for {num - 1} of {num} processes at {_meeting_place()}, as RANK, "
            "WORLD_SIZE and MASTER_ADDR of the environment say; unset them to train in one process"
        )
    while thread.is_alive():
        thread.join(POLL_S)
        _check_stop()
    if failed and isinstance(failed[0], (dist.DistNetworkError, dist.DistStoreError)):
        raise UserError(  # its text goes on with frames of C++
            f"process {rank} of {num} did not meet the others at {_meeting_place()}: "
            f"{str(failed[0]).splitlines()[0]}",
            "an address and a port of the first machine that every process reaches",
            "start all processes again, or correct MASTER_ADDR and MASTER_PORT; unset RANK and WORLD_SIZE to train "
            "in one process",
        )
    if failed:
        raise failed[0]


def _check_stop() -> None:
    if signals.stop_requested():
        raise signals.Stopped


def _meeting_place() -> str:
    return f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"


def size() -> int:
    """Return the number of processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """Return the rank of this process, from 0; only rank 0 writes checkpoints and results."""
    return dist.get_rank() if dist.is_initialized() else 0


def cpu_group(name: str) -> dist.ProcessGroup:
    """Return a group of all processes that exchanges values of the CPU beside a running training.

    Each ``name`` has its own. All processes must call this at the same time when they first do it for a name.
    """
    if name not in _cpu_groups:
        _cpu_groups[name] = dist.new_group(backend="gloo")
    return _cpu_groups[name]


def is_first() -> bool:
    """Return whether this process has rank 0 by its environment: valid also before joining and after."""
    return machine.place()[0] == 0


def agreed(flag: bool) -> bool:
    """Return whether ``flag`` is set in any process; all processes must call this."""
    if size() == 1:
        return flag
    device = torch.device("cuda", _local_rank()) if dist.get_backend() == "nccl" else torch.device("cpu")
    votes = torch.tensor([int(flag)], device=device)
    dist.all_reduce(votes, dist.ReduceOp.MAX)
    return bool(votes.item())


def wait() -> None:
    """Wait until all processes arrive here."""
    if size() > 1:
        dist.barrier()


def waited_s() -> float:
    """Return the seconds that this process has waited for the gradients of slower ones, in total.

    Each update ends with a sum over all processes. The one that waits least for it is the slowest. Processes that
    share a sharded model also wait for each other earlier, which is not counted.
    """
    return _waited_s


def any_has(used: Shaped[Tensor, " parameters"]) -> Shaped[Tensor, " parameters"]:
    """Take the maximum over all processes, and count how long the others took to arrive."""
    global _waited_s
    if used.is_cuda:
        # The work of this process ends here; reading the result would wait for it anyway. Sums that are under way
        # are on another stream: they wait for the other processes.
        torch.cuda.current_stream().synchronize()
    began = time.perf_counter()
    dist.all_reduce(used, dist.ReduceOp.MAX)
    highest = used.cpu()
    _waited_s += time.perf_counter() - began
    return highest


class _Whole(nn.Module):
    """Wrapper that keeps FSDP2's root weights gathered during a whole loss computation."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, compute: Callable[..., Any], *arguments: Any) -> Any:
        """Run ``compute`` and return its result."""
        return compute(*arguments)


def shard(
    model: nn.Module, layers: Iterable[nn.Module], shard_size: int = 0, every_batch: bool = False
) -> Callable[..., Any]:
    """Shard weights, gradients and moments over the processes (FSDP2); gradients are summed in float32.

    Each of ``layers`` gathers its weights while it computes; all other weights are gathered while a loss is
    computed. A layer of float32 weights in a model of bfloat16 (a momentum encoder's) gathers them rounded. After this
    call the parameters of ``model`` are DTensors; it can still load unsharded weights.

    Gradients are exchanged in the last batch of an update only. Until then a process keeps float32 gradients of
    the whole model.

    Args:
        model: the same in every process, on the training device.
        layers: its layers.
        shard_size: processes that share one copy of the model (HSDP): neighbours by rank, a divisor of their
            number; 0 for all. Gradients are summed among them first, then among the copies.
        every_batch: sum gradients among the processes of a copy after every batch, and among the copies after
            the last, so that a process never keeps gradients of the whole model.

    Returns:
        A function that calls its first argument with the others while the weights outside of ``layers`` are
        gathered. If the second is fairseq's wrapper of the model, it says whether more batches of the update
        follow. All processes must call it at the same time, and the same layers in it in the same order.

    Source: Zhao et al. 2023; torch.distributed.fsdp.fully_shard.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method

    mesh, policy = None, MixedPrecisionPolicy(reduce_dtype=torch.float32)
    working = next(model.parameters()).dtype
    rounded = MixedPrecisionPolicy(working, reduce_dtype=torch.float32, cast_forward_inputs=False)
    if shard_size and shard_size < size():
        device = next(model.parameters()).device.type
        mesh = init_device_mesh(
            device, (size() // shard_size, shard_size), mesh_dim_names=("copies", "parts")
        )
    for layer in layers:
        others = next(layer.parameters()).dtype != working
        fully_shard(layer, mesh=mesh, mp_policy=rounded if others else policy)
        for name in FORWARD:
            if hasattr(layer, name):
                register_fsdp_forward_method(layer, name)
    whole = _Whole(model)
    fully_shard(whole, mesh=mesh, mp_policy=policy)
    model.register_load_state_dict_pre_hook(_shard_state)  # type: ignore[no-untyped-call]
    root: Any = whole  # fully_shard has made it one of its own modules
    exchange = root.set_requires_all_reduce if every_batch else root.set_requires_gradient_sync

    def around(compute: Callable[..., Any], *arguments: Any) -> Any:
        exchange(not (arguments and getattr(arguments[0], "accumulate_grads", False)))
        return whole(compute, *arguments)

    return around


def processes_per_node() -> int:
    """Return the number of processes on this machine, as torchrun or Slurm give it, 0 if it is unknown."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "0"))


def _shard_state(module: nn.Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if (key := prefix + name) in state:
            state[key] = shard_like(state[key], parameter)


def shard_like(whole: Shaped[Tensor, " ..."], other: Shaped[Tensor, " ..."]) -> Shaped[Tensor, " ..."]:
    """Return this process's shard of a tensor that every process has, divided as ``other`` is."""
    if not is_part(other) or is_part(whole):
        return whole
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(whole.to(other.device), other.device_mesh, other.placements, src_data_rank=None)


def is_sharded(model: nn.Module) -> bool:
    """Return whether `shard` was called for a model."""
    return any(is_part(parameter) for parameter in model.state_dict().values())


def local(tensor: Shaped[Tensor, " ..."]) -> Shaped[Tensor, " ..."]:
    """Return this process's shard of a tensor, in the same memory."""
    return tensor.to_local() if is_part(tensor) else tensor


def is_everywhere(tensor: Shaped[Tensor, " ..."]) -> bool:
    """Return whether every process holds a part of a tensor."""
    if not is_part(tensor):
        return tensor.numel() > 0
    num = tensor.device_mesh.size(tensor.device_mesh.ndim - 1)
    rows_each = -(-len(tensor) // num)
    return tensor.numel() > 0 and rows_each * (num - 1) < len(tensor)


def sum_over_parts(value: Float[Tensor, ""], tensor: Shaped[Tensor, " ..."]) -> Float[Tensor, ""]:
    """Return the sum of a number over the processes that share one copy of a sharded tensor."""
    if not is_part(tensor):
        return value
    total = value.clone()
    dist.all_reduce(total, group=tensor.device_mesh.get_group(tensor.device_mesh.ndim - 1))
    return total


def total_norm(gradients: Sequence[Float[Tensor, " ..."]]) -> Float[Tensor, ""]:
    """Return the norm of all gradients over all processes."""
    norm = torch.nn.utils.get_total_norm([local(gradient) for gradient in gradients])
    parts = [gradient for gradient in gradients if is_part(gradient)]
    if parts:
        return sum_over_parts(norm.square(), parts[0]).sqrt()
    return norm


def configure(distributed_training: Any) -> None:
    """Tell fairseq's configuration about the processes of `process_group`."""
    distributed_training.distributed_world_size = size()
    if size() > 1:
        distributed_training.distributed_rank = rank()
        distributed_training.device_id = _local_rank()
        distributed_training.distributed_no_spawn = True
        # torch's wrapper averages only parameters used in its forward pass, but losses use the head and
        # modules of the objectives outside of it. This wrapper only forwards calls: `average` does the
        # averaging.
        distributed_training.ddp_backend = "legacy_ddp"


def _local_rank() -> int:
    return int(os.environ.get("LOCAL_RANK", "0")) % max(torch.cuda.device_count(), 1)


def _forget_group() -> None:
    """Clear the process groups that fairseq and `cpu_group` cache for the lifetime of a process."""
    _cpu_groups.clear()
    from fairseq.distributed.utils import get_global_group

    get_global_group.__dict__.pop("_global_group", None)


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
        several = [p for p in parameters if not is_part(p)] if size() > 1 else []
        self._buckets = list(_buckets(several[::-1]))
        self._bucket_of = {id(p): number for number, bucket in enumerate(self._buckets) for p in bucket}
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
        if self.last and id(parameter) in self._bucket_of:
            self._missing[self._bucket_of[id(parameter)]] -= 1
            while len(self._sums) < len(self._buckets) and not self._missing[len(self._sums)]:
                self._send()

    @torch.no_grad()
    def _send(self) -> None:
        bucket = self._buckets[len(self._sums)]
        self._used += [parameter.grad is not None for parameter in bucket]
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket]
        flat = torch.cat([grad.reshape(-1) for grad in grads])
        assert flat.dtype == torch.float32, f"gradients of {flat.dtype}"
        flat.div_(size())
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
        self._anywhere = any_has(used).tolist()

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
