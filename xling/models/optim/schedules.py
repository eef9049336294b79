"""Learning rate schedules by the number of updates, registered with fairseq as ``xling_schedule``.

Each depends only on the update, so that a resumed run has the rate that it would have had. Sources:
Loshchilov & Hutter 2017 (cosine); Vaswani et al. 2017 (inverse square root); Hu et al. 2024 (warm-up, stable,
decay); Hägele et al. 2024 (1 - sqrt).
"""

import math
from dataclasses import dataclass
from typing import Any

from fairseq.dataclass import FairseqDataclass
from fairseq.optim.lr_scheduler import FairseqLRScheduler, register_lr_scheduler
from omegaconf import II


@dataclass
class ScheduleConfig(FairseqDataclass):
    """Settings of the schedule.

    ``decay`` is the last share of ``updates``, in which ``wsd`` decays by ``shape`` to ``final`` of the peak.
    """

    name: str = "linear"
    warmup: int = 100
    updates: int = 1000
    decay: float = 0.2
    shape: str = "sqrt"
    final: float = 0.0
    lr: list[float] = II("optimization.lr")


def factor(cfg: Any, update: int) -> float:
    """Return the rate of the update after ``update`` others, as a share of the peak.

    A decay would reach its end with the update after the last.

    Example:
        >>> [round(factor(ScheduleConfig(name="wsd", warmup=2, updates=8, decay=0.5), n), 2) for n in
        range(9)]
        [0.5, 1.0, 1.0, 1.0, 0.55, 0.37, 0.23, 0.11, 0.0]
    """
    if update < cfg.warmup:
        return float((update + 1) / cfg.warmup)
    if cfg.name == "inverse_sqrt":
        return math.sqrt(max(cfg.warmup, 1) / (update + 1))
    begin = round(cfg.updates * (1 - cfg.decay)) if cfg.name == "wsd" else cfg.warmup
    gone = min(max((update + 1 - begin) / max(cfg.updates + 1 - begin, 1), 0.0), 1.0)
    if cfg.name == "cosine":
        remaining = (1 + math.cos(math.pi * gone)) / 2
    else:
        remaining = 1 - math.sqrt(gone) if (cfg.name, cfg.shape) == ("wsd", "sqrt") else 1 - gone
    return float(cfg.final + (1 - cfg.final) * remaining)


@register_lr_scheduler("xling_schedule", dataclass=ScheduleConfig)
class XlingSchedule(FairseqLRScheduler):  # type: ignore[misc]
    """Fairseq scheduler with the rate of `factor`; it has no state in a checkpoint."""

    def __init__(self, cfg: ScheduleConfig, optimizer: Any) -> None:
        super().__init__(cfg, optimizer)
        self.step_update(0)

    def step_update(self, num_updates: int) -> float:
        """Set the rate of the update after ``num_updates``."""
        self.optimizer.set_lr(self.cfg.lr[0] * factor(self.cfg, num_updates))
        rate: float = self.optimizer.get_lr()
        return rate
