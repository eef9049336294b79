"""The one criterion of all objectives, registered with fairseq as ``xling_objective``."""

from __future__ import annotations

import math
from typing import Any

from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor

from xling.objectives.base import by_language


@register_criterion("xling_objective", dataclass=FairseqDataclass)
class ObjectiveCriterion(FairseqCriterion):  # type: ignore[misc]
    """Ask the task's objective for its loss and log it by language."""

    def forward(self, model: Any, sample: dict[str, Any]) -> tuple[Tensor, int, dict[str, float]]:
        """The loss sum, how many losses it sums, and what to log."""
        loss = self.task.objective.loss(model, sample)
        logs = {
            "loss": float(loss.total.detach()),
            "sample_size": loss.num,
            "ntokens": sample["ntokens"],
            "nsentences": sample["nsentences"],
            **by_language([loss], self.task.langs),
        }
        return loss.total, loss.num, logs

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict[str, float]]) -> None:
        """Log mean loss in nats and perplexity, over all and by language."""
        keys = {key for output in logging_outputs for key in output}
        sums = {key: sum(output.get(key, 0.0) for output in logging_outputs) for key in keys}
        count = sums.get("sample_size", 0.0)
        metrics.log_scalar("loss", sums.get("loss", 0.0) / max(count, 1), count, round=4)
        metrics.log_derived("ppl", lambda meters: math.exp(min(meters["loss"].avg, 50)))
        for key in sorted(keys):
            if key.startswith("loss_"):
                counted = sums[f"count_{key[5:]}"]
                metrics.log_scalar(key, sums[key] / max(counted, 1), counted, round=4)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Languages differ from batch to batch, so fairseq must gather the dictionaries."""
        return False
