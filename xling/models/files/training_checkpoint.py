"""Checkpoints of a running training, from which a killed run goes on to the same weights, bit for bit.

Exact resume. All that a training depends on is in a checkpoint, or follows from the number of updates in it:

- The weights, their float32 masters and the optimiser's moments are saved; so are the weights and queues that
  objectives keep in the model (``model.extras``).
- Learning rate, phase, weights of a mix and number of batches depend on the number of the update alone.
- Random draws have keys (`xling.core.sampling.rng`): an example is drawn by its epoch and index, dropout by the update
  and the index of the batch in it. No generator outlives a batch, so none is saved.
- What was read is the state of the iterator (`xling.training.reading.TrainIterator.state_dict`).

An epoch of batches is made window by window, and each window has a state from which it can be made again, without
those before it (`xling.objectives.dataset.ObjectiveDataset.windows`). The state of the iterator has four parts:

- ``epoch``: the epoch of the next batch.
- ``dataset``: the state of the dataset at the start of that epoch; only a mix has one, whose parts have epochs of
  their own (``epoch_state``, ``restore_epoch``).
- ``iterations_in_epoch``: the batches of the epoch that all processes have used. Batches that loaders had read ahead
  do not count.
- ``place``: the window of the next batch, as the number of batches ``before`` it and its ``state``.

A new iterator begins with that window and leaves out its batches up to those used. The processes take the others in
turn, so that any number of them sees the same batches in each update.

A checkpoint ``update-<n>.pt`` is written by a thread, its SHA-256 last. `resume` takes the newest one whose checksum is
right, and refuses it if its ``run_key``, the settings and the digests of the inputs, is not that of the run.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from xling.array_types import Shaped
from xling.core.errors import UserError
from xling.core.output import source_version, unfinished
from xling.core.output.rerun import differences
from xling.core.progress import print_above_bar
from xling.models.distributed import processes
from xling.models.files import sharded_state
from xling.models.files.checksummed_file import (
    PARTS,
    SOMETHING_ELSE,
    good_checkpoints,
    has_no_room,
    is_good,
    size_of,
    write_checksummed,
)
from xling.models.files.sharded_state import ShardedState

logger = logging.getLogger(__name__)
FORMAT = 2
"""Version of the checkpoint format; increase it when an older version could not resume from it.

