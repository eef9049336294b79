"""Groups of suites with the averages of their papers: ``xtreme``, ``xtreme_r`` and ``xglue``.

Sources: Hu et al. 2020, XTREME, table 2: the overall number is the mean over nine tasks, a question-answering task
counting as the mean of its F1 and exact match. Ruder et al. 2021, XTREME-R: ten tasks, a question-answering task
counting by its F1. Its parts of speech, names and Tatoeba have more languages than XTREME's, which are averaged here.
Liang et al. 2020, XGLUE, table 5: the mean over its understanding tasks of each task's main metric.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xling.core.errors import UserError
from xling.core.package_tables import load_table
from xling.core.registry import Registry
from xling.eval.rows.suite import suites
from xling.eval.scores.score_file import Score
from xling.eval.tables.columns import Column, ScoresBySeed, by_column


@dataclass(frozen=True)
class Group:
    """A benchmark that consists of suites.

    Args:
        name: registry name.
        tasks: (task as the paper calls it, suite, metrics whose mean is the task's number).
        citation: citation of the paper.
    """

    name: str
    tasks: tuple[tuple[str, str, tuple[str, ...]], ...]
    citation: str

    def here(self) -> list[str]:
        """Return the suites of the group."""
        return [suite for _, suite, _ in self.tasks]


@dataclass(frozen=True)
class GroupScore:
    """One system's numbers on a group; no ``average`` when a task is missing and that was not allowed."""

    system: str
    tasks: dict[str, float]
    average: float | None
    missing: tuple[str, ...]


GROUPS: Registry[Group] = Registry("group of suites")
for _name, _entry in load_table(__package__, "groups.yaml").items():
    _words = {task: words.split() for task, words in _entry["tasks"].items()}
    _tasks = tuple((task, suite, tuple(metrics)) for task, (suite, *metrics) in _words.items())
    GROUPS.add(_name, Group(_name, _tasks, _entry["citation"]))


def group_scores(group: Group, scores: Sequence[Score], allow_missing: bool = False) -> list[GroupScore]:
    """Return one number per task and system, averaged over the languages of the published suite, and their mean.

    A task counts only when every published language of its suite has a score for every metric, and the
    group's average is given only when every task counts, unless ``allow_missing``, which names what is
    missing.

    Raises:
        UserError: no score belongs to the group.
    """
    table = by_column(scores)
    systems = list(dict.fromkeys(c.system for c in table if c.suite in group.here()))
    if not systems:
        raise UserError(
            f"no scores of a suite of {group.name}",
            f"scores of {', '.join(group.here())}",
            "evaluate one of them first",
        )
    results = []
    for system in systems:
        tasks: dict[str, float] = {}
        missing: list[str] = []
        for task, suite, metrics in group.tasks:
            parts = [_over_languages(table, suite, metric, system) for metric in metrics]
            gone = sorted({lang for _, absent in parts for lang in absent})
            values = [value for value, _ in parts if value is not None]
            if gone or len(values) < len(metrics):
                missing.append(f"{task} in {' '.join(gone)}" if values and gone else task)
            if values and len(values) == len(metrics) and (allow_missing or not gone):
                tasks[task] = statistics.fmean(values)
        mean = statistics.fmean(tasks.values()) if tasks and (allow_missing or not missing) else None
        results.append(GroupScore(system, tasks, mean, tuple(missing)))
    return results


def group_notes(group: Group, scores: Sequence[Score], allow_missing: bool = False) -> list[str]:
    """Return one sentence per system with the group's average, or with what is missing for it."""
    notes = []
    for score in group_scores(group, scores, allow_missing):
        tasks = (
            ", ".join(f"{task} {value:.1f}" for task, value in score.tasks.items()) or "no task is complete"
        )
        mean = "no average" if score.average is None else f"average {score.average:.1f}"
        gone = f"; missing: {'; '.join(score.missing)}" if score.missing else ""
        notes.append(f"{group.name}, {score.system}: {mean} ({tasks}){gone}.")
    return notes


def _over_languages(
    table: Mapping[Column, ScoresBySeed], suite: str, metric: str, system: str
) -> tuple[float | None, list[str]]:
    """Return the mean over the published languages that have a score, and those without one."""
    suite_langs = suites()[suite].languages
    column = next((c for c in table if (c.suite, c.metric, c.system) == (suite, metric, system)), None)
    if column is None:
        return None, list(suite_langs)
    values = [statistics.fmean(table[column][lang].values()) for lang in suite_langs if lang in table[column]]
    return statistics.fmean(values) if values else None, [x for x in suite_langs if x not in table[column]]
