"""States of a sharded training that all processes write and read together, so that none ever holds the whole.

A state ``NAME.parts`` is a folder of `torch.distributed.checkpoint`: a file of tensors by each process, an index, and
`REST` with all that is not a tensor. The checksums of its files are in ``NAME.sha256``, which is written last: a folder
without it is not a state. Any number of processes can read it, one included.
"""

from __future__ import annotations

import copy
import itertools
import pickle
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from fairseq import checkpoint_utils
from torch import Tensor

from xling.array_types import Float32, Shaped
from xling.core.output import manifest
from xling.models.distributed import processes
from xling.models.files import checksummed_file

REST, NAME = "rest.pt", "states"
_KEEPS = {
    "pathlib": ("PosixPath",),
    "torch": ("Size", "strided", *(name for name, value in vars(torch).items() if type(value) is torch.dtype)),
    "torch.serialization": ("_get_layout",),
    "torch.distributed.checkpoint.filesystem": ("_StorageInfo",),
    "torch.distributed.checkpoint.metadata": (
        "Metadata", "TensorStorageMetadata", "TensorProperties", "ChunkStorageMetadata", "MetadataIndex", "StorageMeta",
        "_MEM_FORMAT_ENCODING",
    ),
}  # fmt: skip


class ShardedState(NamedTuple):
    """A state of which every process has its part.

    Attributes:
        rest: the state with an empty tensor (of torch's device ``meta``) in place of each tensor.
        same: path of a tensor -> path of an earlier one that has the same memory.
        tensors: the others by path.
    """

    rest: Any
    same: dict[str, str]
    tensors: dict[str, Shaped[Tensor, " ..."]]

    @classmethod
    def of(cls, state: Any, stage: Callable[[Any], Any] | None = None) -> ShardedState:
        """Divide a state; ``stage`` copies the tensors, else they are those of the state."""
        first, same, tensors = dict[Any, str](), dict[str, str](), dict[str, Tensor]()

        def note(path: str, tensor: Shaped[Tensor, " ..."]) -> Shaped[Tensor, " ..."]:
            if (before := first.setdefault(memory_of(tensor), path)) == path:
                tensors[path] = tensor.detach()
            else:
                same[path] = before
            return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")

        rest = with_tensors(state, note)
        return cls(rest, same, stage(tensors) if stage else tensors)

    def num_bytes(self) -> int:
        """Return the bytes of the tensors of all processes."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    def write(self, stem: Path) -> None:
        """Write ``stem.parts`` and its checksums; all processes must call this, and wait until all have written.

        Raises:
            OSError: a process could not write its part; what the others have written is deleted.
        """
        from torch.distributed.checkpoint.api import CheckpointException
        from torch.distributed.checkpoint.filesystem import FileSystemWriter
        from torch.distributed.checkpoint.state_dict_saver import save

        unfinished, first = stem.with_suffix(".tmp"), processes.rank() == 0

        def begin() -> None:
            if first:
                shutil.rmtree(unfinished, ignore_errors=True)
                unfinished.mkdir(parents=True)
                torch.save((self.rest, self.same), unfinished / REST)

        def digest() -> dict[str, str]:
            own = [path for path in unfinished.iterdir() if path.name.startswith(f"__{processes.rank()}_")]
            own += [unfinished / REST, unfinished / ".metadata"] if first else []
            return {path.name: manifest.sha256(path) for path in own}

        def publish() -> None:
            if first:
                checksummed_file.publish(unfinished, stem.with_suffix(checksummed_file.PARTS), digests)

        try:
            _in_every_process(begin)
            save(
                self.tensors,
                storage_writer=FileSystemWriter(unfinished),
                process_group=processes.cpu_group(NAME),
            )
            digests = {name: value for part in _in_every_process(digest) for name, value in part.items()}
            _in_every_process(publish)
        except (OSError, CheckpointException) as error:
            shutil.rmtree(unfinished, ignore_errors=True)
            causes = [each for each, _ in getattr(error, "failures", {}).values()] or [error]
            raise next((each for each in causes if isinstance(each, OSError)), causes[0]) from None


def _in_every_process(step: Callable[[], Any]) -> list[Any]:
    """Call ``step`` in every process and return what it returned in each; where it fails in one, it fails in all."""
    try:
        result, failed = step(), None
    except OSError as error:
        result, failed = None, error
    steps: list[Any] = [None] * processes.size()
    dist.all_gather_object(steps, (result, failed), processes.cpu_group(NAME))
    for _, failed in steps:
        if failed is not None:
            raise failed
    return [each for each, _ in steps]


def rest_of(path: Path) -> tuple[Any, dict[str, str]]:
    """Return `ShardedState.rest` and `ShardedState.same` of a state on the disk; no code in it is executed."""
    rest, same = torch.load(path / REST, weights_only=True)
    return rest, same


def read(path: Path, like: Callable[[str, Shaped[Tensor, " ..."]], Shaped[Tensor, " ..."]]) -> Any:
    """Return a state from the disk.

    Args:
        path: a folder that `ShardedState.write` has written; no code in it is executed.
        like: called with the path of every tensor and an empty one of its shape; returns the tensor, or the part of
            it, that this process wants to have filled.
    """
    from torch.distributed.checkpoint.filesystem import FileSystemReader
    from torch.distributed.checkpoint.state_dict_loader import load

    class Reader(FileSystemReader):
        def read_metadata(self, *args: Any, **kwargs: Any) -> Any:
            with (path / ".metadata").open("rb") as handle:
                return _Index(handle).load()

    rest, same = rest_of(path)
    requested: dict[str, Tensor] = {}

    def request(name: str, tensor: Shaped[Tensor, " ..."]) -> None:
        if name not in same:
            requested[name] = like(name, tensor)

    with_tensors(rest, request)
    with warnings.catch_warnings():  # every process reads what it needs by itself
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        load(requested, storage_reader=Reader(path), no_dist=True)
    return with_tensors(rest, lambda name, _: requested[same.get(name, name)])


class _Index(pickle.Unpickler):
    """Reader of the index, which torch pickles, that makes nothing but what belongs into one."""

    def find_class(self, module: str, name: str) -> Any:
        if name not in _KEEPS.get(module, ()):
            raise pickle.UnpicklingError(f"{module}.{name} in an index")
        return super().find_class(module, name)


def stager() -> Callable[[Any], Any]:
    """Return a function that copies tensors to the CPU, where it keeps the memory for the next call."""
    from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

    cuda = torch.cuda.is_available()
    return DefaultStager(
        StagingOptions(
            use_pinned_memory=cuda,
            use_shared_memory=False,
            use_async_staging=False,
            use_non_blocking_copy=cuda,
        )
    ).stage


@contextmanager
def readable_by_fairseq(path: Path, trainer: Any) -> Iterator[Path]:
    """Give fairseq this process's part of a divided state when it reads the returned file."""
    if path.suffix != checksummed_file.PARTS:
        yield path
        return
    trainer.consolidate_optimizer()
    own = dict[str, Tensor]()
    with_tensors(trainer.state_dict(), own.__setitem__)
    params = [param for group in trainer.optimizer.param_groups for param in group["params"]]
    moments = {f"/last_optimizer_state/adamw/state/{number}": param for number, param in enumerate(params)}

    def empty_shard(name: str, tensor: Shaped[Tensor, " ..."]) -> Shaped[Tensor, " ..."]:
        ours = own.get(name, moments.get(name.rpartition("/")[0]))
        if ours is None or ours.shape != tensor.shape:
            return torch.empty(tensor.shape, dtype=tensor.dtype)
        return torch.empty_like(ours.detach(), dtype=tensor.dtype)

    state, original = read(path, empty_shard), checkpoint_utils.load_checkpoint_to_cpu
    checkpoint_utils.load_checkpoint_to_cpu = lambda *_, **__: state
    try:
        yield path / REST
    finally:
        checkpoint_utils.load_checkpoint_to_cpu = original


