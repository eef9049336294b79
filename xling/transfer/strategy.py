"""Interface of ways of fine-tuning, ``fit.method``: what they add to the loss of the labels and to its gradients.

Which weights learn, when and at which rate is decided by `xling.transfer.regime`, with any of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from xling.array_types import Float
from xling.core.registry import Registry
from xling.transfer.heads import TaskModel
from xling.transfer.settings import TuneConfig


@dataclass(frozen=True)
class Start:
    """Models and settings at the start of a fine-tuning.

    Attributes:
        ckpt: directory of the model to start from.
        lang: language of the rows.
        cfg: checked settings.
        models: the models before the first update, over one encoder.
        masters: name of a trained weight of the encoder -> the float32 weight that the optimiser updates.
    """

    ckpt: Path
    lang: str
    cfg: TuneConfig
    models: Sequence[TaskModel]
    masters: Mapping[str, Float[Tensor, "..."]]


class Strategy:
    """A way of fine-tuning, one instance for a training; this one adds nothing.

    Args:
        start: what the training begins with.
    """

    name: ClassVar[str] = "plain"

    def __init__(self, start: Start) -> None:
        self.start, self.strength = start, start.cfg.strength

    def added_loss(
        self,
        model: TaskModel,
        sample: dict[str, Any],
        logits: Float[Tensor, "chosen labels"],
        predicted: Float[Tensor, "chosen labels"],
    ) -> Float[Tensor, ""] | None:
        """Return what is added to the loss of a batch, from its logits and log-probabilities; None for nothing."""
        return None

    def add_gradients(self) -> None:
        """Add to the clipped gradients of the masters."""

    def before_step(self) -> None:
        """Look at the weights before they are updated."""

    def state(self) -> dict[str, Any]:
        """Return what a resumed run needs: tensors and plain values."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`."""


STRATEGIES: Registry[type[Strategy]] = Registry("way of fine-tuning", "xling.transfer.strategies")
