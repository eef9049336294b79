"""The suites of an evaluation that have rows, for pipelines that leave out what is missing."""

from dataclasses import replace
from pathlib import Path

from xling.core import languages
from xling.core.errors import UserError
from xling.eval.rows.own import with_own_suite
from xling.eval.rows.own_files import KIND_OF, settings_given
from xling.eval.rows.protocols import rows_of_others, training_suite
from xling.eval.rows.suite import Suite, data_folder, languages_at, scorable_splits, suites
from xling.eval.run.evaluation import with_own_files
from xling.eval.run.finetune import FinetuneConfig, suites_of
from xling.eval.run.plan import expand
from xling.eval.run.settings import EvalConfig
from xling.eval.tables.groups import GROUPS


def known_names() -> list[str]:
    """Return what ``xling eval`` and ``xling finetune`` may be followed by: suites, groups, kinds of own files."""
    return [*suites(), *GROUPS, *KIND_OF]


def available(cfg: EvalConfig) -> tuple[EvalConfig | None, list[str]]:
    """Return the settings without the suites that have no rows, None if none is left, and what is missing.

    Raises:
        UserError: an unknown suite, no data folder, or own files that cannot be read.
    """
    if settings_given(cfg):
        with_own_files(cfg)
        return cfg, []
    data = data_folder(cfg.data)
    names = expand(cfg.suites)
    problems = {name: problem for name in names if (problem := _problem(suites()[name], cfg, data))}
    kept = tuple(name for name in names if name not in problems)
    others, other_problems = [], []
    for name in cfg.train_with if kept else ():
        try:
            rows_of_others(suites()[kept[0]], name, cfg.source, data)
            others.append(name)
        except UserError as error:
            other_problems.append(str(error))
    notes = [*problems.values(), *other_problems]
    if not notes:
        return cfg, []
    return (replace(cfg, suites=kept, train_with=tuple(others)) if kept else None), notes


def trainable(cfg: FinetuneConfig) -> tuple[FinetuneConfig | None, list[str]]:
    """Return the settings of a fine-tuning, None without its training rows, and what is missing; see `available`."""
    if settings_given(cfg):
        with_own_suite(cfg, "suite", "train")
        return cfg, []
    data = data_folder(cfg.data)
    trains = map(training_suite, suites_of(cfg))
    problems = [
        f"no train rows of {train.name} in {cfg.source} below {data}; they belong at {'  '.join(train.patterns)}"
        for train in trains
        if not train.has(cfg.source, "train", data)
    ]
    return (None if problems else cfg), problems


def _problem(suite: Suite, cfg: EvalConfig, data: Path) -> str:
    """Return what an evaluation of a suite lacks, or ""."""
    splits = [split for split in dict.fromkeys((*scorable_splits(suite), "dev")) if split in suite.all_splits]
    langs = {lang for split in splits for lang in languages_at(suite, split, data)}
    wanted = set(cfg.langs if suite.pairs else map(languages.canonical, cfg.langs)) or langs
    if not langs & wanted:
        return f"no rows of {suite.name} below {data}; they belong at {'  '.join(suite.patterns)}"
    needs_training = suite.task and suite.shape.is_tuned and set(cfg.systems) - {"dictionary"}
    train_suite = training_suite(suite)
    if (
        needs_training
        and cfg.protocol == "zero_shot"
        and not train_suite.has(cfg.source, cfg.train_split, data)
    ):
        return (
            f"no {cfg.train_split} rows of {train_suite.name} in {cfg.source} below {data}, on which "
            f"{suite.name} trains; they belong at {'  '.join(train_suite.patterns)}"
        )
    return ""