def whole(weights: dict[str, Shaped[Tensor, " ..."]], scratch: Path) -> dict[str, Float32[Tensor, " ..."]]:
    """Return sharded weights in one piece to the first process, and nothing to the others; all must call this.

    They lie in files, which the first process maps into its memory. The caller deletes the folder ``scratch``.
    """
    ShardedState.of(weights).write(scratch / "weights")
    if processes.rank() > 0:
        return {}
    number = itertools.count()

    def mapped(path: str, tensor: Shaped[Tensor, " ..."]) -> Shaped[Tensor, " ..."]:
        flat = torch.from_file(
            str(scratch / f"{next(number)}.float32"), True, tensor.numel(), dtype=torch.float32
        )
        return flat.view(tensor.shape)

    return dict(read(scratch / f"weights{checksummed_file.PARTS}", mapped))


def with_tensors(value: Any, change: Callable[[str, Shaped[Tensor, " ..."]], Any], path: str = "") -> Any:
    """Return a copy of nested values with ``change(path, tensor)`` in place of every tensor."""
    if isinstance(value, Tensor):
        return change(path, value)
    if isinstance(value, dict):
        return type(value)((k, with_tensors(v, change, f"{path}/{k}")) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return type(value)(with_tensors(v, change, f"{path}/{i}") for i, v in enumerate(value))
    return copy.deepcopy(value)


def memory_of(tensor: Shaped[Tensor, " ..."]) -> Any:
    """Return a key that tensors of the same memory share, in all processes alike."""
    # Processes must agree: a tensor that is empty in one of them is the same as no other in all.
    if not processes.is_everywhere(tensor):
        return id(tensor)
    return processes.local(tensor).data_ptr(), tensor.dtype, tensor.shape, tensor.stride()
