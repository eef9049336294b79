"""Pairwise comparison of systems on the same rows, each with the first: differences, intervals and significance.

A system is a column of the tables: the predictions of one name in one run, or the texts that a translation
model wrote. The test is that of `xling.eval.scores.statistics.compare`. P-values of averages are adjusted for their
number (Holm 1979).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from xling.core import languages
from xling.core.errors import UserError
from xling.eval.metrics import METRICS
from xling.eval.metrics.base import Array, Metric
from xling.eval.report import artifacts
from xling.eval.report.artifacts import Artifact, Run
from xling.eval.rows.suite import data_folder
from xling.eval.scores import compare, predictions, statistics
from xling.eval.scores.predictions import Scored
from xling.eval.scores.score_file import CONTROLS
from xling.eval.scores.statistics import Comparison, Paired
from xling.eval.tables.averaged import published_of

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Float64

AVERAGE = "average"
Key = tuple[str, ...]


@dataclass(frozen=True)
class Answers:
    """Answers of one system to the rows of one language.

    Attributes:
        metric: metric of the score.
        rows: identity of the rows, to check that two systems had the same.
        blocks: dependence between rows, see `xling.eval.scores.statistics.Answered`.
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
    answers: Mapping[Key, Callable[[], Answers]]
    control: bool = False
    scored: Mapping[Key, Callable[[], Scored]] = field(default_factory=dict)
    """The same with rows and answers, if predictions are available."""


@dataclass(frozen=True)
class Test:
    """A test of one system against another.

    Attributes:
        after: the tested system.
        before: the reference system.
        suite: the suite.
        metric: its main metric.
        lang: a language, or `AVERAGE` over ``langs`` and seeds: those of the first table of a report.
        langs: languages of the average.
        scores: scores of ``before`` and of ``after``.
        comparison: difference, interval and p.
        p_holm: p adjusted for the number of averages tested; None for a single language.
    """

    after: str
    before: str
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
    names = artifacts.names_of(runs)
    for run in runs:
        places = _data_of_files(run, data)
        mine: dict[tuple[str, str], dict[Key, Callable[[], Answers]]] = {}
        rows: dict[tuple[str, str], dict[Key, Callable[[], Scored]]] = {}
        known: dict[Key, list[tuple[str, str]]] = {}
        for path, place in sorted(places.items()):
            origin = predictions.read_origin(path)
            key = (origin.lang, origin.split, origin.protocol, origin.select, origin.source, str(origin.seed))
            read = partial(compare.main_score, path, place)
            rows.setdefault((origin.suite, origin.system), {})[key] = read
            # Every system is compared with several others: its answers are read once.
            mine.setdefault((origin.suite, origin.system), {})[key] = cache(partial(_answers, read, known))
        for published in run.artifacts:
            for item in artifacts.written(published) if published.stage in artifacts.TEXT_STAGES else ():
                if item.stats is not None:
                    system = artifacts.label(published.path, run.folder)
                    mine.setdefault((published.stage, system), {})[(item.lang,)] = _texts(item.stats)
        for (suite, system), answers in mine.items():
            inherited = (
                f"{run.name} {system}" if len(runs) > 1 else system
            )  # an input of the run, not in its tables
            if name := names.get((run.name, suite, system), inherited):
                by_row = rows.get((suite, system), {})
                systems.append(System(name, suite, answers, system in CONTROLS, by_row))
    return systems


def _data_of_files(run: Run, data: Path | None) -> dict[Path, Path]:
    """Return the files of predictions of a run, each with the folder of the suites that it was scored on.

    A run may hold evaluations on several folders, for example on rows that another model has labelled.
    """
    places: dict[Path, Path] = {}
    elsewhere = data or data_of(run)
    for published in run.artifacts:
        place = data or _data_setting(published) or elsewhere
        if published.stage == "eval" and place:
            files = map(Path, published.manifest.inputs)
            places |= {path: place for path in files if path.suffix == ".parquet" and path.is_file()}
    return places


def _data_setting(published: Artifact) -> Path | None:
    place = published.manifest.counts.get("made_by", {}).get("settings", {}).get("data")
    return Path(place) if place and Path(place).is_dir() else None


def data_of(run: Run) -> Path | None:
    """Return the folder of the suites that a run was scored on."""
    for published in run.artifacts:
        if place := _data_setting(published):
            return place
    try:
        return data_folder(None)
    except UserError:
        return None


def _answers(read: Callable[[], Scored], known: dict[Key, list[tuple[str, str]]]) -> Answers:
    """Return answers; systems with the same rows share one list of them, kept in ``known``."""
    scored = read()
    rows = [(row.id, repr(row.label)) for row in scored.rows]
    kept = known.setdefault((scored.origin.suite, scored.origin.lang, scored.origin.split), rows)
    return Answers(scored.metric, kept if kept == rows else rows, scored.stats, scored.blocks)


def _texts(rows: Array) -> Callable[[], Answers]:
    return lambda: Answers(METRICS["bleu"], [(str(i), "") for i in range(len(rows))], rows)


