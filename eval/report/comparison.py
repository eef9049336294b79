"""Pairwise comparison of systems on the same rows, each with the first: differences, intervals and significance.

A system is a column of the tables: the predictions of one name in one run, or the texts that a translation
model wrote. The test is that of `xling.eval.scores.statistics.compare_systems`. P-values of averages are
adjusted for their number (Holm 1979). `rank_groups` groups systems that a test cannot distinguish.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from xling.array_types import Float64
from xling.core import languages
from xling.core.errors import UserError
from xling.core.progress import Progress
from xling.eval.metrics import METRICS
from xling.eval.metrics.base import Array, Metric
from xling.eval.report import artifacts
from xling.eval.report.artifacts import Artifact, Run
from xling.eval.rows.suite import data_folder
from xling.eval.scores import predictions, statistics
from xling.eval.scores.predictions import ScoredPredictions
from xling.eval.scores.score_file import CONTROLS
from xling.eval.scores.statistics import Comparison, PairedStatistics
from xling.eval.tables.columns import averaged_in_publication
from xling.eval.tables.publish import notes_on_placeholders

AVERAGE = "average"
SIGNIFICANCE_LEVEL = 0.05
Key = tuple[str, ...]


@dataclass(frozen=True)
class SystemAnswers:
    """Answers of one system to the rows of one language.

    Attributes:
        rows: identity of the rows, to check that two systems had the same.
        blocks: dependence between rows, see `xling.eval.scores.statistics.RowStatistics`.
        stats: row statistics (num_rows, num_stats).
    """

    metric: Metric
    rows: list[tuple[str, str]]
    stats: Float64[np.ndarray, "rows stats"]
    blocks: Sequence[Hashable] = ()


@dataclass(frozen=True)
class System:
    """A system in one suite: (lang, split, protocol, select, source, seed) -> how to get its answers."""

    name: str
    suite: str
    answers: Mapping[Key, Callable[[], SystemAnswers]]
    control: bool = False
    scored: Mapping[Key, Callable[[], ScoredPredictions]] = field(default_factory=dict)
    """The same with rows and answers, if predictions are available."""


@dataclass(frozen=True)
class Test:
    """A test of one system against another.

    Attributes:
        baseline: the reference system.
        metric: its main metric.
        lang: a language, or `AVERAGE` over ``langs`` and seeds: those of the first table of a report.
        langs: languages of the average.
        scores: scores of ``baseline`` and of ``system``.
        comparison: difference, interval and p.
        p_holm: p adjusted for the number of averages tested; None for a single language.
    """

    system: str
    baseline: str
    suite: str
    metric: str
    lang: str
    langs: tuple[str, ...]
    scores: tuple[float, float]
    comparison: Comparison
    p_holm: float | None = None


def systems_of(runs: Sequence[Run], data: Path | None) -> list[System]:
    """Return every system of the runs with saved answers, under its name in the tables."""
    systems: list[System] = []
    names = artifacts.system_names(runs)
    for run in runs:
        data_folders = _data_of_files(run, data)
        answers_of_systems: dict[tuple[str, str], dict[Key, Callable[[], SystemAnswers]]] = {}
        scored_of_systems: dict[tuple[str, str], dict[Key, Callable[[], ScoredPredictions]]] = {}
        rows_of_keys: dict[Key, list[tuple[str, str]]] = {}
        for path, suite_folder in sorted(data_folders.items()):
            origin = predictions.read_origin(path)
            key = (origin.lang, origin.split, origin.protocol, origin.select, origin.source, str(origin.seed))
            read_scored = partial(predictions.main_score, path, suite_folder)
            scored_of_systems.setdefault((origin.suite, origin.system), {})[key] = read_scored
            # Every system is compared with several others: its answers are read once.
            answers_of_systems.setdefault((origin.suite, origin.system), {})[key] = cache(
                partial(_read_answers, read_scored, rows_of_keys)
            )
        for artifact in run.artifacts:
            for item in artifacts.written_texts(artifact) if artifact.stage in artifacts.TEXT_STAGES else ():
                if item.stats is not None:
                    system = artifacts.label(artifact.path, run.folder)
                    answers_of_systems.setdefault((artifact.stage, system), {})[(item.lang,)] = (
                        _answers_of_texts(item.stats)
                    )
        for (suite, system), answers in answers_of_systems.items():
            # An input of the run, not in its tables.
            default_name = f"{run.name} {system}" if len(runs) > 1 else system
            if name := names.get((run.name, suite, system), default_name):
                by_row = scored_of_systems.get((suite, system), {})
                systems.append(System(name, suite, answers, system in CONTROLS, by_row))
    return systems


def notes_on_rows(runs: Sequence[Run], data: Path | None) -> list[str]:
    """Return the notes of the runs' tables on placeholders in the scored rows, with the scores without them."""
    notes: list[str] = []
    for run in runs:
        files: dict[Path, list[Path]] = {}
        for path, folder in _data_of_files(run, data).items():
            files.setdefault(folder, []).append(path)
        for folder, paths in files.items():
            try:
                notes += notes_on_placeholders(paths, folder)
            except UserError as error:
                notes.append(str(error))
    return list(dict.fromkeys(notes))


