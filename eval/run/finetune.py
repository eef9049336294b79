"""Fine-tuning of one model on a suite's training rows, to keep and to score with ``xling eval``.

``xling finetune``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from xling.core.commands import inputs as inputs_
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings.codes import Lang
from xling.eval.metrics import METRICS
from xling.eval.rows.own import data_of, with_own_suite
from xling.eval.rows.own_files import OwnFiles
from xling.eval.rows.protocols import capped, hold_out, select, source_rows, training_suite
from xling.eval.rows.suite import Suite, suites
from xling.eval.run import unused
from xling.eval.systems import FitConfig, scores_of
from xling.models.files import model_folder
from xling.training import trackers

STAGE = "finetune"


@dataclass(frozen=True)
class FinetuneConfig(OwnFiles):
    """Settings of ``xling finetune``.

    Attributes:
        suite: suite that gives training rows, kind and labels; or own files: ``tags``, ``classes`` or ``pairs``.
        checkpoint: directory of ``xling pretrain``.
        out: directory to publish: ``task.pt`` and the vocabulary.
        data: folder of the suites' files; default: what XLING_DATA names.
        source: language of the training rows.
        train_rows: number of training rows, drawn once; 0 for all.
        select: which epoch is kept, by the dev rows of the source language.
        fit: settings of fine-tuning.
        log: where the curves are shown, see `xling.training.trackers`.
    """

    suite: str
    checkpoint: Path
    out: Path
    data: Path | None = None
    source: Lang = "en"
    train_rows: int = 0
    select: Literal["source-dev", "last", "averaged"] = "source-dev"
    fit: FitConfig = field(default_factory=FitConfig)
    log: str = "none"


def run(cfg: FinetuneConfig) -> manifest.Manifest:
    """Fine-tune, choose the epoch and publish the model.

    Raises:
        UserError: an unknown suite or language, rows or the checkpoint are missing.
    """
    cfg = with_own_suite(cfg, "suite", "train")
    data, suite = data_of(cfg.data, [cfg.suite]), suites()[cfg.suite]
    check(cfg)
    # Imported after the checks: importing torch takes seconds.
    from xling.models.files import model_weights
    from xling.transfer import tune
    from xling.transfer.backend import EncoderBackend
    from xling.transfer.saved import SavedStates, run_key

    settings = replace(cfg, out=Path(), log="none")
    train_suite = training_suite(suite)
    inputs = _inputs(cfg, train_suite, data)
    if done := manifest.up_to_date(cfg.out, STAGE, settings, inputs):
        return done
    train, dev = source_rows(suite, train_suite, cfg.source, data)
    if not dev:
        train, dev = hold_out(train)
    train = capped(train, cfg.train_rows)
    metric = METRICS[suite.metric]
    digests = {str(path): manifest.digest(path) for path in inputs}
    saves = SavedStates(cfg.out, run_key(settings, digests))
    with trackers.shown(cfg.log, cfg.out, settings) as show:
        losses = trackers.Losses(show)
        system = EncoderBackend(cfg.checkpoint, "pretrained", on_update=losses.tell, saved_states=saves)
        models = system.fit(suite, train, dev, cfg.source, cfg.fit)
        scores = scores_of(system, models, suite, dev, cfg.source)
        for epoch, score in enumerate(scores):
            losses.write("valid", losses.ends.get(epoch, 0), **{metric.name: score})
    chosen = select(cfg.select, models, system.average, {"source-dev": scores})
    with manifest.publish(cfg.out, STAGE, settings, inputs) as publication:
        tune.save_tuned(chosen, publication.path, cfg.checkpoint, model_weights.load_model(cfg.checkpoint)[1])
        (publication.path / "log.jsonl").write_text(losses.text(), encoding="utf-8")
        publication.counts |= {"train_rows": len(train), "dev_rows": len(dev), "dev_scores": scores}
        publication.counts |= {"labels": list(suite.labels)}
    saves.delete_all()
    return manifest.read(cfg.out)


def check(cfg: FinetuneConfig) -> None:
    """Check the rows and the checkpoint of ``xling finetune``.

    Raises:
        UserError: the suite is unknown, rows are missing, there is no model to start from, or the output is finished
            and was made with other settings.
    """
    cfg = with_own_suite(cfg, "suite", "train")
    data, suite = data_of(cfg.data, [cfg.suite]), suites()[cfg.suite]
    if not (suite.task and suite.shape.is_tuned):
        raise UserError(
            f"nothing is fine-tuned on the rows of {suite.name}",
            "tags=, classes= or pairs=, or a suite of such rows",
            "translation is learned by xling finetune mt",
        )
    trackers.check(cfg.log)
    unused.check_fit(cfg, [suite], [cfg.checkpoint])
    train_suite = training_suite(suite)
    for path in cfg.fit.switch.values():
        manifest.digest(Path(path))  # says which is missing
    if cfg.fit.adversary:
        manifest.digest(Path(cfg.fit.adversary))
    if manifest.is_finished(
        cfg.out, STAGE, replace(cfg, out=Path(), log="none"), _inputs(cfg, train_suite, data)
    ):
        return
    if not train_suite.has(cfg.source, "train", data):
        source_rows(suite, train_suite, cfg.source, data)  # says what is missing
    if not (cfg.checkpoint / inputs_.STATIC_FILE).is_file():
        model_folder.check_model(cfg.checkpoint, *model_folder.OURS, model_folder.FOREIGN)


def _inputs(cfg: FinetuneConfig, train_suite: Suite, data: Path) -> list[Path]:
    """Return checkpoint, training and dev rows, and dictionaries; missing rows are reported when they are read."""
    splits = [split for split in ("train", "dev") if split in train_suite.splits]
    rows = [path for split in splits for path in train_suite.paths(cfg.source, split, data) if path.is_file()]
    more = [*cfg.fit.switch.values(), *([cfg.fit.adversary] if cfg.fit.adversary else [])]
    return [cfg.checkpoint, *rows, *map(Path, more)]
