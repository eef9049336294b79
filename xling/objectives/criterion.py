"""The one criterion of all objectives, registered with fairseq as ``xling_objective``."""

from __future__ import annotations

import math
import operator
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor

from xling.objectives.base import Loss

if TYPE_CHECKING:
    from jaxtyping import Float


@register_criterion("xling_objective", dataclass=FairseqDataclass)
class ObjectiveCriterion(FairseqCriterion):  # type: ignore[misc]
    """Ask the task's objectives for their losses and log them by objective and language.

    Attributes:
        around: calls what it is given; where the model is sharded, while its weights are whole.
    """

    def __init__(self, task: Any) -> None:
        super().__init__(task)
        self.around: Callable[..., Any] = operator.call

    def forward(self, model: Any, sample: dict[str, Any]) -> tuple[Float[Tensor, ""], int, dict[str, float]]:
        """The loss sum, how many losses it sums, and what to log."""
        found: tuple[Tensor, int, dict[str, float]] = self.around(self._of_batch, model, sample)
        return found

    def _of_batch(self, model: Any, sample: dict[str, Any]) -> tuple[Tensor, int, dict[str, float]]:
        losses = self.task.losses(model, sample)
        total, divisor = self.task.combine(losses, sample)
        logs = {
            "sample_size": divisor,
            "ntokens": sample["ntokens"],
            "nsentences": sample["nsentences"],
            **by_language(losses, self.task.langs),
        }
        return total, divisor, logs

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict[str, float]]) -> None:
        """Log mean losses in nats: ``loss`` over all, ``loss/<objective>`` and ``loss/<objective>/<lang>``."""
        sums: dict[str, float] = defaultdict(float)
        for output in logging_outputs:
            for key, value in output.items():
                head, _, rest = key.partition("/")
                if head in ("loss", "count"):
                    for name in (head, f"{head}/{rest.partition('/')[0]}", key):
                        sums[name] += value
        for key in sorted(sums):
            if key.startswith("loss"):
                num = sums["count" + key[4:]]
                metrics.log_scalar(key, sums[key] / num, num, round=4)
        metrics.log_derived("ppl", lambda meters: math.exp(min(meters["loss"].avg, 50)))

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Languages differ from batch to batch, so fairseq must gather the dictionaries."""
        return False


def by_language(losses: Mapping[str, Loss], langs: list[str]) -> dict[str, float]:
    """Sums and counts by objective and language: ``loss/<objective>/<lang>``, ``count/<objective>/<lang>``."""
    logs: dict[str, float] = {}
    for name, loss in losses.items():
        sums = torch.zeros(len(langs)).index_add_(0, loss.langs.cpu(), loss.rows.cpu().float())
        counts = torch.bincount(loss.langs.cpu(), minlength=len(langs))
        for index in torch.nonzero(counts).flatten().tolist():
            logs[f"loss/{name}/{langs[index]}"] = float(sums[index])
            logs[f"count/{name}/{langs[index]}"] = float(counts[index])
    return logs
