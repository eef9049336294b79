"""Base of all objectives: registry, fairseq task ``xling_NAME``, training step, and the criterion that they share."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields, make_dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import torch
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.data import Dictionary
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask, register_task
from omegaconf import II
from torch import Tensor, nn

from xling import compat
from xling.array_types import Float, Float64, Int
from xling.core.sampling import rng
from xling.core.settings import unused, values
from xling.data.symbols import Symbols
from xling.objectives import OBJECTIVES as OBJECTIVES
from xling.objectives import settings as settings  # declares those of this package
from xling.objectives.base_settings import CHUNKS, SETTINGS, declare
from xling.objectives.base_settings import TaskConfig as TaskConfig
from xling.objectives.contract_facts import Trial
from xling.objectives.dataset import ObjectiveDataset as ObjectiveDataset
from xling.objectives.dataset import collate_or_empty
from xling.objectives.stock import StockCommands
from xling.text.files import shards

T = TypeVar("T", bound=TaskConfig)
BOS, PAD, EOS, UNK, FIRST_PIECE = range(5)
STAND_IN = -1
_COMMANDS = "of fairseq-generate and fairseq-interactive"

compat.install()


def seed_generators(seed: int) -> None:
    """Seed torch's generators; without a GPU the one of the processor alone.

    `torch.manual_seed` asks four kinds of devices and notes the whole stack for each: a millisecond in every update.
    """
    if torch.cuda.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


class Loss(NamedTuple):
    """Sum of the losses of a batch, and what it is divided by.

    Attributes:
        total: differentiable sum of losses, float32 scalar, nats.
        num: number of losses summed.
        rows: each loss, float32 (count,), detached.
        langs: language index of each loss, int64 (count,).
    """

    total: Float[Tensor, ""]
    num: int
    rows: Float[Tensor, " losses"]
    langs: Int[Tensor, " losses"]


class Objective(ABC):
    """Base class of objectives: the examples and the loss that a model is trained with.

    Args:
        cfg: its configuration.
        dictionary: fairseq dictionary with ``<mask>`` last.
        langs: all languages of the model; an example's ``lang`` is an index into them.

    Attributes:
        settings: those of ``cfg``, as they are declared.
        shape: the model's configuration, once there is a model.
        batch_index: index of the batch among those of the update in all processes, `STAND_IN` for a stand-in.
    """

    name: str
    shape: Any = None
    batch_index: int = 0
    config: type[TaskConfig] = TaskConfig
    decoder: ClassVar[bool] = False
    shardable: ClassVar[bool] = True
    trial: ClassVar[Trial] = Trial()
    settings: TaskConfig

    def __init__(self, cfg: Any, dictionary: Dictionary, langs: list[str]) -> None:
        """Initialise.

        Raises:
            UserError: a setting is out of its range, or as `TaskConfig.check_data`.
        """
        self.cfg, self.dictionary, self.langs = cfg, dictionary, langs
        declared = SETTINGS[self.name]
        self.settings = declared(
            **{item.name: getattr(cfg, item.name) for item in fields(declared) if item.init}
        )
        values.check(self.settings, f"objectives.{self.name}.")
        unused.check_conditions((CHUNKS, *declared.conditions), self.settings, f"with objectives.{self.name}")
        self.settings.check_data(langs)

    def fit(self, shape: Any) -> None:
        """Store the model's configuration.

        Raises:
            UserError: as `TaskConfig.check_model`.
        """
        self.settings.check_model(self.langs, shape)
        self.shape = shape

    @abstractmethod
    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Return the examples of a split."""

    @abstractmethod
    def loss(self, model: Any, sample: dict[str, Any]) -> Loss:
        """Compute the loss of a packed batch."""

    def count(self, sample: dict[str, Any]) -> int:
        """Count the losses that `loss` will sum for a batch."""
        return len(sample["target_langs"])

    def modules(self, model: Any) -> nn.Module | None:
        """Create the objective's parameters and state, kept as ``model.extras[name]``; may be None."""
        return None

    def units(self, model: Any) -> list[nn.Module]:
        """Return the modules of `modules` that gather their weights while they compute, if the model is sharded.

        A module follows those within it. All others are gathered during a whole loss, like those of the model.
        """
        return []

    def before_first_update(self, model: Any, batch_tokens: int) -> None:  # noqa: B027 - one objective has a queue to fill
        """Prepare in every process before a run's first update; ``batch_tokens`` is a batch's size."""

    def after_update(self, model: Any) -> None:  # noqa: B027 - most objectives have nothing to do then
        """Update state after every optimiser step, for example a momentum encoder or a queue."""

    def before_save(self, model: Any) -> None:  # noqa: B027 - one objective keeps what others must save
        """Collect state of all processes in every process before the first process writes a checkpoint."""

    def forget_update(self, model: Any) -> None:  # noqa: B027 - one objective leaves something behind
        """Discard what the forward passes of a skipped update left for `after_update`."""


