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

import copy
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.tasks import register_task
from torch import Tensor

from xling.array_types import Float, Int, Integer
from xling.core.settings import config, values
from xling.core.settings.values import OneOf, ranged
from xling.models.distributed import processes
from xling.objectives import OBJECTIVES, declared
from xling.objectives.base import Loss, Objective, ObjectiveDataset, XlingTask, for_fairseq
from xling.objectives.base_settings import TaskConfig
from xling.objectives.dataset import Stream

STRETCH = 1024  # batches of a mix that are put in order together


@for_fairseq
@dataclass
class MultiConfig(TaskConfig):
    """Settings of a mix.

    ``objectives`` is JSON: name -> settings. Of these ``weight`` (default 1) and ``schedule`` belong to the
    mix, the others to the objective. Settings of the mix such as ``alpha`` are the defaults of every
    objective. A schedule such as ``0:1,1000:0`` (XLM's notation) is a factor on the loss by update, linear
    between its points.
    """

    objectives: str = field(default="{}", metadata={"help": "JSON: objective -> settings"})
    mode: str = ranged("alternate", OneOf(("alternate", "sum", "common")))


@dataclass(frozen=True)
class Cursor:
    """Positions of the parts of a mix at the start of one of its epochs.

    Attributes:
        epochs: each part's own epoch.
        used: batches of that epoch that the mix has used.
        debts: batches that each part is behind its share.
        windows: the window of that epoch that is being read, see `Stream.window`; none at its start.
    """

    epochs: dict[str, int]
    used: dict[str, int]
    debts: list[float]
    windows: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Cursor:
        """Return the cursor of a state in a checkpoint."""
        return cls(state["epochs"], state["used"], state["debts"], state.get("places", {}))

    def state(self) -> dict[str, Any]:
        """Return the cursor as plain values for a checkpoint."""
        own = {"epochs": self.epochs, "used": self.used, "debts": self.debts, "places": self.windows}
        return copy.deepcopy(own)

    @classmethod
    def at_epoch(cls, epoch: int, names: list[str]) -> Cursor:
        """Return the cursor with all parts at the start of one epoch."""
        return cls(dict.fromkeys(names, epoch), dict.fromkeys(names, 0), [0.0] * len(names))

    def at_next_epoch(self, streams: dict[str, Stream]) -> Cursor:
        """Return the cursor with the parts that have no batch left at the start of their next epochs."""
        unread = {name: stream.has_next() for name, stream in streams.items()}
        return Cursor(
            {name: epoch + (not unread[name]) for name, epoch in self.epochs.items()},
            {name: self.used[name] if unread[name] else 0 for name in self.used},
            self.debts,
            {name: window for name, window in self.windows.items() if unread[name]},
        )


