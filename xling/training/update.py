"""Training updates that survive a loss that is not finite and a batch that does not fit into memory.

An update whose gradients are not finite is skipped: the weights stay, the batch is used up, the update number
does not advance. An update that runs out of memory is repeated with each of its batches split in two.
Gradients are summed and divided by the same count, so the step equals that of the whole batch (except for
draws of an objective within a batch). Validation splits its batches likewise. Both events are counted. With
several processes all skip together, since the norm is that of all. A batch that does not fit in one of them
ends the run, because the others already wait for its gradients.

The `Log` of the updates is ``log.jsonl``; `memory_kept` keeps freed memory between them.
"""

import ctypes
import errno
import json
import math
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from fairseq.logging import metrics
from fairseq.trainer import Trainer

from xling.core.errors import UserError
from xling.core.output import manifest, records
from xling.core.progress import print_above_bar
from xling.models.distributed import processes
from xling.models.optim import update_rules
from xling.models.optim.adamw import NotFiniteError
from xling.objectives.base import seed_generators
from xling.training import speed
from xling.training.reading import TrainIterator
from xling.training.trackers import Show

_NO_MEMORY = ("out of memory", "can't allocate memory")


class SafeTrainer(Trainer):  # type: ignore[misc]
    """fairseq's Trainer without its crash files; checkpoints are written by `training_checkpoint.Writer`."""

    _marked: Any = None

    def get_train_iterator(self, epoch: int, load_dataset: bool = True, **start: Any) -> TrainIterator:
        """Return the iterator over an epoch; ``start`` is passed to `TrainIterator`, to begin within it."""
        if load_dataset:
            self.task.load_dataset("train")
        iterator = TrainIterator(
            self.task.dataset("train"),
            self.cfg.dataset.max_tokens,
            epoch,
            self.data_parallel_world_size,
            self.data_parallel_rank,
            self.cfg.dataset.num_workers,
            **start,
        )
        self.reset_dummy_batch(iterator.first_batch)
        return iterator

    @property
    def model(self) -> Any:
        """The model as fairseq wraps it, its hidden matrices marked for Muon.

        They are marked here and no earlier: a sharded weight loses its marks when fairseq moves and wraps the model.
        """
        wrapped = super().model
        if self.cfg.optimizer.rule == "muon" and wrapped is not self._marked:
            self._marked = wrapped
            update_rules.mark(self.get_model())
        return wrapped

    def _set_seed(self) -> None:
        seed_generators(self.cfg.common.seed + self.get_num_updates())

    def save_checkpoint(self, filename: str, extra_state: dict[str, Any]) -> None:
        """Do nothing: fairseq only calls this when a step fails, and then the last checkpoint is the good one."""