class XlingTask(StockCommands, FairseqTask):  # type: ignore[misc]
    """A fairseq task that trains one objective.

    Attributes:
        objectives: the objectives by name; one here, several in `xling.objectives.multi`.
        num_updates: number of updates completed.
    """

    objective_class: type[Objective]

    def __init__(self, cfg: Any) -> None:
        super().__init__(cfg)
        self.num_updates = 0
        self.data = Path(cfg.data)
        self.dictionary = load_dictionary(self.data)
        decoder = any(OBJECTIVES[name].decoder for name in self.objective_names())
        self.langs = shards.select_langs(cfg.langs, self.data, decoder)
        if decoder:
            for symbol in Symbols(len(self.dictionary) - 1, tuple(self.langs)).names():
                self.dictionary.add_symbol(symbol)
        self.objectives = self.build_objectives()

    def get_batch_iterator(self, *args: Any, **settings: Any) -> Any:
        """Return fairseq's iterator; a process with one batch less than others gets an empty batch at the end."""
        iterator = super().get_batch_iterator(*args, **settings)
        iterator.collate_fn = partial(collate_or_empty, iterator.collate_fn)
        return iterator

    def objective_names(self) -> list[str]:
        """Return the names of the task's objectives."""
        return [self.objective_class.name]

    def build_objectives(self) -> dict[str, Objective]:
        """Build the objectives of this task."""
        objective_class = self.objective_class
        return {objective_class.name: objective_class(self.cfg, self.dictionary, self.langs)}

    def build_dataset(self, split: str) -> ObjectiveDataset:
        """Build the dataset of a split."""
        (only,) = self.objectives.values()
        return only.dataset(self.data, split)

    def losses(self, model: Any, sample: dict[str, Any]) -> dict[str, Loss]:
        """Compute the loss of each objective on a batch."""
        ((name, only),) = self.objectives.items()
        return {name: only.loss(model, sample)}

    def combine(self, losses: dict[str, Loss], sample: dict[str, Any]) -> tuple[Float[Tensor, ""], int]:
        """Return the loss to differentiate and the divisor of the gradient."""
        (only,) = losses.values()
        return only.total, only.num

    def divide(self, sample: dict[str, Any], parts: list[dict[str, Any]]) -> None:
        """Store in the parts of a split batch the information about the whole batch that `combine` needs."""

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Build the model, including the objectives' own modules."""
        model = super().build_model(cfg, from_checkpoint)
        self.attach(model)
        if (
            from_checkpoint and self.cfg.source_lang
        ):  # a checkpoint of any objective with a decoder translates
            model.extras.clear()
            model.register_load_state_dict_pre_hook(_leave_out_extras)
        return model

    def attach(self, model: Any) -> None:
        """Tell the objectives the model's shape, and add their modules, initialised from its current weights."""
        for name, entry in self.objectives.items():
            entry.fit(model.cfg)
            if (extra := entry.modules(model)) is not None:
                model.extras[name] = extra

    def optimizer_step(self, optimizer: Any, model: Any, update_num: int) -> None:
        """Make one optimiser step and call the objectives' `after_update`."""
        optimizer.step()
        for entry in self.objectives.values():
            entry.after_update(model)

    @classmethod
    def setup_task(cls, cfg: Any, **kwargs: Any) -> XlingTask:
        """Build the task from its configuration."""
        return cls(cfg)

    @property
    def source_dictionary(self) -> Dictionary:
        """Dictionary of the tokens; source and target share it."""
        return self.dictionary

    @property
    def target_dictionary(self) -> Dictionary:
        """Dictionary of the tokens; source and target share it."""
        return self.dictionary

    def max_positions(self) -> int:
        """Return the longest example of any objective, in tokens."""
        return max(int(entry.cfg.tokens_per_sample) for entry in self.objectives.values())

    def train_step(
        self,
        sample: Any,
        model: Any,
        criterion: Any,
        optimizer: Any,
        update_num: int,
        ignore_grad: bool = False,
    ) -> tuple[Float[Tensor, ""], int, dict[str, Any]]:
        """Run forward and backward on one batch.

        A batch draws the same dropout in whichever process it is. One with ``ignore_grad`` stands for an empty
        one and counts as nothing.
        """
        model.train()
        self.num_updates = update_num
        model.set_num_updates(update_num)
        index = STAND_IN if ignore_grad else sample.get("batch_index")
        if index == 0:
            seed_generators(self.cfg.seed + update_num)  # as fairseq seeds an update
        elif index and index > 0:
            seed_generators(int(rng(self.cfg.seed, "draws of a batch", update_num, index).integers(1 << 62)))
        for entry in self.objectives.values():
            entry.batch_index = index or 0
        total, num_losses, logs = criterion(model, sample)
        if ignore_grad:
            total, num_losses = total * 0, num_losses * 0
            logs = {name: value * 0 for name, value in logs.items()}
        average = getattr(optimizer, "average", None)  # only our own has one
        if average is not None:
            average.last = not getattr(model, "accumulate_grads", False)
        optimizer.backward(total)
        if average is not None and average.last:
            average.send_rest()
        return total, num_losses, logs

    def reduce_metrics(self, logging_outputs: list[dict[str, Any]], criterion: Any) -> None:
        """Log losses by objective and language; the criterion's class, which fairseq asks, cannot."""
        super().reduce_metrics(logging_outputs, criterion)
        criterion.log(logging_outputs)

    def load_dataset(self, split: str, **kwargs: Any) -> None:
        """Open the shards of a split; a dataset that is already open is kept, since the iterator sets its epoch."""
        if split not in self.datasets:
            asked = self.cfg.source_lang or self.cfg.target_lang  # by fairseq-generate
            self.datasets[split] = self.dataset_of_direction(split) if asked else self.build_dataset(split)


