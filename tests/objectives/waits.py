"""A GPU that is not there: its tensors have shapes and no numbers, and whatever would wait for it is noted.

Torch's device ``meta`` stands for it. It goes the ways of a GPU where code asks whether a tensor is on the CPU.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

GPU = "meta"
aten = torch.ops.aten
MOVES = (aten._to_copy.default, aten.copy_.default)
ASKS = {  # for numbers of the GPU: what is given instead
    aten._local_scalar_dense.default: lambda tensor: 1.0 if tensor.is_floating_point() else 1,
    aten.bincount.default: lambda tensor, *_, minlength=0: torch.empty(
        minlength, dtype=torch.int64, device=GPU
    ),
    aten.nonzero.default: lambda tensor: torch.empty(len(tensor), tensor.ndim, dtype=torch.int64, device=GPU),
    aten.equal.default: lambda *_: True,
}


class Waits(TorchDispatchMode):
    """Context that notes every operation for which a process would wait for its GPU.

    Attributes:
        seen: the lines of this project that did so, with the operations, in their order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run an operation; one that asks for numbers gets others."""
        kwargs = dict(kwargs or {})
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        from_gpu = any(tensor.device.type == GPU for tensor in tensors)
        if func in ASKS and from_gpu:
            self._note(func)
            return ASKS[func](*args, **kwargs)
        if (
            func is aten.index.Tensor
            and any(i is not None and i.dtype == torch.bool for i in args[1])
            and from_gpu
        ):
            self._note(func)
            rows = [
                torch.empty(len(i), dtype=torch.int64, device=GPU) if i is not None else i for i in args[1]
            ]
            return func(args[0], rows)
        if func in MOVES:
            source = args[1] if func is aten.copy_.default else args[0]
            there = args[0].device if func is aten.copy_.default else kwargs.get("device") or source.device
            apart = {source.device.type, torch.device(there).type} == {"cpu", GPU}
            if apart and not (kwargs.get("non_blocking") or True in args[2:]):
                self._note(func)
            if apart and source.device.type == GPU:
                return torch.zeros(source.shape, dtype=kwargs.get("dtype") or source.dtype)
        return func(*args, **kwargs)

    def _note(self, func: Any) -> None:
        ours = [frame for frame in traceback.extract_stack() if "/xling/" in frame.filename]
        self.seen.append(
            f"{ours[-1].filename}:{ours[-1].lineno}: {ours[-1].line} ({func})" if ours else str(func)
        )


def put(model: nn.Module) -> None:
    """Put a model on the GPU that is not there; tied weights stay tied."""
    moved: dict[int, nn.Parameter] = {}
    for module in model.modules():
        for name, weight in module._parameters.items():
            if weight is not None:
                made = nn.Parameter(weight.detach().to(GPU), weight.requires_grad)
                module._parameters[name] = moved.setdefault(id(weight), made)
        for name, buffer in module._buffers.items():
            module._buffers[name] = None if buffer is None else buffer.to(GPU)


def moved(sample: Any) -> Any:
    """Return a batch on the GPU that is not there."""
    return tree_map(lambda leaf: leaf.to(GPU) if isinstance(leaf, Tensor) else leaf, sample)