def _data_of_files(run: Run, data: Path | None) -> dict[Path, Path]:
    """Return the files of predictions of a run, each with the folder of the suites that it was scored on.

    A run may hold evaluations on several folders, for example on rows that another model has labelled.
    """
    data_folders: dict[Path, Path] = {}
    default_folder = data or data_folder_of(run)
    for artifact in run.artifacts:
        folder = data or _data_folder_in_settings(artifact) or default_folder
        if artifact.stage == "eval" and folder:
            files = map(Path, artifact.manifest.inputs)
            data_folders |= {path: folder for path in files if path.suffix == ".parquet" and path.is_file()}
    return data_folders


def _data_folder_in_settings(artifact: Artifact) -> Path | None:
    folder = artifact.manifest.counts.get("made_by", {}).get("settings", {}).get("data")
    return Path(folder) if folder and Path(folder).is_dir() else None


def data_folder_of(run: Run) -> Path | None:
    """Return the folder of the suites that a run was scored on."""
    for artifact in run.artifacts:
        if place := _data_folder_in_settings(artifact):
            return place
    try:
        return data_folder(None)
    except UserError:
        return None


def _read_answers(
    read_scored: Callable[[], ScoredPredictions], rows_of_keys: dict[Key, list[tuple[str, str]]]
) -> SystemAnswers:
    """Return answers; systems with the same rows share one list of them, kept in ``rows_of_keys``."""
    scored = read_scored()
    rows = [(row.id, repr(row.label)) for row in scored.rows]
    shared_rows = rows_of_keys.setdefault(
        (scored.origin.suite, scored.origin.lang, scored.origin.split), rows
    )
    return SystemAnswers(
        scored.metric, shared_rows if shared_rows == rows else rows, scored.stats, scored.blocks
    )


def _answers_of_texts(rows: Array) -> Callable[[], SystemAnswers]:
    return lambda: SystemAnswers(METRICS["bleu"], [(str(i), "") for i in range(len(rows))], rows)


def test_systems(systems: Sequence[System]) -> tuple[list[Test], list[str]]:
    """Return each suite's average and languages: every system against the first that has the suite.

    A suite with one system alone is tested against its control ``random``, if that was run.

    Returns:
        Averages first, then languages; sentences on what could not be compared.
    """
    averages: list[Test] = []
    language_tests: list[Test] = []
    notes: list[str] = []
    pairs: list[tuple[System, System]] = []
    for suite in dict.fromkeys(system.suite for system in systems):
        systems_of_suite = [s for s in systems if s.suite == suite]
        models = [s for s in systems_of_suite if not s.control]
        if len(models) == 1:
            models = [*(s for s in systems_of_suite if s.name == "random"), *models]
        pairs += [(models[0], system) for system in models[1:]]
    with Progress("report: compare", len(pairs), "systems") as progress:
        for baseline, system in pairs:
            progress.update()
            try:
                results = _compare_pair(baseline, system)
            except ValueError as error:
                notes.append(str(error))
                continue
            averages += results[:1]
            language_tests += results[1:]
    return [*holm(averages), *language_tests], notes


def average_scores(baseline: System, system: System) -> tuple[float, float]:
    """Return the scores of two systems averaged over languages and seeds, with a sign so that larger is better.

    Raises:
        ValueError: the systems were scored on other rows, or have nothing in common.
    """
    pairs, scores, metric, averaged = _pair_answers(baseline, system)
    chosen = [scores[key] for key in pairs if key[0] in averaged]
    sign = 1.0 if metric.higher_is_better else -1.0
    baseline_score, system_score = (
        sign * sum(score[side] for score in chosen) / len(chosen) for side in (0, 1)
    )
    return baseline_score, system_score


def _compare_pair(baseline: System, system: System, with_languages: bool = True) -> list[Test]:
    suite = system.suite
    pairs, scores, metric, averaged = _pair_answers(baseline, system)
    langs = tuple(dict.fromkeys(key[0] for key in pairs))

    def test(lang: str, test_keys: Sequence[Key]) -> Test:
        name = f"{suite}/{baseline.name}/{system.name}/{lang}"
        result = statistics.compare_systems([pairs[key] for key in test_keys], metric, name)
        means = [sum(scores[key][side] for key in test_keys) / len(test_keys) for side in (0, 1)]
        test_langs = averaged if lang == AVERAGE else (lang,)
        return Test(
            system.name, baseline.name, suite, metric.name, lang, test_langs, (means[0], means[1]), result
        )

    average_test = test(AVERAGE, [key for key in pairs if key[0] in averaged])
    if len(langs) == 1 or not with_languages:
        return [average_test]
    return [average_test, *(test(lang, [key for key in pairs if key[0] == lang]) for lang in langs)]


