"""Counter of what the processes of a training exchange: calls of c10d, their bytes, types and numbers of processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._C import _distributed_c10d as c10d
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

KINDS = {
    "allreduce_": "all_reduce",
    "all_reduce": "all_reduce",
    "_allgather_base_": "all_gather",
    "all_gather_into_tensor": "all_gather",
    "_reduce_scatter_base_": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter",
}


class Call(NamedTuple):
    """A call in which processes exchange a tensor.

    Attributes:
        kind: ``all_reduce``, ``all_gather``, ``reduce_scatter``, or the name of another operation of c10d.
        size: number of processes that take part.
        dtype: type of the tensor.
        num_bytes: bytes of the tensor: of that gathered, or of that before it is scattered.
    """

    kind: str
    size: int
    dtype: torch.dtype
    num_bytes: int

    @property
    def sent(self) -> float:
        """Bytes that each process sends if the processes form a ring."""
        rounds = 2 if self.kind == "all_reduce" else 1
        return rounds * self.num_bytes * (self.size - 1) / self.size


class Traffic(TorchDispatchMode):
    """Context in which the calls of this process are counted, those of a backward pass included.

    Attributes:
        calls: the calls, in their order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run an operation; that of a sharded tensor is first divided into those of its parts."""
        from torch.distributed.tensor import DTensor

        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented
        if func.namespace not in ("c10d", "_c10d_functional") or "wait" in str(func):
            return func(*args, **kwargs or {})
        return self.run(func, args, kwargs or {})

    def run(self, func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run an operation of c10d and count it."""
        result = func(*args, **kwargs)
        name = func._schema.name.partition("::")[2]
        tensors = [*_tensors(args), *_tensors((result,))]
        if tensors:
            largest = max(tensors, key=lambda tensor: tensor.nbytes)
            self.calls.append(Call(KINDS.get(name, name), _size(args), largest.dtype, largest.nbytes))
        return result


def _tensors(values: Sequence[Any]) -> list[Tensor]:
    """Return the tensors among arguments, those in lists included."""
    flat = [part for value in values for part in (value if isinstance(value, (list, tuple)) else [value])]
    return [value for value in flat if isinstance(value, Tensor)]


def _size(args: Sequence[Any]) -> int:
    """Return the number of processes of the group among the arguments of an operation."""
    for arg in args:
        if isinstance(arg, torch.ScriptObject) and "ProcessGroup" in str(arg._type()):
            return int(c10d.ProcessGroup.unbox(arg).size())
    name: Any = next(arg for arg in reversed(args) if isinstance(arg, str))
    return int(c10d._resolve_process_group(name).size())
