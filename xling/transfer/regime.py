"""Fine-tuning regimes: which weights learn, from when on, and at which rate.

- Gradual unfreezing (Howard & Ruder 2018, ULMFiT, section 3.3): the head learns first, then the layers join
  from the top, the embeddings last.
- Layer-wise learning rates (the same, section 3.2; here as in ELECTRA, Clark et al. 2020, appendix B): the
  rate of a part is ``layer_decay`` times that of the part above it.
- A task adapter (MAD-X, Pfeiffer et al. 2020): it learns with the head, everything else is frozen.

The parts of a model with L layers are numbered from the bottom: 0 the embeddings and related weights, 1 to L
the layers, L + 1 the head.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from xling.core.errors import UserError
from xling.models import parts
from xling.models.network import adapters
from xling.models.network.encoder import Encoder
from xling.models.optim.adamw import AdamWConfig, Share, XlingAdamW
from xling.transfer.heads import TaskModel
from xling.transfer.settings import LAST, TuneConfig

_LAYER = re.compile(r"encoder\.layers\.(\d+)\.")


def check_no_layer_settings(cfg: TuneConfig, ckpt: object) -> None:
    """Reject settings that need access to the layers of a model computed by transformers.

    Raises:
        UserError: one of these settings is not at its default.
    """
    defaults = TuneConfig()
    for name in ("adversary", "layer_decay", "unfreeze_epochs", "task_adapter", "freeze_layers"):
        if (value := getattr(cfg, name)) != getattr(defaults, name):
            raise UserError(
                f"fit.{name}={value} with {ckpt}, which is computed by transformers",
                f"{getattr(defaults, name)}",
                "leave it out",
            )


def check_head(cfg: TuneConfig, model: TaskModel) -> None:
    """Refuse settings that the head of a model cannot follow.

    Raises:
        UserError: one of them.
    """
    for name in ("layer_decay", "unfreeze_epochs", "freeze_layers"):
        value, default = getattr(cfg, name), getattr(TuneConfig(), name)
        if value != default and parts.value(model.encoder.cfg, "share_layers"):
            raise UserError(
                f"fit.{name}={value} with a model of model.share_layers=true", f"{default}", "leave it out"
            )
    if cfg.task_adapter and model.features == "align":
        raise UserError(
            "fit.task_adapter with fit.pair_features=align, which reads no layer",
            "fit.pair_features=cls or match",
        )
    if cfg.layers != LAST and model.features == "align":
        raise UserError(
            f"fit.layers={cfg.layers} with fit.pair_features=align, which reads no layer",
            "fit.pair_features=cls or match",
        )
    if cfg.layers.isdigit() and int(cfg.layers) > (depth := len(model.encoder.layers)):
        raise UserError(f"fit.layers={cfg.layers}", f"at most {depth}, the layers of the model")
    if cfg.label_smoothing and model.task.pointers:
        raise UserError(
            f"fit.label_smoothing={cfg.label_smoothing} for {model.task.name}, whose answers are places",
            "fit.label_smoothing=0",
        )


def freeze_lowest(model: TaskModel, num: int) -> None:
    """Freeze the embeddings and the lowest ``num`` layers of a model; 0 freezes nothing.

    Raises:
        UserError: it has fewer layers.
    """
    depth = len(model.encoder.layers)
    if num > depth:
        raise UserError(f"fit.freeze_layers={num}", f"at most {depth}, the layers of the model")
    for name, parameter in model.named_parameters() if num else ():
        if part_number(name, depth) <= num and not name.startswith("encoder.final_norm."):
            parameter.requires_grad_(False)


def add_task_adapter(encoder: Encoder, width: int) -> Encoder:
    """Add a fresh task adapter to every layer of an encoder and freeze the rest; width 0 adds none.

    Raises:
        UserError: it already has one.
    """
    if width:
        if encoder.cfg.task_adapter:
            raise UserError(
                "the checkpoint has a task adapter already",
                "a pre-trained checkpoint",
                "leave fit.task_adapter out, or give the checkpoint that this one was fine-tuned from",
            )
        encoder.cfg = replace(encoder.cfg, task_adapter=width)
        encoder.requires_grad_(False)
        adapters.add_adapter(encoder, adapters.TASK_ADAPTER, width)
    return encoder


def part_number(name: str, num_layers: int) -> int:
    """Return the part number of a parameter of a `TaskModel`, by its name."""
    if match := _LAYER.match(name):
        return int(match[1]) + 1
    if name.startswith("encoder.final_norm."):
        return num_layers
    return 0 if name.startswith("encoder.") else num_layers + 1


def lowest_trained_part(epochs: float, unfreeze_epochs: float, num_layers: int) -> int:
    """Return the lowest part that learns after ``epochs``; all do after ``unfreeze_epochs``, joining evenly."""
    if epochs >= unfreeze_epochs:
        return 0
    return num_layers + 1 - int(epochs / unfreeze_epochs * (num_layers + 1))


class TuningOptimizer:
    """The optimiser of a fine-tuning, with the regime's changes to weights and gradients around each step.

    Args:
        models: the trained model, or several over one encoder; parameters without requires_grad stay frozen.
        cfg: checked settings.

    Attributes:
        adversary: the `xling.transfer.adversary.Adversary` beside the task, if there is one.
    """

    adversary: Any = None

    def __init__(self, models: TaskModel | Sequence[TaskModel], cfg: TuneConfig) -> None:
        models = [models] if isinstance(models, TaskModel) else models
        self._cfg, self._num_layers = cfg, len(models[0].encoder.layers)
        names = {p: name for model in models for name, p in model.named_parameters() if p.requires_grad}
        trained = [(name, p) for p, name in names.items()]
        self._part_of_parameter = [part_number(name, self._num_layers) for name, _ in trained]
        self._trained_parameters: list[nn.Parameter] = [p for _, p in trained]
        lr_shares = [
            Share(cfg.layer_decay ** (self._num_layers + 1 - part)) for part in self._part_of_parameter
        ]
        settings = AdamWConfig(lr=[cfg.lr], weight_decay=cfg.weight_decay)
        self.optimizer = XlingAdamW(settings, self._trained_parameters, lr_shares)
        self.encoder_masters = {
            name: master
            for (name, _), master in zip(trained, self.optimizer.masters, strict=True)
            if name.startswith("encoder.")
        }

    def unfreeze(self, epochs: float) -> None:
        """Unfreeze the parts due after a (possibly fractional) number of ``epochs``."""
        lowest = lowest_trained_part(epochs, self._cfg.unfreeze_epochs, self._num_layers)
        for part, parameter in zip(self._part_of_parameter, self._trained_parameters, strict=True):
            parameter.requires_grad_(part >= lowest)
