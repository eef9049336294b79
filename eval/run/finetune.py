"""Fine-tuning of one model on a suite's training rows, to keep and to score with ``xling eval``.

``xling finetune``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from xling.core.commands.inputs import STATIC_FILE
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings.unused import refuse
from xling.core.settings.values import NOT_NEGATIVE, Lang, ranged
from xling.eval.metrics import METRICS
from xling.eval.rows.own import OwnSuite, data_of, with_own_suite
from xling.eval.rows.own_files import OwnFiles
from xling.eval.rows.protocols import capped, hold_out, select, source_rows, training_suite
from xling.eval.rows.suite import Example, Suite, suites
from xling.eval.run import unused
from xling.eval.systems import FitConfig, scores_of
from xling.models.files import model_folder
from xling.training import trackers

STAGE = "finetune"


@dataclass(frozen=True)
class FinetuneConfig(OwnFiles):
    """Settings of ``xling finetune``.

    Attributes:
        suite: suite that gives training rows, kind and labels; or own files: ``tags``, ``classes`` or ``pairs``. With
            several, separated by commas, one body learns all of them, each under a head of its own.
        checkpoint: directory of ``xling pretrain``, or of ``xling finetune``: its body is trained on under a new head.
            Of a static encoder, such as that of ``xling encoder``, the vectors stay; a head is fitted on them.
        out: directory to publish: ``task.pt`` and the vocabulary, or ``task.safetensors`` and the static encoder.
        data: folder of the suites' files; default: what XLING_DATA names.
        source: language of the training rows.
        train_rows: number of training rows, drawn once; 0 for all.
        alpha: several suites are drawn by their number of rows to this power; below 1 small ones come more often.
        select: which epoch is kept, by the dev rows of the source language; of several suites by the mean of their
            scores.
        joined: an encoder with model.features answers together with a head over its static encoder.
        fit: settings of fine-tuning.
        log: where the curves are shown, see `xling.training.trackers`.
    """

    suite: str
    checkpoint: Path
    out: Path
    data: Path | None = None
    source: Lang = "en"
    train_rows: int = 0
    alpha: float = ranged(1.0, NOT_NEGATIVE)
    select: Literal["source-dev", "last", "averaged"] = "source-dev"
    joined: bool = False
    fit: FitConfig = field(default_factory=FitConfig)
    log: str = "none"


def run(cfg: FinetuneConfig) -> manifest.Manifest:
    """Fine-tune, choose the epoch and publish the model.

    Raises:
        UserError: an unknown suite or language, rows or the checkpoint are missing.
    """
    check(cfg)
    cfg = with_own_suite(cfg, "suite", "train")
    chosen = suites_of(cfg)
    data = data_of(cfg.data, [suite.name for suite in chosen])
    # Imported after the checks: importing torch takes seconds.
    from xling.transfer.backend import trained_system
    from xling.transfer.saved import SavedStates, run_key
    from xling.transfer.static_system import StaticBackend

    settings = replace(cfg, out=Path(), log="none")
    inputs = _inputs(cfg, chosen, data)
    if done := manifest.up_to_date(cfg.out, STAGE, settings, inputs):
        return done
    parts = [_rows_of(cfg, suite, data) for suite in chosen]
    digests = {str(path): manifest.digest(path) for path in inputs}
    saves = SavedStates(cfg.out, run_key(settings, digests))
    with trackers.shown(cfg.log, cfg.out, settings) as show:
        losses = trackers.Losses(show)
        system = trained_system(cfg.checkpoint, losses.tell, saves, cfg.joined)
        title = f"{cfg.suite}, {system.name}, seed {cfg.fit.seed}"
        trains = [part.train for part in parts]
        models = (
            [[head] for head in system.fit(chosen[0], trains[0], parts[0].dev, cfg.source, cfg.fit)]
            if cfg.joined or isinstance(system, StaticBackend)
            else system.fit_jointly(chosen, trains, cfg.source, cfg.fit, cfg.alpha, title)
        )
        scores = [
            scores_of(system, [epoch[number] for epoch in models], part.suite, part.dev, cfg.source)
            for number, part in enumerate(parts)
        ]
        for epoch in range(len(models)):
            of_epoch = {
                part.score_name(parts): of_part[epoch] for part, of_part in zip(parts, scores, strict=True)
            }
            losses.write("valid", losses.ends.get(epoch, 0), **of_epoch)
    means = [sum(of_epoch) / len(parts) for of_epoch in zip(*scores, strict=True)]
    best = select(cfg.select, models, _averages(system.average), {"source-dev": means})
    heads = {part.suite.name: model for part, model in zip(parts, best, strict=True)}
    with manifest.publish(cfg.out, STAGE, settings, inputs) as publication:
        system.save(heads, chosen[0], trains[0], publication.path)
        (publication.path / "log.jsonl").write_text(losses.text(), encoding="utf-8")
        publication.counts |= _counts(parts, scores)
    saves.delete_all()
    return manifest.read(cfg.out)


class _Part(NamedTuple):
    """A suite with its training and dev rows."""

    suite: Suite
    train: list[Example]
    dev: list[Example]

    def score_name(self, parts: Sequence[_Part]) -> str:
        """Return the name of its score in a log: the metric, with the suite if there are several."""
        return f"{self.suite.name}.{METRICS[self.suite.metric].name}" if len(parts) > 1 else self.suite.metric


def suites_of(cfg: FinetuneConfig) -> list[Suite]:
    """Return the suites of ``suite``, which commas separate.

    Raises:
        UserError: one of them is unknown or named twice.
    """
    names = [name.strip() for name in cfg.suite.split(",")]
    chosen = [suites()[name] for name in names]
    if len(set(names)) < len(names):
        raise UserError(f"suite={cfg.suite}", "suites of different names", "name each once")
    return chosen


def _rows_of(cfg: FinetuneConfig, suite: Suite, data: Path) -> _Part:
    train, dev = source_rows(suite, training_suite(suite), cfg.source, data)
    if not dev:
        train, dev = hold_out(train)
    return _Part(suite, capped(train, cfg.train_rows), dev)


def _averages(average: Callable[[Sequence[Any]], Any]) -> Callable[[Sequence[Any]], Any]:
    """Return what averages checkpoints of several models, model by model."""
    return lambda epochs: [average(of_one) for of_one in zip(*epochs, strict=True)]


def _counts(parts: Sequence[_Part], scores: Sequence[list[float]]) -> dict[str, Any]:
    """Return the counts of the manifest, by suite if there are several."""
    if len(parts) == 1:
        (part,), (dev_scores,) = parts, scores
        counts = {"train_rows": len(part.train), "dev_rows": len(part.dev), "dev_scores": dev_scores}
        marks = part.suite.marks if isinstance(part.suite, OwnSuite) else ""
        return {
            **counts,
            "labels": list(part.suite.labels),
            **({model_folder.TAG_MARKS: marks} if marks else {}),
        }
    names = [part.suite.name for part in parts]
    return {
        "heads": names,
        "train_rows": {part.suite.name: len(part.train) for part in parts},
        "dev_rows": {part.suite.name: len(part.dev) for part in parts},
        "dev_scores": dict(zip(names, scores, strict=True)),
        "labels": [],
    }


def check(cfg: FinetuneConfig) -> None:
    """Check the rows and the checkpoint of ``xling finetune``.

    Raises:
        UserError: the suite is unknown, rows are missing, there is no model to start from, or the output is finished
            and was made with other settings.
    """
    cfg = with_own_suite(cfg, "suite", "train")
    chosen = suites_of(cfg)
    data = data_of(cfg.data, [suite.name for suite in chosen])
    for suite in chosen:
        if not (suite.task and suite.shape.is_tuned):
            raise UserError(
                f"nothing is fine-tuned on the rows of {suite.name}",
                "tags=, classes= or pairs=, or a suite of such rows",
                "translation is learned by xling finetune mt",
            )
    trackers.check(cfg.log)
    unused.check_fit(cfg, chosen, [cfg.checkpoint])
    if len(chosen) == 1:
        refuse(cfg, "alpha", "several suites", f"for {cfg.suite}")
    if _is_static(cfg):
        refuse(cfg, "log", "an encoder with layers; this one is static", f"for {cfg.suite}")
    if cfg.joined:
        unused.check_joined(chosen, cfg.checkpoint, "joined=true")
    for what, is_given in (
        ("fit.switch", cfg.fit.switch),
        ("a static encoder", _is_static(cfg)),
        ("joined=true", cfg.joined),
    ):
        if is_given and len(chosen) > 1:
            raise UserError(f"{what} with several suites, {cfg.suite}", "one suite", "name one suite")
    for path in cfg.fit.files():
        manifest.digest(path)  # says which is missing
    if manifest.is_finished(cfg.out, STAGE, replace(cfg, out=Path(), log="none"), _inputs(cfg, chosen, data)):
        return
    for suite in chosen:
        train_suite = training_suite(suite)
        if not train_suite.has(cfg.source, "train", data):
            source_rows(suite, train_suite, cfg.source, data)  # says what is missing
    if not _is_static(cfg):
        model_folder.check_body(cfg.checkpoint, *model_folder.OURS, model_folder.FOREIGN)


def _is_static(cfg: FinetuneConfig) -> bool:
    return (cfg.checkpoint / STATIC_FILE).is_file()


def _inputs(cfg: FinetuneConfig, chosen: Sequence[Suite], data: Path) -> list[Path]:
    """Return checkpoint, training and dev rows, and dictionaries; missing rows are reported when they are read."""
    rows = [
        path
        for suite in map(training_suite, chosen)
        for split in ("train", "dev")
        if split in suite.splits
        for path in suite.paths(cfg.source, split, data)
        if path.is_file()
    ]
    return list(dict.fromkeys([cfg.checkpoint, *rows, *cfg.fit.files()]))
