"""Evaluation of suites x systems x seeds under a protocol, giving predictions, scores and tables: ``xling eval``.

Predictions are kept in ``out/predictions`` with what made them; a rerun predicts only what is missing or was
made by another model, other settings or other rows. Scores and tables are published together in
``out/tables``, and an unchanged rerun leaves them as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from xling.core import languages
from xling.core.errors import UserError, unknown
from xling.core.output import manifest
from xling.core.output.answer import Answer
from xling.core.settings.config import to_dict
from xling.eval.metrics import METRICS, evaluate
from xling.eval.rows.protocols import (
    PROTOCOLS,
    SELECT,
    RowsConfig,
    TrainingRows,
    Translator,
    rows_of_others,
    scored_rows,
    select,
    training_rows,
    training_suite,
)
from xling.eval.rows.suite import (
    Example,
    Suite,
    data_digest,
    data_folder,
    languages_at,
    load,
    scorable_splits,
    scored_split,
    suites,
)
from xling.eval.run import untuned
from xling.eval.run.settings import EvalConfig
from xling.eval.run.translations import Translations
from xling.eval.scores import predictions
from xling.eval.scores.predictions import Origin
from xling.eval.scores.score_file import CONTROLS
from xling.eval.systems import BACKENDS, Backend, FitConfig, build
from xling.eval.tables.groups import GROUPS
from xling.eval.tables.publish import check_workers, publish
from xling.transfer.checks import check_random_control

FIXED_SEED = -1


@dataclass(frozen=True)
class Target:
    """Rows that a system is scored on: suite, language and split."""

    suite: Suite
    lang: str
    split: str


def run(cfg: EvalConfig) -> Answer:
    """Evaluate the systems that ``cfg`` names and return the Markdown table."""
    expand(cfg.suites)
    if not (cfg.checkpoint or cfg.checkpoints) and {"pretrained", "random", "with_ngrams"} & {*cfg.systems}:
        raise UserError("no checkpoint is given", "a directory made by `xling pretrain`", "checkpoint=DIR")
    if cfg.checkpoint and "random" in cfg.systems:
        check_random_control(Path(cfg.checkpoint))
    checked(cfg, data_folder(cfg.data))  # before the systems import torch
    translate = Translations(cfg.translator, cfg.out / "translations", cfg.search) if cfg.translator else None
    return evaluate_systems(cfg, named_systems(cfg), translate)


def named_systems(cfg: EvalConfig) -> list[Backend]:
    """Return the systems of ``cfg``, one for each of its checkpoints.

    Raises:
        UserError: an unknown system, or a name for a checkpoint that stands for something else.
    """
    if not cfg.checkpoints:
        return [build(name, cfg) for name in cfg.systems]
    systems: list[Backend] = []
    pairs = [item.rpartition("=") for item in cfg.checkpoints]
    places = {name or Path(place).name: Path(place) for name, _, place in pairs}
    if len(places) < len(pairs) or cfg.checkpoint or not places.keys().isdisjoint(BACKENDS):
        raise UserError(
            f"checkpoints={','.join(cfg.checkpoints)}{' and checkpoint=' if cfg.checkpoint else ''}",
            "models of different names that no system has, and no checkpoint=",
            "name them: checkpoints=mmlm=runs/a,tlm=runs/b",
        )
    first = replace(cfg, checkpoint=next(iter(places.values())))
    for system in cfg.systems:
        if system != "pretrained":
            systems.append(build(system, first))
            continue
        for name, place in places.items():
            systems.append(build(system, replace(cfg, checkpoint=place)))
            systems[-1].name = name
    return systems


def evaluate_systems(
    cfg: EvalConfig, systems: Sequence[Backend], translate: Translator | None = None
) -> Answer:
    """Predict what is missing, score everything, publish the tables and return the Markdown one.

    Raises:
        UserError: a name, language, split or setting is wrong, or rows are missing.
    """
    data = data_folder(cfg.data)
    chosen = checked(cfg, data)
    manifest.remove_temporary_files(cfg.out)
    files: list[Path] = []
    for suite, targets in chosen:
        for system in systems:
            if not suite.task:
                files += untuned.predict(cfg, system, suite, [(t.lang, t.split) for t in targets], data)
            else:
                files += _predict(cfg, system, targets, data, translate)
    made_by = {"stage": "eval", "settings": to_dict(replace(cfg, data=data))}
    return publish(
        cfg.table, cfg.suites, cfg.out / "tables", sorted(set(files)), data, made_by, cfg.num_workers
    )


def checked(cfg: EvalConfig, data: Path) -> list[tuple[Suite, list[Target]]]:
    """Return the suites to score, each with its languages, after all checks that need no model.

    Raises:
        UserError: a name, language, split or setting is wrong, or rows are missing.
    """
    check_workers(cfg.num_workers)
    if any(seed < 0 for seed in cfg.seeds):
        raise UserError(f"seeds={','.join(str(s) for s in cfg.seeds if s < 0)}", "whole numbers from 0")
    if cfg.out.exists() and not cfg.out.is_dir():
        raise UserError(f"out={cfg.out} is not a folder", fix="choose another out=, or move the file away")
    chosen = [suites()[name] for name in expand(cfg.suites)]
    for mode in cfg.select:
        if mode not in SELECT:
            raise unknown("way of choosing a checkpoint", mode, SELECT)
    if cfg.train_split == "dev" and "oracle" in cfg.select:
        raise UserError("select=oracle and train_split=dev train and choose on the same rows", "one of them")
    if cfg.protocol not in PROTOCOLS:
        raise unknown("protocol", cfg.protocol, PROTOCOLS)
    for name in cfg.train_with:
        suites()[name]
    targets = [(suite, targets_of(suite, cfg, data)) for suite in chosen]
    for check in {METRICS[name].check for suite in chosen for name in suite.metrics}:
        if check:
            check()
    return targets


def expand(names: Iterable[str]) -> list[str]:
    """Return the names of suites, with groups of `xling.eval.tables.groups` expanded.

    Raises:
        UserError: no name, or an unknown one.
    """
    names_of_suites: list[str] = []
    for name in names:
        names_of_suites += GROUPS[name].here() if name in GROUPS else [suites()[name].name]
    if not names_of_suites:
        raise UserError("no suite is named", ", ".join(sorted([*suites(), *GROUPS])), "suites=xnli,panx")
    return list(dict.fromkeys(names_of_suites))


def targets_of(suite: Suite, cfg: EvalConfig, data: Path) -> list[Target]:
    """Return the languages of a suite to score: the requested ones, or every available one, the source first.

    Raises:
        UserError: a language asked for is missing, or none is there.
    """
    on_dev = cfg.train_split == "dev" and training_suite(suite) is suite
    if cfg.test_set and cfg.test_set not in (known := scorable_splits(suite)):
        raise unknown(f"test set of {suite.name}", cfg.test_set, known)
    named = cfg.langs if suite.pairs else map(languages.canonical, cfg.langs)
    langs = list(dict.fromkeys(named)) or list(
        dict.fromkeys(
            lang
            for split in (
                [cfg.test_set] if cfg.test_set else [*scorable_splits(suite), *([] if on_dev else ["dev"])]
            )
            if split in (*suite.splits, *suite.test_sets)
            for lang in languages_at(suite, split, data)
        )
    )
    if not langs:
        raise UserError(
            f"no rows of {suite.name} below {data}", fix=f"put them at {'  '.join(suite.patterns)}"
        )
    targets = [Target(suite, lang, scored_split(suite, lang, data, cfg.test_set)) for lang in langs]
    for target in targets:
        if on_dev and target.split == "dev":
            raise UserError(
                f"{suite.name} has no test rows in {target.lang!r}, and train_split=dev",
                "languages with test rows: the dev rows are the same ones in every language of most suites",
                f"leave {target.lang} out of langs=",
            )
    return targets


def _predict(
    cfg: EvalConfig, system: Backend, targets: Sequence[Target], data: Path, translate: Translator | None
) -> Iterator[Path]:
    """Yield the prediction files of one system on one suite, computing missing ones."""
    suite, protocol = targets[0].suite, PROTOCOLS[cfg.protocol]
    if not suite.shape.is_tuned:
        for target in targets:
            yield _translate(cfg, system, target, data)
        return
    per_model = [[t] for t in targets] if protocol.per_target else [list(targets)]
    for seed in cfg.seeds if system.seeded else (FIXED_SEED,):
        for part in per_model:
            yield from _one_model(cfg, system, part, seed, data, translate)


def _one_model(
    cfg: EvalConfig,
    system: Backend,
    targets: Sequence[Target],
    seed: int,
    data: Path,
    translate: Translator | None,
) -> Iterator[Path]:
    """Fit once, unless every prediction of this model is there, and predict every target."""
    suite, protocol = targets[0].suite, PROTOCOLS[cfg.protocol]
    langs = [t.lang for t in targets]
    fit = replace(cfg.fit, seed=seed if system.seeded else 1)
    ready = not system.seeded and system.name not in CONTROLS  # already fine-tuned
    if ready:
        made_by = "fine-tuned|int8" if cfg.int8 else "fine-tuned"
    else:
        made_by = _trained_on(cfg, suite, langs, fit if system.seeded else None, data)
    made_by += _written_by(cfg, suite)
    folder = cfg.out / "predictions"
    modes = cfg.select if system.seeded else ("none",) if ready else ("last",)
    wanted = [(t, m, _origin(cfg, system, t, seed, m, made_by, data)) for t in targets for m in modes]
    missing = [item for item in wanted if not predictions.exists(folder, item[2])]
    if missing:
        given = RowsConfig(cfg.train_split, cfg.train_rows, cfg.shots, fit.seed, cfg.train_with)
        rows = (
            TrainingRows([], [], cfg.source, "")
            if ready
            else training_rows(suite, protocol, cfg.source, langs, data, given, translate)
        )
        checkpoints = system.fit(suite, rows.train, rows.dev, rows.lang, fit)
        scorer = _DevScores(system, suite, checkpoints, rows)
        for target, mode, origin in missing:
            asked = scorer.asked(mode, target, data)
            chosen = checkpoints[0] if ready else select(mode, checkpoints, system.average, asked)
            gold = load(suite, target.lang, target.split, data)
            seen = scored_rows(suite, protocol, cfg.source, target.lang, gold, translate)
            lang = cfg.source if protocol.test_on == "translated" else target.lang
            predictions.write(folder, origin, gold, system.predict(chosen, suite, seen, lang))
    yield from (origin.path(folder) for _, _, origin in wanted)


@dataclass
class _DevScores:
    """Scores of every checkpoint on dev rows, computed only if a selection method needs them."""

    system: Backend
    suite: Suite
    checkpoints: Sequence[Any]
    rows: TrainingRows
    on_source: list[float] = field(default_factory=list)

    def asked(self, mode: str, target: Target, data: Path) -> Mapping[str, Sequence[float]]:
        """Return the dev scores that ``mode`` needs for selection."""
        if len(self.checkpoints) == 1 or mode in ("last", "averaged"):
            return {}
        if mode == "oracle":
            return {mode: self._scores(_target_dev(target, data), target.lang)}
        if not self.on_source:
            self.on_source = self._scores(self.rows.dev, self.rows.lang)
        return {mode: self.on_source}

    def _scores(self, rows: Sequence[Example], lang: str) -> list[float]:
        metric = METRICS[self.suite.metric]
        predicted = [self.system.predict(c, self.suite, rows, lang) for c in self.checkpoints]
        return [evaluate(metric, rows, answers, lang)[0] for answers in predicted]


def _target_dev(target: Target, data: Path) -> list[Example]:
    """Return dev rows of the target language that are not the scored ones.

    Raises:
        UserError: the scored rows are the dev rows, so there is nothing to choose on.
    """
    if target.split == "dev":
        raise UserError(
            f"select=oracle: the scored rows of {target.suite.name} in {target.lang!r} are its dev rows",
            "a suite with dev and test rows",
            "leave oracle out of select=",
        )
    return load(target.suite, target.lang, "dev", data)


def _translate(cfg: EvalConfig, system: Backend, target: Target, data: Path) -> Path:
    """Return the translations of one pair, computing missing ones."""
    made_by = f"no fine-tuning{_searched(cfg, target.suite)}"
    origin = _origin(cfg, system, target, FIXED_SEED, "none", made_by, data)
    origin = replace(origin, protocol="none", source="")
    folder = cfg.out / "predictions"
    if not predictions.exists(folder, origin):
        gold = load(target.suite, target.lang, target.split, data)
        predictions.write(folder, origin, gold, system.predict(None, target.suite, gold, target.lang))
    return origin.path(folder)


def _origin(
    cfg: EvalConfig, system: Backend, target: Target, seed: int, mode: str, made_by: str, data: Path
) -> Origin:
    return Origin(
        suite=target.suite.name,
        lang=target.lang,
        split=target.split,
        system=system.name,
        seed=seed,
        protocol=cfg.protocol,
        select=mode,
        source=cfg.source,
        checkpoint=system.digest,
        extra=made_by,
        rows=data_digest(target.suite, target.lang, target.split, data),
    )


def _trained_on(
    cfg: EvalConfig, suite: Suite, langs: Sequence[str], fit: FitConfig | None, data: Path
) -> str:
    """Return the part of a signature about fine-tuning: data digests and settings."""
    home, protocol = training_suite(suite), PROTOCOLS[cfg.protocol]
    train_langs = dict.fromkeys([cfg.source, *(langs if protocol.train_on != "source" else ())])
    times = f"x{len(train_langs)}" if protocol.train_on == "translated_all" and len(train_langs) > 1 else ""
    parts = [
        f"{lang}/{split}/{data_digest(home, lang, split, data)}"
        for lang in train_langs
        for split in ("train", "dev")
        if split in home.splits and home.has(lang, split, data)
    ]
    for name in cfg.train_with:
        _, split = rows_of_others(suite, name, cfg.source, data)
        parts.append(f"{name}/{split}/{data_digest(suites()[name], cfg.source, split, data)}")
    shots = cfg.shots if protocol.train_on == "shots" else 0
    parts.append(json.dumps([shots, to_dict(fit)], sort_keys=True))
    parts += [manifest.digest(Path(path)) for path in fit.switch.values()] if fit else []
    parts += [manifest.digest(fit.project)] if fit and fit.project else []
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    split = f"/{cfg.train_split}" if cfg.train_split != "train" else ""
    rows = f"|rows:{cfg.train_rows}{times}" if cfg.train_rows else ""
    rows += f"|with:{'+'.join(cfg.train_with)}" if cfg.train_with else ""
    switched = f"|switch:{'+'.join(sorted(fit.switch))}" if fit and fit.switch else ""
    switched += "|projected" if fit and fit.project else ""
    small = "|int8" if fit and cfg.int8 else ""
    return f"train:{home.name}{split}{rows}|shots:{shots}|fit:{digest[:12]}{switched}{small}"


def _written_by(cfg: EvalConfig, suite: Suite) -> str:
    """Return the part of a signature about the translation of rows: model and search."""
    protocol = PROTOCOLS[cfg.protocol]
    translates = protocol.test_on == "translated" or protocol.train_on in ("translated", "translated_all")
    if not (cfg.translator and translates):
        return _searched(cfg, suite)
    return f"|mt:{manifest.digest(cfg.translator)[:12]}{_search_of(cfg)}{_searched(cfg, suite)}"


def _searched(cfg: EvalConfig, suite: Suite) -> str:
    """Return the part of a signature about text generation; empty if no texts are generated."""
    return _search_of(cfg) if suite.shape.is_slow else ""


def _search_of(cfg: EvalConfig) -> str:
    how = cfg.search
    return f"|beam:{how.beam}|length:{how.length_penalty:g},{how.max_len_a:g},{how.max_len_b}"
