"""Evaluation of suites x systems x seeds under a protocol, giving predictions, scores and tables: ``xling eval``.

The settings are resolved into a plan once (`xling.eval.run.plan`); the plan and the systems give the jobs; a job
predicts only what is missing. Scores and tables are published together in
``out/tables``, and an unchanged rerun leaves them as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from xling.array_types import Float32
from xling.core import progress
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import Answer
from xling.core.settings.config import to_dict
from xling.core.settings.values import named_path
from xling.eval.kinds import nearest_neighbours
from xling.eval.kinds.base import Match, VectorQuestion
from xling.eval.kinds.nearest_neighbours import Vectors
from xling.eval.leaks.training_files import warn_of_training_files
from xling.eval.rows.own import OwnSuite, labels_of_model, with_own_suite, write_definition
from xling.eval.rows.protocols import (
    RowsConfig,
    TrainingRows,
    Translator,
    rows_of_others,
    scored_rows,
    select,
    training_rows,
    training_suite,
)
from xling.eval.rows.suite import OWN_SUITES, Example, Suite, data_digest, load, suites
from xling.eval.run import unused
from xling.eval.run.plan import (
    EvalPlan,
    Target,
    build_systems,
    check_checkpoint,
    expand,
    plan_evaluation,
    sides,
)
from xling.eval.run.settings import EvalConfig
from xling.eval.scores import predictions
from xling.eval.scores.predictions import Origin
from xling.eval.scores.score_file import CONTROLS
from xling.eval.systems import Backend, FitConfig, scores_of
from xling.eval.tables.publish import publish_tables


def run(cfg: EvalConfig) -> Answer:
    """Evaluate the systems that ``cfg`` names and return the Markdown table."""
    cfg = with_own_files(cfg)
    names = expand(cfg.suites)  # an unknown suite is told before a missing checkpoint
    check_checkpoint(cfg)
    plan = plan_evaluation(cfg)  # before the systems import torch
    unused.check(cfg, [suites()[name] for name in names])
    return predict_and_publish(plan, build_systems(plan))


def evaluate_systems(
    cfg: EvalConfig, systems: Sequence[Backend], translate: Translator | None = None
) -> Answer:
    """Evaluate other systems than those that ``cfg`` names, and translate with another model; see `run`."""
    plan = plan_evaluation(with_own_files(cfg))
    return predict_and_publish(replace(plan, translate=translate or plan.translate), systems)


def with_own_files(cfg: EvalConfig) -> EvalConfig:
    """Return the settings with the suite of their own files, if they name any."""
    return with_own_suite(cfg, "suites", "test", labels_of_model([*_models(cfg), Path()][0]))


def _models(cfg: EvalConfig) -> list[Path]:
    """Return the folders of the models under test."""
    named = [Path(named_path(item)[1]) for item in cfg.checkpoints]
    return named or ([cfg.checkpoint] if cfg.checkpoint else [])


def predict_and_publish(plan: EvalPlan, systems: Sequence[Backend]) -> Answer:
    """Predict what is missing, score everything, publish the tables and return the Markdown one.

    Raises:
        UserError: a setting does not fit a system or a suite, or rows are missing.
    """
    settings = plan.settings
    manifest.remove_temporary_files(settings.out)
    for name in settings.suites:
        if isinstance(suite := OWN_SUITES.get(name), OwnSuite):
            write_definition(settings.out, suite)
    jobs = list(planned_jobs(plan, systems))
    progress.doing("reading the rows of all suites")
    _check_rows(plan, jobs)
    warn_of_training_files(
        _models(settings)
        if {"pretrained", "joined"} & {*settings.systems}
        else [],  # no control has the trained weights
        [path for each in plan.targets for t in each for path in t.suite.paths(t.lang, t.split, plan.data)],
    )
    for job in jobs:
        progress.doing(f"{job.suite.name}, {job.system.name}: loading the model and the rows")
        if not job.suite.task:
            predict(plan, job)
        elif not job.suite.shape.is_tuned:
            for origin in job.missing:
                rows = load(job.suite, origin.lang, origin.split, plan.data)
                answers = job.system.predict(None, job.suite, rows, origin.lang)
                predictions.write(plan.predictions, origin, rows, answers)
        elif job.missing:
            _fit_and_predict(plan, job, _of_both(job, jobs))
    progress.doing("scoring the predictions and drawing their intervals")
    files = sorted({origin.path(plan.predictions) for job in jobs for origin in job.origins})
    made_by = {"stage": "eval", "settings": to_dict(settings)}
    return publish_tables(
        settings.table,
        settings.suites,
        settings.out / "tables",
        files,
        plan.data,
        made_by,
        settings.num_workers,
    )


def _check_rows(plan: EvalPlan, jobs: Sequence[Job]) -> None:
    """Read every row that a job needs, so that a wrong label or column is told before the first training.

    Raises:
        UserError: naming file and line.
    """
    read: set[tuple[str, str, str]] = set()
    for job in jobs:
        wanted = [(job.suite, origin.lang, origin.split) for origin in job.missing]
        if job.missing and job.suite.task and job.suite.shape.is_tuned and not job.is_ready:
            train_suite = training_suite(job.suite)
            splits = [split for split in ("train", "dev") if split in train_suite.splits]
            source = plan.settings.source
            wanted += [(train_suite, source, s) for s in splits if train_suite.has(source, s, plan.data)]
        for suite, lang, split in wanted:
            if (suite.name, lang, split) not in read:
                read.add((suite.name, lang, split))
                load(suite, lang, split, plan.data)


def _of_both(job: Job, jobs: Sequence[Job]) -> Job | None:
    """Return the job of an encoder with its static encoder that fine-tunes the encoder as a job does."""
    for other in jobs:
        contains = getattr(other.system, "contains", None)
        if (
            other.missing
            and contains
            and contains(job.system)
            and (other.suite, other.fit) == (job.suite, job.fit)
        ):
            return other
    return None


def _fit_and_predict(plan: EvalPlan, job: Job, of_both: Job | None) -> None:
    """Fine-tune a model once and write its missing predictions, of all languages and ways of selection.

    Args:
        plan: of the evaluation.
        job: of the model.
        of_both: a later job that fine-tunes the same model; its predictions are written too.
    """
    suite, settings = job.suite, plan.settings
    maker = (of_both or job).system
    rows = TrainingRows([], [], settings.source, "") if job.is_ready else _training_rows(plan, job)
    progress.doing(f"{suite.name}, {job.system.name}: training on {len(rows.train):,} rows")
    checkpoints = maker.fit(suite, rows.train, rows.dev, rows.lang, job.fit)
    if of_both:
        _predict_missing(plan, of_both, rows, checkpoints)
        of_both.missing.clear()
        checkpoints = [each.tuned for each in checkpoints]
    _predict_missing(plan, job, rows, checkpoints)


def _predict_missing(plan: EvalPlan, job: Job, rows: TrainingRows, checkpoints: Sequence[Any]) -> None:
    settings, protocol, system, suite = plan.settings, plan.protocol, job.system, job.suite
    selection = _Selection(plan, job, rows, checkpoints)
    for origin in job.missing:
        checkpoint = selection.chosen(origin)
        gold = load(suite, origin.lang, origin.split, plan.data)
        shown = scored_rows(suite, protocol, settings.source, origin.lang, gold, plan.translate)
        progress.doing(f"{suite.name}, {system.name}: predicting {origin.lang}")
        lang = settings.source if protocol.test_on == "translated" else origin.lang
        predictions.write(plan.predictions, origin, gold, system.predict(checkpoint, suite, shown, lang))


def _training_rows(plan: EvalPlan, job: Job) -> TrainingRows:
    settings = plan.settings
    config = RowsConfig(
        settings.train_split, settings.train_rows, settings.shots, job.fit.seed, settings.train_with
    )
    langs = list(dict.fromkeys(origin.lang for origin in job.origins))
    return training_rows(job.suite, plan.protocol, settings.source, langs, plan.data, config, plan.translate)


@dataclass
class _Selection:
    """Checkpoints of one fine-tuning, and their scores on dev rows, computed only if a selection method needs them."""

    plan: EvalPlan
    job: Job
    rows: TrainingRows
    checkpoints: Sequence[Any]
    on_source: list[float] = field(default_factory=list)

    def chosen(self, origin: Origin) -> Any:
        """Return the checkpoint that a file of predictions is made with.

        Raises:
            UserError: ``select=oracle`` and the scored rows are the dev rows.
        """
        if self.job.is_ready:
            return self.checkpoints[0]
        scores, of_checkpoints = {}, (self.job.system, self.checkpoints, self.job.suite)
        if len(self.checkpoints) > 1 and origin.select == "oracle":
            scores["oracle"] = scores_of(*of_checkpoints, self._target_dev(origin), origin.lang)
        elif len(self.checkpoints) > 1 and origin.select == "source-dev":
            self.on_source = self.on_source or scores_of(*of_checkpoints, self.rows.dev, self.rows.lang)
            scores["source-dev"] = self.on_source
        return select(origin.select, self.checkpoints, self.job.system.average, scores)

    def _target_dev(self, origin: Origin) -> list[Example]:
        """Return dev rows of the target language that are not the scored ones."""
        if origin.split == "dev":
            raise UserError(
                f"select=oracle: the scored rows of {origin.suite} in {origin.lang!r} are its dev rows",
                "a suite with dev and test rows",
                "leave oracle out of select=",
            )
        return load(self.job.suite, origin.lang, "dev", self.plan.data)


def predict(plan: EvalPlan, job: Job) -> None:
    """Write the missing predictions of a system on a suite that is answered from vectors."""
    for origin in job.missing:
        progress.doing(f"{job.suite.name}, {job.system.name}: vectors of {origin.lang}")
        rows = load(job.suite, origin.lang, origin.split, plan.data)
        question = VectorQuestion(
            rows=rows,
            langs=sides(job.suite, origin.lang),
            embed=partial(_embed, plan, job.system),
            distance=plan.settings.distance,
            training=partial(load, job.suite, origin.lang, "train", plan.data),
            is_control=job.system.name in CONTROLS,
            match=job.match,
        )
        predictions.write(plan.predictions, origin, rows, job.suite.shape.answers_by_vectors(question))


def _embed(plan: EvalPlan, system: Backend, texts: Sequence[str], lang: str) -> Vectors:
    computed = vectors(plan, system, texts, lang)
    return nearest_neighbours.centre(computed) if plan.settings.centred else computed


def _pooling(plan: EvalPlan, system: Backend) -> str:
    """Return how a system pools sentence vectors, in its own words if it has some."""
    layer, pooling = plan.settings.layer, plan.settings.pooling
    name_of = getattr(system, "vector_name", None)
    return str(name_of(layer, pooling) if name_of else pooling)


def vectors(
    plan: EvalPlan, system: Backend, texts: Sequence[str], lang: str
) -> Float32[np.ndarray, "texts dim"]:
    """Return vectors of texts, float32 (num_texts, dim), computed once per model, layer, pooling and texts."""
    layer, pooling = plan.settings.layer, plan.settings.pooling
    made_of = [system.name, system.digest, f"{layer}{plan.precision}", _pooling(plan, system), lang]
    made_of += map(repr, texts)
    key = hashlib.sha256("\n".join(made_of).encode()).hexdigest()
    path = plan.settings.out / "vectors" / f"{key}.npy"

    def compute() -> Float32[np.ndarray, "texts dim"]:
        computed = system.embed(texts, lang, layer, pooling)
        assert len(computed) == len(texts), (len(computed), len(texts))
        return np.asarray(computed, dtype=np.float32)

    return predictions.cached_array(path, compute)


# The jobs of an evaluation: which files of predictions each model gives, and which of them are missing. A file is
# kept if its `Origin` is still the same: model, settings and rows. The part of an origin about fine-tuning, generation
# or vectors is text for the signature of a score.

FIXED_SEED = -1


@dataclass(frozen=True)
class Job:
    """Predictions of one model on one suite.

    Attributes:
        system: gives the predictions.
        suite: whose rows are predicted.
        origins: one for each file of predictions.
        missing: those of them that have no file yet; a job that wrote them clears the list.
        fit: settings of fine-tuning, with the seed.
        is_ready: an earlier command has fine-tuned the system.
        match: scores the candidates of a retrieval by their words; None if words are not compared.
    """

    system: Backend
    suite: Suite
    origins: Sequence[Origin]
    missing: list[Origin]
    fit: FitConfig = field(default_factory=FitConfig)
    is_ready: bool = False
    match: Match | None = None


def planned_jobs(plan: EvalPlan, systems: Sequence[Backend]) -> Iterator[Job]:
    """Yield what each system predicts, suite by suite.

    Raises:
        UserError: a setting does not fit a system or a suite, or training rows of another suite are missing.
    """
    for targets in plan.targets:
        for system in systems:
            if not targets[0].suite.task:
                yield _from_vectors(plan, system, targets)
            elif not targets[0].suite.shape.is_tuned:
                yield _generated(plan, system, targets)
            else:
                per_model = [[target] for target in targets] if plan.protocol.per_target else [targets]
                for seed in dict.fromkeys(plan.settings.seeds) if system.seeded else (FIXED_SEED,):
                    for part in per_model:
                        yield _tuned(plan, system, part, seed)


def _tuned(plan: EvalPlan, system: Backend, targets: Sequence[Target], seed: int) -> Job:
    """Return the job of a model that is fine-tuned for some targets, in this run or by an earlier command."""
    settings, suite = plan.settings, targets[0].suite
    is_ready = not system.seeded and system.name not in CONTROLS
    fit = replace(settings.fit, seed=seed if system.seeded else 1)
    if is_ready:
        extra = "fine-tuned|int8" if settings.int8 else "fine-tuned"
    else:
        extra = _training_signature(plan, suite, [t.lang for t in targets], fit if system.seeded else None)
    if settings.translator and plan.protocol.translates:
        extra += f"|mt:{manifest.digest(settings.translator)[:12]}{plan.search}"
    if suite.shape.is_slow or fit.text_to_text:
        extra += plan.search
    modes = settings.select if system.seeded else ("none",) if is_ready else ("last",)
    origins = [
        _origin(system, target, extra, seed, plan.protocol.name, mode, settings.source)
        for target in targets
        for mode in modes
    ]
    return Job(system, suite, origins, _missing(plan, origins), fit, is_ready)


def _generated(plan: EvalPlan, system: Backend, targets: Sequence[Target]) -> Job:
    """Return the job of a system that writes texts and is not fine-tuned on the suite."""
    suite = targets[0].suite
    extra = f"no fine-tuning{plan.search if suite.shape.is_slow else ''}"
    origins = [_origin(system, target, extra) for target in targets]
    return Job(system, suite, origins, _missing(plan, origins))


def _from_vectors(plan: EvalPlan, system: Backend, targets: Sequence[Target]) -> Job:
    """Return the job of a system whose sentence or word vectors are compared."""
    settings, suite = plan.settings, targets[0].suite
    match = _matching(plan, system, suite)
    extra = f"layer:{settings.layer}|pooling:{_pooling(plan, system)}|distance:{settings.distance}"
    extra += "|centred" if settings.centred else ""
    extra += f"|match:{settings.match}" if match else ""
    extra += plan.precision + ("|int8" if settings.int8 else "")
    protocol = plan.protocol.name if plan.protocol.retrieval_metrics else "none"
    origins = [_origin(system, target, extra, protocol=protocol) for target in targets]
    return Job(system, suite, origins, _missing(plan, origins), match=match)


def _origin(
    system: Backend,
    target: Target,
    extra: str,
    seed: int = FIXED_SEED,
    protocol: str = "none",
    mode: str = "none",
    source: str = "",
) -> Origin:
    return Origin(
        target.suite.name, target.lang, target.split, system.name, seed, protocol, mode, source,
        checkpoint=system.digest, extra=extra, rows=target.digest,
    )  # fmt: skip


def _missing(plan: EvalPlan, origins: Sequence[Origin]) -> list[Origin]:
    return [origin for origin in origins if not predictions.is_up_to_date(plan.predictions, origin)]


def _matching(plan: EvalPlan, system: Backend, suite: Suite) -> Match | None:
    """Return the function that scores candidates by their matched words; None for a control without words.

    Raises:
        UserError: ``match`` is set for a suite or a system whose words cannot be compared.
    """
    weight = plan.settings.match
    if not weight:
        return None
    if not suite.shape.compares_words:
        raise UserError(f"match={weight} for {suite.name}", "suites of retrieval", "leave out match=")
    matched: Match | None = getattr(system, "matched", None)
    if matched is None and system.name not in CONTROLS:
        raise UserError(f"match={weight} for {system.name}", "a static encoder", "leave out match=")
    return matched and (lambda *texts: np.float32(weight) * matched(*texts))


def _training_signature(plan: EvalPlan, suite: Suite, langs: Sequence[str], fit: FitConfig | None) -> str:
    """Return the part of a signature about fine-tuning: data digests and settings."""
    settings, protocol, train_suite = plan.settings, plan.protocol, training_suite(suite)
    train_langs = dict.fromkeys([settings.source, *(langs if protocol.train_on != "source" else ())])
    parts = [
        f"{lang}/{split}/{data_digest(train_suite, lang, split, plan.data)}"
        for lang in train_langs
        for split in ("train", "dev")
        if split in train_suite.splits and train_suite.has(lang, split, plan.data)
    ]
    for name in settings.train_with:
        _, split = rows_of_others(suite, name, settings.source, plan.data)
        parts.append(f"{name}/{split}/{data_digest(suites()[name], settings.source, split, plan.data)}")
    shots = settings.shots if protocol.train_on == "shots" else 0
    parts.append(json.dumps([shots, to_dict(fit)], sort_keys=True))
    parts += [manifest.digest(path) for path in fit.files()] if fit else []
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    split = f"/{settings.train_split}" if settings.train_split != "train" else ""
    times = f"x{len(train_langs)}" if protocol.train_on == "translated_all" and len(train_langs) > 1 else ""
    rows = f"|rows:{settings.train_rows}{times}" if settings.train_rows else ""
    rows += f"|with:{'+'.join(settings.train_with)}" if settings.train_with else ""
    changes = f"|switch:{'+'.join(sorted(fit.switch))}" if fit and fit.switch else ""
    changes += "|adversary" if fit and fit.adversary else ""
    changes += "|projected" if fit and fit.project else ""
    changes += "|text-to-text" if fit and fit.text_to_text else ""
    changes += "|int8" if fit and settings.int8 else ""
    return f"train:{train_suite.name}{split}{rows}|shots:{shots}|fit:{digest[:12]}{changes}"