def _pair_answers(
    baseline: System, system: System
) -> tuple[dict[Key, PairedStatistics], dict[Key, tuple[float, float]], Metric, tuple[str, ...]]:
    """Return the answers of both systems, their scores, the metric, and the languages of the average."""
    suite = system.suite
    keys = _common_keys(baseline, system)
    if not keys:
        raise ValueError(
            f"{suite}: {system.name} and {baseline.name} have no language, protocol and seed in common."
        )
    pairs: dict[Key, PairedStatistics] = {}
    scores: dict[Key, tuple[float, float]] = {}
    for key, system_key in keys:
        a, b = baseline.answers[key](), system.answers[system_key]()
        if a.rows != b.rows:
            raise ValueError(
                f"{suite} {key[0]}: {system.name} and {baseline.name} were scored on other rows."
            )
        seed = int(key[-1]) if len(key) > 1 else -1
        items = [f"{key[1] if len(key) > 1 else ''} {name}" for name, _ in a.rows]
        pairs[key] = PairedStatistics(key[0], a.stats, b.stats, items, a.blocks, seed)
        first, second = (float(a.metric.reduce(x.stats.sum(axis=0))) for x in (a, b))
        scores[key] = (first, second)
    # The average is that of the first table: without languages that a system was trained in.
    langs = averaged_in_publication(suite, list(dict.fromkeys(key[0] for key, _ in keys)), a.metric.name)
    sources = {key[4] for pair in keys for key in pair if len(key) > 4}
    others = [lang for lang in langs if not any(languages.is_same(lang, source) for source in sources)]
    return pairs, scores, a.metric, tuple(others or langs)


def _common_keys(baseline: System, after: System) -> list[tuple[Key, Key]]:
    """Return the keys under which both systems answered the same rows with the same seed.

    Systems that learned in different ways have no protocol or source in common. Then language, split and seed count, if
    each system has learned in one way.
    """
    if same := sorted(baseline.answers.keys() & after.answers.keys()):
        return [(key, key) for key in same]
    short_keys = [
        {(*key[:2], key[-1]): key for key in system.answers if len(key) > 1} for system in (baseline, after)
    ]
    if any(
        len(keys) < len(system.answers) for keys, system in zip(short_keys, (baseline, after), strict=True)
    ):
        return []
    return [
        (short_keys[0][key], short_keys[1][key])
        for key in sorted(short_keys[0].keys() & short_keys[1].keys())
    ]


def holm(results: Sequence[Test]) -> list[Test]:
    """Adjust the p-values of tests by Holm's method."""
    order = sorted(range(len(results)), key=lambda i: results[i].comparison.p_two_sided)
    adjusted, largest = list(results), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(results) - rank) * results[i].comparison.p_two_sided))
        adjusted[i] = replace(results[i], p_holm=largest)
    return adjusted


def rank_groups(systems: Sequence[System]) -> dict[tuple[str, str], int]:
    """Return (suite, system) -> rank of its group, from 1.

    Systems are sorted by their averages. The best opens the first group. Each further system is tested
    against the system that opened the last group. If p is at most `SIGNIFICANCE_LEVEL`, divided by the
    number of tests of the suite, it opens the next group. So systems of one group are not distinguishable
    from its first, and each group's first is significantly worse than that of the group before. A suite with
    systems that were scored on other rows, or with fewer than two, has no ranks.

    Args:
        systems: systems with their answers, including controls.
    """
    ranks: dict[tuple[str, str], int] = {}
    for suite in dict.fromkeys(system.suite for system in systems):
        there = [system for system in systems if system.suite == suite]
        if len(there) < 2:
            continue
        try:
            ranks |= {(suite, name): rank for name, rank in _rank_systems(there).items()}
        except ValueError:
            # `tests` reports systems with other rows.
            continue
    return ranks


def _rank_systems(systems: Sequence[System]) -> dict[str, int]:
    against = {s.name: average_scores(systems[0], s) for s in systems[1:]}
    score = {name: scores[1] for name, scores in against.items()}
    score[systems[0].name] = next(iter(against.values()))[0]
    order = sorted(systems, key=lambda s: -score[s.name])
    level, best_of_rank, ranks = SIGNIFICANCE_LEVEL / (len(order) - 1), order[0], {order[0].name: 1}
    for system in order[1:]:
        test = _compare_pair(best_of_rank, system, with_languages=False)[0]
        worse = test.comparison.p_two_sided <= level and test.comparison.difference < 0
        ranks[system.name] = ranks[best_of_rank.name] + worse
        best_of_rank = system if worse else best_of_rank
    return ranks
