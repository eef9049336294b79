"""R3F (Aghajanyan et al. 2021, equation 6): predictions stay the same under noise on the word vectors.

The symmetric divergence between the predictions with and without noise is added; its weight in the paper is 0.1 to 5.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from xling.array_types import Float
from xling.transfer.heads import TaskModel
from xling.transfer.strategy import STRATEGIES, Strategy
from xling.transfer.task import Task

NOISE = 1e-5


class R3F(Strategy):
    """Noise on the word vectors."""

    name = "r3f"

    def added_loss(
        self,
        model: TaskModel,
        sample: dict[str, Any],
        logits: Float[Tensor, "chosen labels"],
        predicted: Float[Tensor, "chosen labels"],
    ) -> Float[Tensor, ""] | None:
        """Return the mean divergence of a distribution."""
        noisy = model.log_probabilities(sample, noise=NOISE)
        return (
            self.strength * symmetric_kl(predicted, noisy) / num_distributions(sample, predicted, model.task)
        )


def symmetric_kl(
    log_p: Float[Tensor, "rows classes"], log_q: Float[Tensor, "rows classes"]
) -> Float[Tensor, ""]:
    """Sum the divergences in both directions over all distributions of log-probabilities."""
    return F.kl_div(log_p, log_q, log_target=True, reduction="sum") + F.kl_div(
        log_q, log_p, log_target=True, reduction="sum"
    )


def num_distributions(
    sample: dict[str, Any], log_probabilities: Float[Tensor, "rows classes"], task: Task
) -> int:
    """Count the distributions in log-probabilities (M, K): one per chosen token, or per column and group."""
    if not task.pointers:
        return len(log_probabilities)
    return len(sample["id"].unique()) * log_probabilities.shape[1]


STRATEGIES.add(R3F.name, R3F)
