"""``xling finetune``: one model on a suite's training rows, to keep and to score with ``xling eval``."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from eval.backend import FitConfig
from eval.metrics import METRICS, evaluate
from eval.protocols import capped, hold_out, select, source_rows, training_suite
from eval.suite import data_folder, suites
from xling.core import manifest

STAGE = "finetune"


@dataclass(frozen=True)
class FinetuneConfig:
    """Settings of ``xling finetune``.

    Attributes:
        suite: whose training rows, kind and labels.
        checkpoint: directory of ``xling pretrain``.
        out: directory to publish: ``task.pt`` and the vocabulary.
        data: folder of the suites' files; default: what XLING_DATA names.
        source: language of the training rows.
        train_rows: train on so many rows, drawn once; 0 for all.
        select: which epoch is kept, by the rows of the source language.
        fit: settings of fine-tuning.
    """

    suite: str
    checkpoint: Path
    out: Path
    data: Path | None = None
    source: str = "en"
    train_rows: int = 0
    select: Literal["source-dev", "last", "averaged"] = "source-dev"
    fit: FitConfig = field(default_factory=FitConfig)


def run(cfg: FinetuneConfig) -> manifest.Manifest:
    """Fine-tune, choose the epoch and publish the model.

    Raises:
        UserError: an unknown suite or language, rows or the checkpoint are missing.
    """
    from xling.models import checkpoint
    from xling.transfer import tune
    from xling.transfer.backend import EncoderBackend

    data, suite = data_folder(cfg.data), suites()[cfg.suite]
    settings = replace(cfg, out=Path())
    inputs = [cfg.checkpoint]
    if done := manifest.up_to_date(cfg.out, STAGE, settings, inputs):
        return done
    system, home = EncoderBackend(cfg.checkpoint, "pretrained"), training_suite(suite)
    train, dev = source_rows(suite, home, cfg.source, data)
    if not dev:
        train, dev = hold_out(train)
    train = capped(train, cfg.train_rows)
    models = system.fit(suite, train, dev, cfg.source, cfg.fit)
    metric = METRICS[suite.metric]
    scores = [evaluate(metric, dev, system.predict(m, suite, dev, cfg.source), cfg.source)[0] for m in models]
    chosen = select(cfg.select, models, system.average, {"source-dev": scores})
    with manifest.publish(cfg.out, STAGE, settings, inputs) as made:
        tune.save(chosen, made.path, cfg.checkpoint, checkpoint.load_model(cfg.checkpoint)[1])
        made.counts |= {"train_rows": len(train), "dev_rows": len(dev), "dev_scores": scores}
    return manifest.read(cfg.out)