Format 1 had another order of the data.
"""
FREE = (
    "updates",
    "schedule",
    "decay",
    "decay_shape",
    "final_lr",
    "valid_every",
    "snapshots",
    "snapshot_state",
)
"""Settings of ``train`` in which a run may differ from the one that it branches off."""
STATE = "state.pt"
"""Name of a state beside the model of a snapshot; that of a sharded model ends in `PARTS`."""
FULL_DISK_VARIABLE = "XLING_FULL_DISK"
"""``stop`` ends a training whose checkpoint does not fit on the disk; else it continues and retries later."""


class Writer:
    """Writer of the trainer's whole state as ``update-<n>.pt`` with its SHA-256 beside it; deletes old checkpoints.

    The state is copied when `save` is called and written by a thread. So training only waits for the copy,
    and for the previous write if that has not ended. The checksum is written last: a file without one is not
    a checkpoint. If the model is sharded, every process copies and writes its part of ``update-<n>.parts``.

    Args:
        accumulate: batches of an update in each process.

    Attributes:
        saved: number of updates in the last checkpoint on disk, 0 if there is none.
    """

    def __init__(self, directory: Path, keep: int, accumulate: int = 1) -> None:
        self._directory, self._keep, self.accumulate = directory, keep, accumulate
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._stage: Callable[[Any], Any] | None = None
        self.saved = 0
        for leftover in directory.glob("update-*.tmp") if processes.rank() == 0 else ():
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.wait()

    def save(self, trainer: Any, epoch_itr: Any, run_key: dict[str, Any]) -> None:
        """Copy the state and start to write it.

        All processes must call this if the model is sharded, since each writes its part.

        Raises:
            OSError: the previous checkpoint could not be written.
        """
        arguments = (self.state(trainer, epoch_itr, run_key), trainer.get_num_updates())
        # A daemon thread: an interrupted process ends at once, and a partial file is ignored.
        self._thread = threading.Thread(target=self._run, args=arguments, name="checkpoint", daemon=True)
        self._thread.start()

    def state(self, trainer: Any, epoch_itr: Any, run_key: dict[str, Any]) -> Any:
        """Return a copy of the whole state on the CPU, or of this process's part if the model is sharded.

        It is valid until the next call.

        Raises:
            OSError: the previous checkpoint could not be written.
        """
        self.wait()
        trainer.consolidate_optimizer()  # fairseq sets a field there that state_dict reads
        state = trainer.state_dict()
        state["extra_state"] |= {
            "format": FORMAT,
            "train_iterator": epoch_itr.state_dict(),
            "processes": processes.size(),
            "batches_per_update": processes.size() * self.accumulate,
            "code": source_version.full_version(),
            "dtype": _dtype_of(trainer),
            "run_key": json.dumps(run_key, sort_keys=True),
        }
        if not processes.is_sharded(trainer.get_model()):
            return snapshot(state, {})
        processes.cpu_group(
            sharded_state.NAME
        )  # made here, since the writing threads of several processes may begin in any order
        self._stage = self._stage or sharded_state.stager()
        return ShardedState.of(state, self._stage)

    def wait(self) -> None:
        """Wait until the saved state is on the disk.

        Raises:
            OSError: it could not be written.
        """
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _run(self, state: Any, num_updates: int) -> None:
        try:
            self.write(state, num_updates)
        except BaseException as error:  # passed to the calling thread
            self._error = error

    def write(self, state: Any, num_updates: int) -> None:
        """Write a state now and delete old ones; if the disk is full, skip it and report that.

        Raises:
            UserError: the disk is full, and `FULL_DISK_VARIABLE` says to stop then.
            OSError: the state could not be written for another reason.
        """
        try:
            put(self._directory / f"update-{num_updates:08d}", state)
        except OSError as error:
            if not has_no_room(error):
                raise
            free = shutil.disk_usage(self._directory).free
            why = f"no room in {self._directory} for the checkpoint after {num_updates} updates: "
            needed = state.num_bytes() if isinstance(state, ShardedState) else size_of(state)
            why += f"{needed:,} bytes needed, {free:,} free"
            if os.environ.get(FULL_DISK_VARIABLE) == "stop":
                raise UserError(why, fix="free space there, and run the same command again") from None
            if processes.rank() == 0:
                print_above_bar(f"xling: {why}; the training continues and tries again at the next one")
            return
        self.saved = num_updates
        if processes.rank() > 0:
            return
        for old in sorted(self._directory.glob("update-*.sha256"))[: -self._keep]:
            old.unlink()
            old.with_suffix(".pt").unlink(missing_ok=True)
            shutil.rmtree(old.with_suffix(PARTS), ignore_errors=True)


def put(stem: Path, state: Any) -> None:
    """Write what `Writer.state` returned as ``stem.pt``, or all processes together as ``stem.parts``.

    Raises:
        OSError: it could not be written.
    """
    if isinstance(state, ShardedState):
        state.write(stem)
    else:
        write_checksummed(stem.with_suffix(".pt"), state)


def snapshot(value: Any, seen: dict[Any, Shaped[Tensor, " ..."]]) -> Any:
    """Copy a value to the CPU, independent of further training.

    Tensors that share memory also share it in the copy. Those of a sharded model are gathered.
    """

    def copied(_: str, tensor: Shaped[Tensor, " ..."]) -> Shaped[Tensor, " ..."]:
        if (key := sharded_state.memory_of(tensor)) not in seen:
            gathered = tensor.full_tensor() if processes.is_part(tensor) else tensor
            seen[key] = gathered.detach().to("cpu", copy=True)
        return seen[key]

    return sharded_state.with_tensors(value, copied)


def restored_iterator(trainer: Any, state: dict[str, Any]) -> Any:
    """Return the training iterator with the state of an earlier one (`TrainIterator.state_dict`).

    Any number of processes share the rest of the epoch.
    """
    trainer.task.load_dataset("train")
    trainer.task.dataset("train").restore_epoch(state["epoch"], state["dataset"])
    return trainer.get_train_iterator(
        state["epoch"], used=state["iterations_in_epoch"], window=state["place"]
    )


def state_of(branch: str) -> tuple[Path, int]:
    """Return the file of the state that a run branches off, and the number of updates after which it was written.

    Args:
        branch: the file, or the folder of a snapshot.

    Raises:
        UserError: there is no such file, it is damaged, or it is not the state of a training.
    """
    path = Path(branch)
    if path.is_dir() and path.suffix != PARTS:
        parts = (path / STATE).with_suffix(PARTS)
        path = parts if parts.is_dir() else path / STATE
    if not path.exists():
        raise UserError(
            f"branch={branch}: there is no {path.name} of a training",
            "OUT/snapshots/UPDATES of a run with train.snapshot_state=true, or OUT.partial/update-NUMBER.pt or .parts",
        )
    if not is_good(path):
        raise UserError(
            f"branch={branch}: {path} does not match its checksum", "a whole state with its .sha256"
        )
    try:
        state = opened(path)
        if state["extra_state"]["format"] != FORMAT:
            raise KeyError(f"format {state['extra_state']['format']}, not {FORMAT}")
        return path, int(state["optimizer_history"][-1]["num_updates"])
    except Exception as error:
        raise UserError(
            f"branch={branch} is not the state of a training: {_in_one_line(error)}",
            "a state of this version of xling",
        ) from None


def _in_one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def opened(path: Path) -> Any:
    """Return a state for looking into it: its tensors are mapped into memory, or have only shapes."""
    if path.suffix == PARTS:
        return sharded_state.rest_of(path)[0]
    return torch.load(path, map_location="cpu", weights_only=True, mmap=True)


def resume(
    trainer: Any,
    directory: Path,
    plan: Any,
    enter: Callable[[int], None] = lambda update: None,
) -> tuple[Any, int]:
    """Load the newest good checkpoint, if any, else the state of another run that the plan branches off.

    The content of a checkpoint is checked before anything is loaded; one with unexpected content is skipped
    like a damaged one.

    Args:
        enter: called with the number of updates made before the data are opened.

    Returns:
        The training iterator with its saved state, and how many batches each process has in an update.

    Raises:
        UserError: the checkpoint has other settings or data or another format, its batches per update
            are not possible with this number of processes, or none of several checkpoints can be read.
    """
    damaged = []
    for path in [*good_checkpoints(directory), *([plan.branch] if plan.branch else [])]:
        # Not read: another model shape must not reach fairseq, which would stop with a traceback.
        try:
            state = opened(path)
            extra = _extra_of(state, path)
            accumulate = _compare(extra, plan, path)
            _check_weights(state, trainer)
        except UserError:
            raise
        except Exception as error:
            damaged.append(f"{path.name}: {_in_one_line(error)}")
            logger.warning(SOMETHING_ELSE, path)
            continue
        _warn_of_precision(str(extra.get("dtype", _dtype_of(trainer))), trainer, path)
        return _loaded(trainer, path, enter), accumulate
    if damaged:
        raise UserError(
            f"no checkpoint in {directory} can be read: {'; '.join(damaged)}", fix="delete it to start again"
        )
    enter(0)
    epoch_itr = trainer.get_train_iterator(1, load_dataset=True)
    trainer.lr_step(epoch_itr.epoch)
    return epoch_itr, plan.train.accumulate


def _loaded(trainer: Any, path: Path, enter: Callable[[int], None]) -> Any:
    """Load a checkpoint into the trainer and return the iterator with its state."""
    try:
        with sharded_state.readable_by_fairseq(path, trainer) as file:
            iterator_state = trainer.load_checkpoint(str(file))["train_iterator"]
        enter(trainer.get_num_updates())
        epoch_itr = restored_iterator(trainer, iterator_state)
    except Exception as error:  # half of it may be loaded, so that no other one can be tried
        raise UserError(
            f"{path} cannot be loaded: {_in_one_line(error)}", fix=f"delete it, or {path.parent}"
        ) from error
    trainer.lr_step(epoch_itr.epoch)
    return epoch_itr


def _dtype_of(trainer: Any) -> str:
    return str(next(trainer.get_model().parameters()).dtype).removeprefix("torch.")


def _warn_of_precision(dtype: str, trainer: Any, path: Path) -> None:
    if dtype != _dtype_of(trainer):
        logger.warning(
            "%s was written in %s, this machine continues in %s: the weights will differ from those of one run; "
            "model.precision=fp32 or bf16 keeps it",
            path, dtype, _dtype_of(trainer),
        )  # fmt: skip


def _extra_of(state: Any, path: Path) -> dict[str, Any]:
    """Return our entries beside fairseq's state after checking their types."""
    extra = state["extra_state"]
    if isinstance(extra["format"], int) and extra["format"] != FORMAT:
        raise UserError(
            f"{path} has checkpoint format {extra['format']}",
            f"{FORMAT}",
            "continue with the version that wrote it",
        )
    types = {
        "format": int,
        "train_iterator": dict,
        "processes": int,
        "batches_per_update": int,
        "code": str,
        "run_key": str,
    }
    for name, kind in types.items():
        if not isinstance(extra[name], kind):
            raise TypeError(f"{name} is {type(extra[name]).__name__}")
    iterator, updates = extra["train_iterator"], state["optimizer_history"][-1]["num_updates"]
    if not isinstance(iterator["place"], dict) or not all(
        isinstance(n, int) for n in (iterator["epoch"], iterator["iterations_in_epoch"], updates)
    ):
        raise TypeError("a position is not a number")
    if extra["batches_per_update"] < 1 or iterator["epoch"] < 1 or iterator["iterations_in_epoch"] < 0:
        raise ValueError("a position is out of range")
    return dict(extra)


