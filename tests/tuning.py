"""Fine-tuning of one task, as most tests want it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xling.transfer import tune


def fine_tune(
    ckpt: Path,
    task: str,
    labels: Sequence[str],
    train: Sequence[tune.LabelledRow],
    cfg: tune.TuneConfig,
    lang: str = "en",
    **more: Any,
) -> list[tune.TunedModel]:
    """One model per epoch, the last epoch last; see `tune.fine_tune_jointly`."""
    tasks = [tune.TaskRows(task, labels, train)]
    return [tuned for (tuned,) in tune.fine_tune_jointly(ckpt, tasks, cfg, lang=lang, **more)]
