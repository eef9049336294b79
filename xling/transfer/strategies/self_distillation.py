"""Self-distillation (Xu et al. 2020, BERT-SDA): the model of the last updates is its own teacher.

The teacher has the mean of the weights before each of the last K updates, K being ``fit.teacher_steps``. The mean
squared distance of the logits, times ``fit.strength``, is added to the loss. The paper takes K from 1 to 5 and weights
around 1. The first update has no teacher.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xling.array_types import Float
from xling.transfer.heads import TaskModel
from xling.transfer.strategy import STRATEGIES, Start, Strategy


class SelfDistillation(Strategy):
    """A teacher that is the mean of the last models."""

    name = "self_distillation"

    def __init__(self, start: Start) -> None:
        super().__init__(start)
        self._students = nn.ModuleList(start.models)
        self._learned = [p for p in self._students.parameters() if p.requires_grad]
        memo = {
            id(p): p for p in self._students.parameters() if not p.requires_grad
        }  # shared with the teacher
        self._teachers = copy.deepcopy(self._students, memo)
        teachers = dict(self._teachers.named_parameters())
        self._taught = [teachers[name] for name, p in self._students.named_parameters() if p.requires_grad]
        for weight in self._taught:
            weight.requires_grad_(False)
        self._past: deque[list[Tensor]] = deque(maxlen=start.cfg.teacher_steps)

    def added_loss(
        self,
        model: TaskModel,
        sample: dict[str, Any],
        logits: Float[Tensor, "chosen labels"],
        predicted: Float[Tensor, "chosen labels"],
    ) -> Float[Tensor, ""] | None:
        """Return the weighted mean squared distance of the logits to the teacher's."""
        if not self._past:
            return None
        with torch.no_grad():
            for weight, values in zip(self._taught, zip(*self._past, strict=True), strict=True):
                weight.copy_(torch.stack([value.float() for value in values]).mean(0))
            teacher = self._teachers[list(self._students).index(model)]
            wanted = teacher.eval()(sample)
        return self.strength * F.mse_loss(logits.float(), wanted.float())

    def before_step(self) -> None:
        """Keep the weights for the teacher of the next updates."""
        self._past.append([weight.detach().clone() for weight in self._learned])

    def state(self) -> dict[str, Any]:
        """Return the weights of the last models."""
        return {"past": list(self._past)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with the weights of the last models."""
        self._past.clear()
        self._past.extend(state["past"])


STRATEGIES.add(SelfDistillation.name, SelfDistillation)