def _check_weights(state: dict[str, Any], trainer: Any) -> None:
    """Check names and shapes of the weights, and that the optimiser's state has tensors."""
    own, saved = _weights_of(trainer.get_model().state_dict()), _weights_of(state["model"])
    if saved.keys() != own.keys():
        raise ValueError(f"weights differ in name: {sorted(saved.keys() ^ own.keys())[:3]}")
    for name, weight in own.items():
        if not isinstance(saved[name], Tensor) or saved[name].shape != weight.shape:
            raise ValueError(f"{name} has another shape")
    if not isinstance(state["last_optimizer_state"], dict):
        raise TypeError("the optimiser has no state")


def _weights_of(state: dict[str, Any]) -> dict[str, Any]:
    """Return the weights without the objectives' own modules, which grow."""
    return {name: weight for name, weight in state.items() if not name.startswith("extras.")}


def _compare(extra: dict[str, Any], plan: Any, path: Path) -> int:
    """Reject a checkpoint with other settings or data; return the batches of an update in each process.

    More updates are allowed, and the same batches per update may come from another number of processes. A run that
    branches off may also have the other settings of `FREE`.
    """
    saved = json.loads(extra["run_key"])
    old, new = saved["config"], copy.deepcopy(plan.run_key["config"])
    data = {name: (digest,) for name, digest in sorted(plan.run_key["data"].items())}  # as they were saved
    if path == plan.branch:
        new["branch"] = old.get("branch", "")
        new["train"] |= {name: old["train"][name] for name in FREE if name in old["train"]}
        data = {name: digest for name, digest in data.items() if name != str(path)}
    group, old_updates = extra["batches_per_update"], old["train"]["updates"]
    accumulate = new["train"]["accumulate"]
    if accumulate == old["train"]["accumulate"] and group % processes.size() == 0:
        accumulate = group // processes.size()
    derived = accumulate != new["train"]["accumulate"] and any(
        p.get("tokens") for p in new.get("phases", {}).values()
    )
    if derived or (new["train"].get("batch_warmup") and processes.size() != extra["processes"]):
        raise UserError(
            f"{path}: {extra['processes']} process(es) wrote it, {processes.size()} continue, with lengths in tokens",
            f"{extra['processes']} process(es)" + (f", or train.accumulate={accumulate}" if derived else ""),
        )
    if accumulate * processes.size() != group:
        raise UserError(
            f"{path}: an update has {group} batches, {processes.size()} process(es) with"
            f" train.accumulate={accumulate} would make {accumulate * processes.size()}",
            f"a number of processes times train.accumulate that is {group}",
        )
    new["train"]["accumulate"] = old["train"]["accumulate"]
    longer = new["train"]["updates"] > old_updates
    if longer:
        new["train"]["updates"] = old_updates
    changed = differences((old, saved["data"]), (new, data), plan.cfg)
    if changed and path != plan.branch:
        raise unfinished.refuse(path, path.parent, "; ".join(changed))
    if changed:
        raise UserError(
            f"{path} was made with other settings or data: {'; '.join(changed)}",
            fix="give its settings again, or branch off another state",
        )
    if processes.rank() == 0:
        _report_differences(extra, plan.train, path, accumulate, old_updates if longer else 0)
    return int(accumulate)


def _report_differences(
    extra: dict[str, Any], train: Any, path: Path, accumulate: int, old_updates: int
) -> None:
    if extra["code"] != source_version.full_version():
        print_above_bar(
            f"xling: {path} was made by xling {extra['code']}, this is {source_version.full_version()}: "
            "the result may differ"
        )
    if accumulate != train.accumulate:
        print_above_bar(
            f"xling: an update keeps its {extra['batches_per_update']} batches: {processes.size()} x {accumulate}"
        )
    if old_updates:
        print_above_bar(
            f"xling: {path} was to end after {old_updates} updates, now after {train.updates}: the learning rate "
            f"follows the schedule of {train.updates}, so the result is not that of one run of that length"
        )