def tests(systems: Sequence[System]) -> tuple[list[Test], list[str]]:
    """Return each suite's average and languages: every system against the first that has the suite.

    A suite with one system alone is tested against its control ``random``, if that was run.

    Returns:
        Averages first, then languages; sentences on what could not be compared.
    """
    averages: list[Test] = []
    single: list[Test] = []
    notes: list[str] = []
    for suite in dict.fromkeys(system.suite for system in systems):
        there = [s for s in systems if s.suite == suite]
        real = [s for s in there if not s.control]
        if len(real) == 1:
            real = [*(s for s in there if s.name == "random"), *real]
        for system in real[1:]:
            try:
                results = _versus(real[0], system)
            except ValueError as error:
                notes.append(str(error))
                continue
            averages += results[:1]
            single += results[1:]
    return [*holm(averages), *single], notes


def average_of(before: System, after: System) -> Test:
    """Test the average of two systems over languages and seeds.

    Raises:
        ValueError: the systems were scored on other rows, or have nothing in common.
    """
    return _versus(before, after, with_languages=False)[0]


def average_scores(before: System, after: System) -> tuple[float, float]:
    """Return the scores of two systems averaged over languages and seeds, with a sign so that larger is better.

    Raises:
        ValueError: as `average_of`.
    """
    pairs, scores, metric, averaged = _paired(before, after)
    chosen = [scores[key] for key in pairs if key[0] in averaged]
    sign = 1.0 if metric.higher_is_better else -1.0
    first, second = (sign * sum(score[side] for score in chosen) / len(chosen) for side in (0, 1))
    return first, second


def _versus(before: System, after: System, with_languages: bool = True) -> list[Test]:
    suite = after.suite
    pairs, scores, metric, averaged = _paired(before, after)
    langs = tuple(dict.fromkeys(key[0] for key in pairs))

    def test(lang: str, chosen: Sequence[Key]) -> Test:
        name = f"{suite}/{before.name}/{after.name}/{lang}"
        result = statistics.compare([pairs[key] for key in chosen], metric, name)
        means = [sum(scores[key][side] for key in chosen) / len(chosen) for side in (0, 1)]
        over = averaged if lang == AVERAGE else (lang,)
        return Test(after.name, before.name, suite, metric.name, lang, over, (means[0], means[1]), result)

    whole = test(AVERAGE, [key for key in pairs if key[0] in averaged])
    if len(langs) == 1 or not with_languages:
        return [whole]
    return [whole, *(test(lang, [key for key in pairs if key[0] == lang]) for lang in langs)]


def _paired(
    before: System, after: System
) -> tuple[dict[Key, Paired], dict[Key, tuple[float, float]], Metric, tuple[str, ...]]:
    """Return the answers of both systems, their scores, the metric, and the languages of the average."""
    suite = after.suite
    keys = _common(before, after)
    if not keys:
        raise ValueError(
            f"{suite}: {after.name} and {before.name} have no language, protocol and seed in common."
        )
    pairs: dict[Key, Paired] = {}
    scores: dict[Key, tuple[float, float]] = {}
    for key, other in keys:
        a, b = before.answers[key](), after.answers[other]()
        if a.rows != b.rows:
            raise ValueError(f"{suite} {key[0]}: {after.name} and {before.name} were scored on other rows.")
        seed = int(key[-1]) if len(key) > 1 else -1
        items = [f"{key[1] if len(key) > 1 else ''} {name}" for name, _ in a.rows]
        pairs[key] = Paired(key[0], a.stats, b.stats, items, a.blocks, seed)
        first, second = (float(a.metric.reduce(x.stats.sum(axis=0))) for x in (a, b))
        scores[key] = (first, second)
    return pairs, scores, a.metric, _averaged(suite, keys, a.metric)


def _averaged(suite: str, keys: Sequence[tuple[Key, Key]], metric: Metric) -> tuple[str, ...]:
    """Return the languages of an average as the first table shows it: without those that a system was trained in."""
    langs = published_of(suite, list(dict.fromkeys(key[0] for key, _ in keys)), metric.name)
    sources = {key[4] for pair in keys for key in pair if len(key) > 4}
    others = [lang for lang in langs if not any(languages.is_same(lang, source) for source in sources)]
    return tuple(others or langs)


def _common(before: System, after: System) -> list[tuple[Key, Key]]:
    """Return the keys under which both systems answered the same rows with the same seed.

    Systems that learned in different ways have no protocol or source in common. Then language, split and seed count, if
    each system has learned in one way.
    """
    if same := sorted(before.answers.keys() & after.answers.keys()):
        return [(key, key) for key in same]
    short = [
        {(*key[:2], key[-1]): key for key in system.answers if len(key) > 1} for system in (before, after)
    ]
    if any(len(keys) < len(system.answers) for keys, system in zip(short, (before, after), strict=True)):
        return []
    return [(short[0][key], short[1][key]) for key in sorted(short[0].keys() & short[1].keys())]


def holm(results: Sequence[Test]) -> list[Test]:
    """Adjust the p-values of tests by Holm's method."""
    order = sorted(range(len(results)), key=lambda i: results[i].comparison.p_two_sided)
    adjusted, least = list(results), 0.0
    for rank, i in enumerate(order):
        least = max(least, min(1.0, (len(results) - rank) * results[i].comparison.p_two_sided))
        adjusted[i] = replace(results[i], p_holm=least)
    return adjusted