def _leave_out_extras(_model: Any, state: dict[str, Any], *_: Any) -> None:
    for key in [key for key in state if key.startswith("extras.")]:
        del state[key]


def load_dictionary(data: Path) -> Dictionary:
    """Load the dictionary of a binarised directory and append ``<mask>``."""
    dictionary = Dictionary.load(str(shards.check_dictionary(data)))
    dictionary.add_symbol("<mask>")
    return dictionary


def objective(name: str) -> Callable[[type[Objective]], type[Objective]]:
    """Register an objective as ``name`` and its fairseq task as ``xling_<name>``.

    Its settings and facts are those declared under the name. Where there are none, the class has them: ``config``,
    ``decoder``, ``shardable``.
    """

    def decorate(cls: type[Objective]) -> type[Objective]:
        OBJECTIVES.add(name, cls)
        cls.name = name
        if name not in SETTINGS:
            declare(name)(_settings_of(cls))
        declared = SETTINGS[name]
        cls.decoder, cls.shardable = declared.decoder, declared.shardable
        cls.config = for_fairseq(declared)
        # By these a process unpickles it.
        cls.config.__module__, cls.config.__qualname__ = cls.__module__, f"{cls.__qualname__}.config"
        task = type(
            f"Xling{cls.__name__}Task", (XlingTask,), {"objective_class": cls, "__doc__": cls.__doc__}
        )
        compat.check_new("task", f"xling_{name}")
        register_task(f"xling_{name}", dataclass=cls.config)(task)
        return cls

    return decorate


def _settings_of(cls: type[Objective]) -> type[TaskConfig]:
    facts = {
        "decoder": cls.decoder or cls.config.decoder,
        "shardable": cls.shardable and cls.config.shardable,
        "has_weights": cls.modules is not Objective.modules,
        "__doc__": cls.config.__doc__,
    }
    return type(cls.config.__name__, (cls.config,), facts)