class Updates:
    """Maker of updates that counts skipped updates and split batches.

    Args:
        dump: file for the batches of the last skipped update when training stops.
        limit: number of successive skipped updates that stops training.

    Attributes:
        skipped: updates skipped since the start.
        halved: batches split since the start.
        rate: learning rate of the last update.
    """

    def __init__(self, trainer: Any, dump: Path, limit: int) -> None:
        self._trainer, self._dump, self._limit = trainer, dump, limit
        self.skipped = self.halved = self._in_a_row = 0
        self.rate = 0.0

    def make(self, samples: list[Any]) -> bool:
        """Make one update of ``samples``; return False if it was skipped.

        Raises:
            UserError: too many successive updates were skipped, or batches of one example do not fit.
        """
        self.rate = float(self._trainer.get_lr())
        samples = self._numbered(samples)
        while True:
            try:
                self._trainer.train_step(samples, raise_oom=True)
            except NotFiniteError:
                self._give_up()
                self._skip(samples)
                return False
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
            else:
                self._in_a_row = 0
                return True
            # Outside of the except block, where the error no longer holds the tensors of the failed pass.
            self._give_up()
            parts = [half for sample in samples for half in self._halves(sample, "train")]
            if len(parts) == len(samples):
                raise self._too_large(max(samples, key=lambda sample: int(sample["ntokens"])))
            samples = parts

    def _numbered(self, samples: list[Any]) -> list[Any]:
        """Number the batches of an update over all processes, and put the empty ones of this process first.

        fairseq drops what a process has counted if its last batch is empty, although its gradients stay in the sum.
        """
        size, rank = self._trainer.data_parallel_world_size, self._trainer.data_parallel_rank
        for number, sample in enumerate(samples):
            if sample:
                sample["batch_index"] = number * size + rank
        return sorted(samples, key=bool)

    def measure(self, sample: Any) -> None:
        """Add the validation loss of a batch, split if it does not fit.

        Raises:
            UserError: a batch of one example does not fit.
        """
        try:
            self._trainer.valid_step(sample, raise_oom=True)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        else:
            return
        give_back()
        halves = self._halves(sample, "valid")
        if len(halves) == 1:
            raise self._too_large(sample)
        for half in halves:
            self.measure(half)

    def _give_up(self) -> None:
        self._trainer.zero_grad()  # a step starts with this too; here it frees memory for the retry
        for objective in self._trainer.task.objectives.values():
            objective.forget_update(self._trainer.get_model())
        give_back()

    def _skip(self, samples: list[Any]) -> None:
        self.skipped += 1
        self._in_a_row += 1
        if self._in_a_row < self._limit:
            return
        torch.save({"update": self._trainer.get_num_updates(), "samples": samples}, self._dump)
        lr = self._trainer.cfg.optimization.lr[0]
        raise UserError(
            f"the gradients are not finite after {self._trainer.get_num_updates()} updates, {self._in_a_row} times "
            f"in a row; the last batch is in {self._dump}",
            fix=f"lower train.lr={lr}, or warm up over more updates",
        )

    def _too_large(self, sample: Any) -> UserError:
        return UserError(
            f"out of memory with a batch of one example ({sample['ntokens']} tokens)",
            fix="lower tokens_per_sample, or use a smaller model",
        )

    def _halves(self, sample: Any, split: str) -> list[Any]:
        """Return the two halves of a batch, or the batch itself if it is one example."""
        dataset = self._trainer.task.dataset(split)
        if self._trainer.data_parallel_world_size > 1:
            raise UserError(
                f"out of memory with {sample.get('ntokens', 0)} tokens in one of several processes",
                fix="lower train.batch_tokens and raise train.accumulate",
            )
        parts = dataset.halves(sample["id"].cpu().numpy())
        if len(parts) == 1:
            return [sample]
        self.halved += 1
        halves = [dataset.collater([dataset[int(i)] for i in part]) for part in parts]
        self._trainer.task.divide(sample, halves)
        return halves


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that torch or numpy could not allocate memory, on any device."""
    text = str(error).lower()
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or any(w in text for w in _NO_MEMORY)


MISHAPS = ("skipped_updates", "halved_batches")


class Clock:
    """Timer that prints the remaining time of a training once, after `WARM` updates and `TIMED` more."""

    WARM, TIMED = 5, 20

    def __init__(self, what: str) -> None:
        self._what, self._updates, self._since = what, 0, 0.0

    def count_update(self, remaining: int) -> None:
        """Count an update; ``remaining`` updates follow."""
        self._updates += 1
        if self._updates == self.WARM:
            self._since = time.perf_counter()
        if self._updates == self.WARM + self.TIMED and remaining and processes.rank() == 0:
            seconds = (time.perf_counter() - self._since) / self.TIMED
            minutes = f"about {remaining * seconds / 60:,.1f} min without validation"
            print_above_bar(f"{self._what}: {remaining:,} updates left, {minutes}")


class Log:
    """Writer of ``log.jsonl``: one line per event; truncated to the checkpoint when a run is resumed.

    Attributes:
        show: called with every event too.
        mishaps: updates skipped and batches halved before the checkpoint.
    """

    def __init__(self, path: Path, num_updates: int) -> None:
        self.path = path
        self.show: Show = lambda event: None
        written = records.read_lines(path) if num_updates else []  # a fresh training has no events
        events = [event for event in written if isinstance(event.get("update"), int)]
        events = [event for event in events if event["update"] <= num_updates]
        manifest.write_atomic(path, "".join(f"{json.dumps(event)}\n" for event in events))
        self._unwritten = ""  # lines that did not fit on the disk yet
        metrics.reset_meters("train")  # they may hold values of an earlier run in the same process
        self._tokens, self._since, self.tokens_per_s = 0, time.perf_counter(), 0.0
        self._operations, self.precision, self._precision_written = 0.0, "", False
        self._epoch = max((event.get("epoch", 0) for event in events), default=0)
        seen = [event for event in events if event.get("split") == "train"][-1:]
        self.mishaps = tuple(seen[0].get(key, 0) for key in MISHAPS) if seen else (0, 0)

    def count(self, trainer: Trainer, samples: list[Any]) -> None:
        """Count the real tokens and the operations of an update."""
        self._tokens += sum(sample["ntokens"] for sample in samples if sample)
        self._operations += speed.operations(trainer.get_model(), samples)

    def write_train(self, trainer: Trainer, updates: Updates) -> str:
        """Write the training loss since the last line; return a short form for the progress bar.

        The first line says why the precision is what it is. That of an epoch also states how much of each language,
        or pair, the epoch holds.
        """
        values = metrics.get_smoothed_values("train")
        rate = self.tokens_per_s = self._tokens / (time.perf_counter() - self._since)
        seconds = time.perf_counter() - self._since
        weight = next(trainer.get_model().parameters())
        most, _ = speed.peak(weight.device.type, weight.dtype)
        used = self._operations / seconds / most if most else math.nan
        self._tokens, self._operations, self._since = 0, 0.0, time.perf_counter()
        metrics.reset_meters("train")
        # A language without a batch since the last line has an empty meter.
        losses = {k: float(v) for k, v in values.items() if k.startswith("loss") and v is not None}
        counts: dict[str, Any] = {
            "tokens_per_s": round(rate),
            **({"mfu": round(used, 4)} if most else {}),
            "lr": updates.rate,
            **({"gnorm": round(float(values["gnorm"]), 4)} if values.get("gnorm") is not None else {}),
            **dict(zip(MISHAPS, (updates.skipped, updates.halved), strict=True)),
        }
        dtype, _, why = self.precision.partition(": ")
        precision = f"{dtype} ({why})" if not self._precision_written else dtype
        counts |= {"precision": self.precision} if not self._precision_written else {}
        self._precision_written = True
        dataset = trainer.task.dataset("train")
        if dataset.epoch > self._epoch:  # its mixture has not been written yet
            self._epoch = dataset.epoch
            drawn = {f"drawn/{name}": n for name, (_, n) in dataset.mixture().items()}
            counts |= {"epoch": dataset.epoch} | drawn
        self._write({"update": trainer.get_num_updates(), "split": "train", **counts, **losses})
        mfu = f"MFU {used:.1%}, " if most else ""
        rates = f"lr {updates.rate:.2e}, gnorm {counts.get('gnorm', math.nan):.2f}, {rate:,.0f} tokens/s"
        return f"loss {losses.get('loss', math.nan):.3f}, {rates}, {mfu}{precision}"

    def write_valid(self, trainer: Trainer, losses: dict[str, float], more: dict[str, float]) -> None:
        """Write validation losses and perplexities by objective and language, and the measurements of a `Watch`."""
        ppl = {f"ppl{key[4:]}": round(math.exp(min(value, 50)), 3) for key, value in losses.items()}
        self._write({"update": trainer.get_num_updates(), "split": "valid", **losses, **ppl, **more})

    def _write(self, event: dict[str, Any]) -> None:
        """Append a line; if the disk is full, keep it until the next one."""
        self._unwritten += json.dumps(event) + "\n"
        with self.path.open("ab", buffering=0) as handle:
            size = handle.tell()
            try:
                if handle.write(self._unwritten.encode()) < len(self._unwritten):  # the text is ASCII
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                self._unwritten = ""
            except OSError as error:
                handle.truncate(size)
                records.report_once(self.path, f"lines wait to be written: {error.strerror}")
        self.show(event)


# Constants of glibc's malloc.h, and their defaults in mallopt(3).
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
_NEVER_TRIM, _USUAL_TRIM = -1, 128 * 1024
_NO_MMAP, _USUAL_MMAP = 0, 65536


@contextmanager
def memory_kept() -> Iterator[None]:
    """Keep freed memory for the next tensor of its size; no effect on a GPU or with another C library.

    It also has no effect under a limit of address space (``ulimit -v``), which threads and libraries need
    too.

    By default glibc maps every large tensor separately, and the kernel fills its pages with zeros on first
    touch. Gradients and logits of 250,000 pieces are so large that this took three tenths of an update.

    Source: mallopt(3), M_MMAP_MAX and M_TRIM_THRESHOLD.
    """
    libc = ctypes.CDLL(None)
    limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    if torch.cuda.is_available() or limited or not hasattr(libc, "malloc_trim"):  # only glibc has it
        yield
        return
    libc.mallopt(_MMAP_MAX, _NO_MMAP)
    libc.mallopt(_TRIM_THRESHOLD, _NEVER_TRIM)
    try:
        yield
    finally:
        libc.mallopt(_MMAP_MAX, _USUAL_MMAP)
        libc.mallopt(_TRIM_THRESHOLD, _USUAL_TRIM)
        give_back()


def give_back() -> None:
    """Return freed memory to the kernel, or on a GPU to the driver."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
