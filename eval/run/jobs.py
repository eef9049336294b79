"""The jobs of an evaluation: which files of predictions each model gives, and which of them are missing.

A file is kept if its `Origin` is still the same: model, settings and rows. The part of an origin about fine-tuning,
generation or vectors is text for the signature of a score.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings.config import to_dict
from xling.eval.kinds.base import Match
from xling.eval.rows.protocols import rows_of_others, training_suite
from xling.eval.rows.suite import Suite, data_digest, suites
from xling.eval.run.plan import EvalPlan, Target
from xling.eval.scores import predictions
from xling.eval.scores.predictions import Origin
from xling.eval.scores.score_file import CONTROLS
from xling.eval.systems import Backend, FitConfig

FIXED_SEED = -1


@dataclass(frozen=True)
class Job:
    """Predictions of one model on one suite.

    Attributes:
        system: gives the predictions.
        suite: whose rows are predicted.
        origins: one for each file of predictions.
        missing: those of them that have no file yet.
        fit: settings of fine-tuning, with the seed.
        is_ready: an earlier command has fine-tuned the system.
        match: scores the candidates of a retrieval by their words; None if words are not compared.
    """

    system: Backend
    suite: Suite
    origins: Sequence[Origin]
    missing: Sequence[Origin]
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
    name_of = getattr(system, "vector_name", None)
    pooling = name_of(settings.layer, settings.pooling) if name_of else settings.pooling
    extra = f"layer:{settings.layer}|pooling:{pooling}|distance:{settings.distance}"
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
