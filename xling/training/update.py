"""One update that survives what goes wrong in it: a loss that is not finite, a batch that does not fit.

An update whose gradients are not finite is skipped: the weights stay, the batch is used up, the update number does
not advance. One that runs out of memory is made again with each of its batches in halves; gradients are summed and
divided by the same count, so the step is that of the whole batch (but for what an objective draws within a batch).
Validation makes its batches in halves likewise.
Both are counted. Of several processes all skip together, since the norm is that of all; a batch that does not fit in
one of them ends the run, for the others already wait for its gradients.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from fairseq.trainer import Trainer

from xling.core.errors import UserError
from xling.models.optim import NotFiniteError
from xling.training import memory

_NO_MEMORY = ("out of memory", "can't allocate memory")


class SafeTrainer(Trainer):  # type: ignore[misc]
    """fairseq's Trainer without its crash files; checkpoints are `xling.models.running.Writer`'s."""

    def save_checkpoint(self, filename: str, extra_state: dict[str, Any]) -> None:
        """Called by fairseq only when a step fails: the last checkpoint is good, the state now is not."""


class Updates:
    """Makes updates and counts what went wrong.

    Args:
        trainer: whose ``train`` split the batches come from.
        dump: file that the batches of the last skipped update are written to when training stops.
        limit: updates skipped in a row that stop training.

    Attributes:
        skipped: updates skipped since the start.
        halved: batches halved since the start.
        rate: learning rate of the last update.
    """

    def __init__(self, trainer: Any, dump: Path, limit: int) -> None:
        self._trainer, self._dump, self._limit = trainer, dump, limit
        self.skipped = self.halved = self._in_a_row = 0
        self.rate = 0.0

    def make(self, samples: list[Any]) -> bool:
        """Make one update of ``samples``; False when it was skipped.

        Raises:
            UserError: too many were skipped in a row, or not even batches of one example fit.
        """
        self.rate = float(self._trainer.get_lr())
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
            # Outside of the handler, where the error no longer holds the tensors of the failed pass.
            self._give_up()
            parts = [half for sample in samples for half in self._halves(sample, "train")]
            if len(parts) == len(samples):
                raise self._too_large(max(samples, key=lambda sample: int(sample["ntokens"])))
            samples = parts

    def measure(self, sample: Any) -> None:
        """Take the validation loss of a batch, in halves where it does not fit.

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
        self._trainer.zero_grad()  # a step begins so as well; here it frees memory for the next try
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
            fix="lower tokens_per_sample, or take a smaller model",
        )

    def _halves(self, sample: Any, split: str) -> list[Any]:
        """The two halves of a batch; the batch itself where it is one example."""
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
    """Whether torch or numpy could not get memory, on any device."""
    text = str(error).lower()
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or any(w in text for w in _NO_MEMORY)