def for_fairseq(declared: type[T]) -> type[T]:
    """Derive fairseq's dataclass from settings; it takes every class variable for an option, so these are hidden."""
    bases = (declared,) if issubclass(declared, FairseqDataclass) else (declared, FairseqDataclass)
    source = field(
        default="", metadata={"help": f"language to translate, {_COMMANDS}", "argparse_alias": "-s"}
    )
    target = field(
        default="", metadata={"help": f"language to translate into, {_COMMANDS}", "argparse_alias": "-t"}
    )
    seed = field(default=II("common.seed"))
    more = [("seed", int, seed), ("source_lang", str, source), ("target_lang", str, target)]
    names = {"__module__": declared.__module__, "__doc__": declared.__doc__}
    derived: Any = make_dataclass(declared.__name__, more, bases=bases, namespace=names)
    derived.__dataclass_fields__ = {item.name: item for item in fields(derived)}
    result: type[T] = derived
    return result


@register_criterion("xling_objective", dataclass=FairseqDataclass)
class ObjectiveCriterion(FairseqCriterion):  # type: ignore[misc]
    """Fairseq criterion that asks the task's objectives for their losses and logs them by objective and language.

    Attributes:
        around: wrapper that runs a function; for a sharded model it keeps the root weights gathered
            meanwhile.
    """

    def __init__(self, task: Any) -> None:
        super().__init__(task)
        self.around: Callable[..., Any] = operator.call

    def forward(self, model: Any, sample: dict[str, Any]) -> tuple[Float[Tensor, ""], int, dict[str, Any]]:
        """Return the loss sum, the number of losses it sums, and the values to log: see `by_language`."""
        result: tuple[Tensor, int, dict[str, Any]] = self.around(self._of_batch, model, sample)
        return result

    def _of_batch(self, model: Any, sample: dict[str, Any]) -> tuple[Tensor, int, dict[str, Any]]:
        losses = self.task.losses(model, sample)
        total, divisor = self.task.combine(losses, sample)
        logs = {
            "sample_size": divisor,
            "ntokens": sample["ntokens"],
            "nsentences": sample["nsentences"],
            "losses": by_language(losses, list(self.task.objectives), len(self.task.langs)),
        }
        return total, divisor, logs

    def log(self, logging_outputs: Sequence[Mapping[str, Any]]) -> None:
        """Log mean losses in nats: ``loss`` over all, ``loss/<objective>`` and ``loss/<objective>/<lang>``."""
        if not logging_outputs:
            return
        sums, counts = torch.stack([output["losses"] for output in logging_outputs]).sum(0).cpu()
        sums_and_counts = {"loss": (sums.sum(), counts.sum())}
        for row, name in enumerate(self.task.objectives):
            sums_and_counts[f"loss/{name}"] = sums[row].sum(), counts[row].sum()
            for column, lang in enumerate(self.task.langs):
                sums_and_counts[f"loss/{name}/{lang}"] = sums[row, column], counts[row, column]
        for key in sorted(sums_and_counts):
            total, num = map(float, sums_and_counts[key])
            if num:
                metrics.log_scalar(key, total / num, num, round=4)
        metrics.log_derived("ppl", lambda meters: math.exp(min(meters["loss"].avg, 50)))

    @staticmethod
    def reduce_metrics(logging_outputs: list[dict[str, Any]]) -> None:
        """Do nothing: the task calls `log`."""

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """True: every output has the same keys, and tensors of the same shape.

        Otherwise fairseq would pickle a dictionary for every batch of an update and fail above 16,384 bytes.
        """
        return True


def by_language(
    losses: Mapping[str, Loss], names: Sequence[str], num_langs: int
) -> Float64[Tensor, "2 objectives {num_langs}"]:
    """Return sums and counts of losses by objective and language, float64 (2, num_objectives, num_langs), on device."""
    device = next(iter(losses.values())).rows.device
    totals = torch.zeros(2, len(names), num_langs, dtype=torch.float64, device=device)
    for row, name in enumerate(names):
        if name in losses:
            loss = losses[name]
            langs, rows = loss.langs.to(device), loss.rows.to(device).double()
            totals[0, row].index_add_(0, langs, rows)
            totals[1, row].index_add_(0, langs, torch.ones_like(rows))
    return totals