class MultiDataset(ObjectiveDataset):
    """Dataset of several objectives under one index, whose batches keep the objectives separate.

    Args:
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
        lengths = [len(part) for part, _ in self._parts.values()]
        self._offsets = np.concatenate([[0], np.cumsum(lengths)])

    def epoch_state(self, epoch: int) -> dict[str, Any]:
        """Return the state of every part at the start of ``epoch``, which is this epoch or the next."""
        cursor = self._begin if epoch == self.epoch else self._end
        assert cursor is not None, f"epoch {epoch} of the mix was not reached"
        return cursor.state()

    def restore_epoch(self, epoch: int, state: dict[str, Any]) -> None:
        """Begin an epoch of every part with the state that `epoch_state` returned."""
        self.epoch, self._begin, self._end = epoch, Cursor.from_state(state), None
        self.set_epoch(epoch)

    @property
    def sizes(self) -> Integer[np.ndarray, " examples"]:
        """Tokens of each example, the parts concatenated: a table, which training does without."""
        return np.concatenate([part.sizes for part, _ in self._parts.values()])

    def __len__(self) -> int:
        return int(self._offsets[-1])

    def size(self, index: int) -> int:
        """Return the tokens of one example, for filtering."""
        part = int(np.searchsorted(self._offsets, index, side="right")) - 1
        return list(self._parts.values())[part][0].size(index - int(self._offsets[part]))

    def __getitem__(self, index: int) -> Any:
        part = int(np.searchsorted(self._offsets, index, side="right")) - 1
        name = list(self._parts)[part]
        return name, self._parts[name][0][index - int(self._offsets[part])]

    def ordered_indices(self) -> Int[np.ndarray, " examples"]:
        """Return all indices; every part orders its own."""
        return np.arange(len(self))

    def windows(
        self, max_tokens: int | None, max_sentences: int | None = None, state: Any = None
    ) -> Iterator[tuple[Any, list[Int[np.ndarray, " _"]]]]:
        """Yield batches of the parts, interleaved or joined by weight; a state is a cursor as plain values."""
        cursor = Cursor.from_state(state) if state else self._begin
        self._shares, _ = self._planned(max_tokens, max_sentences)
        readers = {
            name: Stream(part, max_tokens, max_sentences, cursor.used[name], cursor.windows.get(name))
            for name, (part, _) in self._parts.items()
        }
        return self._mixed_windows(readers, cursor) if self._split == "train" else self._only_window(readers)

    def _only_window(self, readers: dict[str, Stream]) -> Iterator[tuple[Any, list[Int[np.ndarray, " _"]]]]:
        batches: list[Int[np.ndarray, " _"]] = []
        for number, reader in enumerate(readers.values()):
            while reader.has_next():
                batches.append(reader.take() + self._offsets[number])
            # Processes that share a sharded model must have batches of the same part at the same time.
            batches += [np.zeros(0, dtype=np.int64)] * (-len(batches) % processes.size())
        yield None, batches

    def _mixed_windows(
        self, readers: dict[str, Stream], cursor: Cursor
    ) -> Iterator[tuple[Any, list[Int[np.ndarray, " _"]]]]:
        offset = dict(zip(readers, self._offsets, strict=False))
        weights = np.array([weight for _, weight in self._parts.values()])
        turns = in_turn(readers, weights, cursor.debts) if self._mode == "alternate" else all_at_once(readers)
        ended = False
        while not ended:
            state, batches = cursor.state(), []
            for names, debts in itertools.islice(turns, STRETCH):
                batches.append(np.concatenate([readers[name].take() + offset[name] for name in names]))
                cursor = replace(cursor, debts=debts)
            used = {name: reader.used for name, reader in readers.items()}
            windows = {name: reader.window() for name, reader in readers.items()}
            cursor = replace(cursor, used=used, windows=windows)
            if ended := len(batches) < STRETCH:
                self._end = cursor.at_next_epoch(readers)
            yield state, batches

    def expected_batches(self, max_tokens: int | None, max_sentences: int | None = None) -> int:
        """Return the batches of the epoch of the mix, up to one for each part."""
        return self._planned(max_tokens, max_sentences)[1]

    def _planned(self, max_tokens: int | None, max_sentences: int | None) -> tuple[dict[str, float], int]:
        """Return which share of its own epoch each part gives to this epoch, and how many batches that makes."""
        there = {
            name: part.expected_batches(max_tokens, max_sentences) for name, (part, _) in self._parts.items()
        }
        unused = {name: num - self._begin.used[name] for name, num in there.items()}
        if self._split != "train":
            return dict.fromkeys(there, 1.0), sum(there.values())
        if self._mode != "alternate":
            number = min(unused.values())
            return {name: number / max(num, 1) for name, num in there.items()}, number
        whole = sum(weight for _, weight in self._parts.values())
        share = {name: weight / whole for name, (_, weight) in self._parts.items()}
        turns = min(unused[name] / share[name] for name in unused)
        return {name: turns * share[name] / max(num, 1) for name, num in there.items()}, round(turns)

    def epoch_tokens(self) -> int:
        """Return the tokens of all examples of the parts' epochs, or about that."""
        return sum(part.epoch_tokens() for part, _ in self._parts.values())

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


def in_turn(
    queues: Mapping[str, Stream], weights: Float[np.ndarray, " queues"], debts: Sequence[float] = ()
) -> Iterator[tuple[list[str], list[float]]]:
    """Yield whose batch is next, so that every stretch holds a share ``weights[i]`` of queue i.

    The order ends before the first turn of an exhausted queue. Whoever asks takes the batch before he asks again.

    Args:
        queues: batches by name.
        weights: above 0, (len(queues),).
        debts: number of batches that each queue is behind its share at the start; empty means 0.

    Yields:
        The name, alone in a list, and the debts after its batch.
    """
    names, shares = list(queues), weights / weights.sum()
    owed = np.array(debts or [0.0] * len(names))
    while True:
        turn = int(np.argmax(owed + shares))
        if not queues[names[turn]].has_next():
            return
        owed += shares
        owed[turn] -= 1
        yield [names[turn]], owed.tolist()


def all_at_once(queues: Mapping[str, Stream]) -> Iterator[tuple[list[str], list[float]]]:
    """Yield all names, whose batches are joined, as often as the shortest queue has one; nobody is behind."""
    while all(queue.has_next() for queue in queues.values()):
        yield list(queues), [0.0] * len(queues)


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
        values.check(self.cfg, "", MultiConfig)
        mix = json.loads(self.cfg.objectives)
        declared.of_mix(mix, self.data)
        self.weights = {
            name: declared.weight_of(name, settings.get("weight", 1)) for name, settings in mix.items()
        }
        shared = {
            key: str(getattr(self.cfg, key))
            for key in ("data", "langs", "alpha", "tokens_per_sample", "read_chunk", "read_buffer", "seed")
        }
        self.schedules = {
            name: values.parse_schedule(f"objectives.{name}.schedule", settings["schedule"])
            for name, settings in mix.items()
            if settings.get("schedule")
        }
        built = {}
        for name, settings in mix.items():
            own = {key: str(value) for key, value in settings.items() if key not in declared.MIX_SETTINGS}
            settings_of = config.from_dict(OBJECTIVES[name].config, shared | own, f"objectives.{name}")
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
        for name, factors in self.schedules.items():
            if name in scale:
                scale[name] *= factors.at(self.num_updates)
        if self.cfg.mode == "common":
            sums = [loss.total * scale[name] for name, loss in losses.items()]
            return sum(sums[1:], sums[0]), sum(loss.num for loss in losses.values())
        whole = sample.get("whole", {})
        means = [
            loss.total * (scale[name] / max(whole.get(name, loss.num), 1)) for name, loss in losses.items()
        ]
        return sum(means[1:], means[0]), sample.get("divisor", 1)
