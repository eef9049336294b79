"""Training updates that survive a loss that is not finite and a batch that does not fit into memory.

An update whose gradients are not finite is skipped: the weights stay, the batch is used up, the update number
does not advance. An update that runs out of memory is repeated with each of its batches split in two.
Gradients are summed and divided by the same count, so the step equals that of the whole batch (except for
draws of an objective within a batch). Validation splits its batches likewise. Both events are counted. With
several processes all skip together, since the norm is that of all. A batch that does not fit in one of them
ends the run, because the others already wait for its gradients.
"""

from pathlib import Path
from typing import Any

import torch
from fairseq.trainer import Trainer

from xling.core.errors import UserError
from xling.models.optim import update_rules
from xling.models.optim.adamw import NotFiniteError
from xling.objectives.base import seed_generators
from xling.training import memory
from xling.training.reading import TrainIterator

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
        memory.give_back()
        halves = self._halves(sample, "valid")
        if len(halves) == 1:
            raise self._too_large(sample)
        for half in halves:
            self.measure(half)

    def _give_up(self) -> None:
        self._trainer.zero_grad()  # a step starts with this too; here it frees memory for the retry
        for objective in self._trainer.task.objectives.values():
            objective.forget_update(self._trainer.get_model())
        memory.give_back()

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
