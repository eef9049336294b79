"""Several objectives in one run: fairseq task ``xling_multi``.

Three modes:

- ``alternate`` (XLM): every batch belongs to one objective. The weights give the objectives' shares of the
  batches, which are spread evenly.
- ``sum`` (ERNIE-M): every batch holds a part of each objective, ``batch_tokens`` each, and their losses are
  added by weight.
- ``common`` (InfoXLM's code): as ``sum``, but all losses of a batch are summed and divided by their common
  number, so that a sentence weighs as much as a masked token.

An epoch of the mix ends when the first objective reaches the end of its own epoch. The others continue their
epochs in the next one, so that nothing is skipped however unequal the data are. In the first two modes each
objective's loss is divided by its own count before losses are combined, so that 16 sentences count as much as
2,000 masked tokens.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from fairseq.tasks import register_task
from torch import Tensor

from xling.core import config
from xling.core.errors import UserError
from xling.models.checkpoint import check_vocabulary
from xling.objectives.base import OBJECTIVES, Loss, Objective, ObjectiveDataset, TaskConfig, XlingTask
from xling.text.vocab import vocab_digest

if TYPE_CHECKING:
    from jaxtyping import Float, Int, Integer

MODES = ("alternate", "sum", "common")
MIX_SETTINGS = ("weight", "schedule")


@dataclass
class MultiConfig(TaskConfig):
    """Settings of a mix.

    ``objectives`` is JSON: name -> settings. Of these ``weight`` (default 1) and ``schedule`` belong to the
    mix, the others to the objective. Settings of the mix such as ``alpha`` are the defaults of every
    objective. A schedule such as ``0:1,1000:0`` (XLM's notation) is a factor on the loss by update, linear
    between its points.
    """

    objectives: str = field(default="{}", metadata={"help": "JSON: objective -> settings"})
    mode: str = "alternate"


@dataclass(frozen=True)
class Cursor:
    """Positions of the parts of a mix at the start of one of its epochs.

    Attributes:
        epochs: each part's own epoch.
        used: batches of that epoch that the mix has used.
        debts: batches that each part is behind its share.
    """

    epochs: dict[str, int]
    used: dict[str, int]
    debts: list[float]

    @classmethod
    def at_epoch(cls, epoch: int, names: list[str]) -> Cursor:
        """Return the cursor with all parts at the start of one epoch."""
        return cls(dict.fromkeys(names, epoch), dict.fromkeys(names, 0), [0.0] * len(names))

    def after(self, taken: list[int], there: list[int], debts: list[float]) -> Cursor:
        """Return the cursor after ``taken`` more batches from epochs with ``there`` batches each."""
        done = {name: self.used[name] + n for name, n in zip(self.used, taken, strict=True)}
        ended = {name: done[name] >= n for name, n in zip(done, there, strict=True)}
        return Cursor(
            {name: epoch + ended[name] for name, epoch in self.epochs.items()},
            {name: 0 if ended[name] else n for name, n in done.items()},
            debts,
        )


class MultiDataset(ObjectiveDataset):
    """Dataset of several objectives under one index, whose batches keep the objectives separate.

    Args:
        parts: dataset and weight by objective.
        mode: see the module.
        split: ``train`` draws batches by weight; other splits use every batch once.
    """

    def __init__(self, parts: dict[str, tuple[ObjectiveDataset, float]], mode: str, split: str) -> None:
        self._parts, self._mode, self._split = parts, mode, split
        self._shares: dict[str, float] = {}
        self._begin = Cursor.at_epoch(1, list(parts))
        self._end: Cursor | None = None
        super().__init__(0)

    def set_epoch(self, epoch: int) -> None:
        """Continue with the next epoch of the mix.

        For any epoch but the current and the next, all parts jump to it.
        """
        if epoch == self.epoch + 1 and self._end is not None:
            self._begin = self._end
        elif epoch != self.epoch:
            self._begin = Cursor.at_epoch(epoch, list(self._parts))
        if epoch != self.epoch:
            self._end = None
        self.epoch = epoch
        for name, (part, _) in self._parts.items():
            if part.epoch != self._begin.epochs[name]:
                part.set_epoch(self._begin.epochs[name])
        self._sizes = np.concatenate([part.sizes for part, _ in self._parts.values()])
        lengths = [len(part) for part, _ in self._parts.values()]
        self._offsets = np.concatenate([[0], np.cumsum(lengths)])

    def position(self, epoch: int) -> dict[str, Any]:
        """Return the state of every part at the start of ``epoch``, which is this epoch or the next."""
        cursor = self._begin if epoch == self.epoch else self._end
        assert cursor is not None, f"epoch {epoch} of the mix was not reached"
        return asdict(cursor)

    def go_to(self, epoch: int, position: dict[str, Any]) -> None:
        """Restore every part from the state that `position` returned."""
        self.epoch, self._begin, self._end = epoch, Cursor(**position), None
        self.set_epoch(epoch)

    @property
    def sizes(self) -> Integer[np.ndarray, " examples"]:
        """Tokens of each example, the parts concatenated."""
        return self._sizes

    def __getitem__(self, index: int) -> Any:
        part = int(np.searchsorted(self._offsets, index, side="right")) - 1
        name = list(self._parts)[part]
        return name, self._parts[name][0][index - int(self._offsets[part])]

    def batch_by_size(
        self,
        indices: Int[np.ndarray, " examples"],
        max_tokens: int | None = None,
        max_sentences: int | None = None,
        required_batch_size_multiple: int = 1,
    ) -> list[Int[np.ndarray, " _"]]:
        """Return batches of the parts, interleaved or joined by weight."""
        queues = []
        for number, (part, _) in enumerate(self._parts.values()):
            first = self._offsets[number]
            own = self._parts_of(indices, number) - first
            queues.append([batch + first for batch in part.batch_by_size(own, max_tokens, max_sentences)])
        if self._split != "train":
            return [batch for queue in queues for batch in queue]
        weights = np.array([weight for _, weight in self._parts.values()])
        begin, names = self._begin, list(self._parts)
        left = [queue[begin.used[name] :] for name, queue in zip(names, queues, strict=True)]
        if self._mode != "alternate":
            batches, debts = concatenated(left), begin.debts
            taken = [len(batches)] * len(left)
        else:
            batches, taken, debts = interleaved(left, weights, begin.debts)
        self._end = begin.after(taken, [len(queue) for queue in queues], debts)
        tokens = [
            sum(int(self._sizes[batch].sum()) for batch in queue[:n])
            for queue, n in zip(left, taken, strict=True)
        ]
        self._shares = {
            name: n / max(int(part.sizes.sum()), 1)
            for n, (name, (part, _)) in zip(tokens, self._parts.items(), strict=True)
        }
        return batches

    def mixture(self) -> dict[str, tuple[int, int]]:
        """Return the mixture by objective and language or pair, counting only the batches of the epoch."""
        return {
            f"{name} {key}": (there, round(drawn * self._shares.get(name, 1.0)))
            for name, (part, _) in self._parts.items()
            for key, (there, drawn) in part.mixture().items()
        }

    def halves(self, indices: Int[np.ndarray, " batch"]) -> list[Int[np.ndarray, " _"]]:
        """Split a batch into two that each hold half of every part."""
        cuts = [self._parts_of(indices, i) for i in range(len(self._parts))]
        pieces = [np.array_split(own, 2) for own in cuts]
        return [half for half in map(np.concatenate, zip(*pieces, strict=True)) if len(half)]

    def _parts_of(self, indices: np.ndarray, number: int) -> np.ndarray:
        return indices[(indices >= self._offsets[number]) & (indices < self._offsets[number + 1])]

    def collater(self, samples: list[Any]) -> dict[str, Any]:
        """Build a batch for each part that has examples here."""
        parts, offset = {}, dict(zip(self._parts, self._offsets.tolist(), strict=False))
        for name, (part, _) in self._parts.items():
            if own := [example for whose, example in samples if whose == name]:
                parts[name] = part.collater(own)
        return {
            "parts": parts,
            "id": torch.cat([part["id"] + offset[name] for name, part in parts.items()]),
            "ntokens": sum(part["ntokens"] for part in parts.values()),
            "nsentences": sum(part["nsentences"] for part in parts.values()),
        }


def interleaved(
    queues: list[list[Int[np.ndarray, " _"]]],
    weights: Float[np.ndarray, " queues"],
    debts: Sequence[float] = (),
) -> tuple[list[Int[np.ndarray, " _"]], list[int], list[float]]:
    """Interleave batches so that every stretch holds a share ``weights[i]`` of queue i.

    Args:
        queues: batches by queue.
        weights: above 0, (len(queues),).
        debts: number of batches that each queue is behind its share at the start; empty means 0.

    Returns:
        The order, which ends before the first turn of an exhausted queue; how many batches of each are used;
        the debts then.
    """
    shares = weights / weights.sum()
    owed, taken = np.array(debts or [0.0] * len(queues)), [0] * len(queues)
    order: list[np.ndarray] = []
    while True:
        turn = int(np.argmax(owed + shares))
        if taken[turn] == len(queues[turn]):
            return order, taken, owed.tolist()
        owed += shares
        order.append(queues[turn][taken[turn]])
        taken[turn] += 1
        owed[turn] -= 1


def concatenated(queues: list[list[Int[np.ndarray, " _"]]]) -> list[Int[np.ndarray, " _"]]:
    """Join one batch of each queue at a time, as many as the shortest queue has."""
    return [np.concatenate(batches) for batches in zip(*queues, strict=False)]


def schedule_of(name: str, text: str) -> tuple[list[int], list[float]]:
    """Parse a schedule ``0:1,1000:0`` into updates and factors.

    Raises:
        UserError: it cannot be parsed, or its updates do not ascend.
    """
    try:
        points = [point.split(":") for point in str(text).split(",")]
        updates, factors = [int(update) for update, _ in points], [float(factor) for _, factor in points]
    except ValueError:
        updates, factors = [], []
    if not updates or updates != sorted(set(updates)):
        raise UserError(f"objectives.{name}.schedule={text}", "UPDATE:FACTOR,..., for example 0:1,1000:0")
    return updates, factors


def weight_of(name: str, text: Any) -> float:
    """Parse the weight of an objective.

    Raises:
        UserError: it is not a number above 0.
    """
    try:
        weight = float(text)
    except ValueError:
        weight = 0.0
    if not 0 < weight < math.inf:
        raise UserError(f"objectives.{name}.weight={text}", "a number above 0")
    return weight


@register_task("xling_multi", dataclass=MultiConfig)
class XlingMultiTask(XlingTask):
    """Fairseq task with several objectives, alternating or summed."""

    def objective_names(self) -> list[str]:
        """Return the names in the mix."""
        return list(json.loads(self.cfg.objectives))

    def build_objectives(self) -> dict[str, Objective]:
        """Build the objectives of the mix.

        Raises:
            UserError: the mix is empty, a name or a setting is unknown, or a weight is not above 0.
        """
        if self.cfg.mode not in MODES:
            raise UserError(f"mode={self.cfg.mode}", ", ".join(MODES))
        mix = json.loads(self.cfg.objectives)
        if not mix:
            raise UserError(
                "the mix holds no objective", "objectives.NAME.weight=1, for example objectives.mmlm"
            )
        self.weights = {name: weight_of(name, settings.get("weight", 1)) for name, settings in mix.items()}
        for name, settings in mix.items():
            if "langs" in settings:
                raise UserError(f"objectives.{name}.langs in a mix", "langs= for all of them")
        shared = {
            key: str(getattr(self.cfg, key))
            for key in ("data", "langs", "alpha", "tokens_per_sample", "seed")
        }
        self.schedules = {
            name: schedule_of(name, settings["schedule"])
            for name, settings in mix.items()
            if settings.get("schedule")
        }
        built = {}
        for name, settings in mix.items():
            own = {key: str(value) for key, value in settings.items() if key not in MIX_SETTINGS}
            settings_of = config.from_dict(OBJECTIVES[name].config, shared | own, f"objectives.{name}")
            if settings_of.data != self.cfg.data:
                check_vocabulary(vocab_digest(self.data), Path(settings_of.data), self.data)
            built[name] = OBJECTIVES[name](settings_of, self.dictionary, self.langs)
        return built

    def build_dataset(self, split: str) -> ObjectiveDataset:
        """Build the dataset of all objectives."""
        parts = {
            name: (entry.dataset(Path(entry.cfg.data), split), self.weights[name])
            for name, entry in self.objectives.items()
        }
        return MultiDataset(parts, self.cfg.mode, split)

    def losses(self, model: Any, sample: dict[str, Any]) -> dict[str, Loss]:
        """Compute the losses of the objectives that have a part in the batch."""
        return {name: self.objectives[name].loss(model, part) for name, part in sample["parts"].items()}

    def divide(self, sample: dict[str, Any], parts: list[dict[str, Any]]) -> None:
        """Store the counts of the whole batch and its total weight of 1.

        Halves hold uneven shares of the objectives.
        """
        whole = sample.get("whole") or {
            n: self.objectives[n].count(own) for n, own in sample["parts"].items()
        }
        for number, part in enumerate(parts):
            part["whole"], part["divisor"] = whole, 0 if number else sample.get("divisor", 1)

    def combine(self, losses: dict[str, Loss], sample: dict[str, Any]) -> tuple[Float[Tensor, ""], int]:
        """Combine losses, each divided by its count in the whole batch; with ``common`` return their sum.

        Summed losses are weighted; in alternation, the weight is the share of batches.
        """
        scale = dict.fromkeys(losses, 1.0) if self.cfg.mode == "alternate" else dict(self.weights)
        for name, (updates, factors) in self.schedules.items():
            scale[name] = scale.get(name, 1.0) * float(np.interp(self.num_updates, updates, factors))
        if self.cfg.mode == "common":
            sums = [loss.total * scale[name] for name, loss in losses.items()]
            return sum(sums[1:], sums[0]), sum(loss.num for loss in losses.values())
        whole = sample.get("whole", {})
        means = [
            loss.total * (scale[name] / max(whole.get(name, loss.num), 1)) for name, loss in losses.items()
        ]
        return sum(means[1:], means[0]), sample.get("divisor", 1)
