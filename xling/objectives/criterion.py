"""The fairseq criterion shared by all objectives, registered as ``xling_objective``."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor

from xling.objectives.base import Loss

if TYPE_CHECKING:
    from jaxtyping import Float, Float64


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
