"""Publication of scores and tables of prediction files; ``xling eval rescore`` does this without a model."""

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

from xling.core import signals
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import Answer
from xling.core.settings.config import to_dict
from xling.eval.metrics import METRICS
from xling.eval.rows.own import data_of
from xling.eval.rows.placeholders import count_placeholders, has_placeholder, placeholder_text
from xling.eval.rows.protocols import PROTOCOLS
from xling.eval.rows.suite import Suite, data_digest, suites
from xling.eval.scores import predictions, score_file, statistics
from xling.eval.scores.predictions import Origin
from xling.eval.scores.score_file import CONTROLS, PUBLISHED, Average, Score
from xling.eval.scores.statistics import RowStatistics
from xling.eval.tables import render, score_table
from xling.eval.tables.columns import Column, column_of, unique_title
from xling.eval.tables.groups import GROUPS, group_notes
from xling.eval.tables.published import PUBLISHED_FILE, published_scores
from xling.eval.tables.score_table import ScoreTable, read_sizes
from xling.pages import page


@dataclass(frozen=True)
class TableConfig:
    """Content of the tables besides the scores.

    Args:
        title: heading.
        allow_missing: average over the languages that have a score, and list the missing ones.
        by: further averages by ``family`` or ``script``.
        published: add published results of the same suites and protocol.
        corpus_sizes: table of language and size (tab-separated) for the rank correlation with the scores.
    """

    title: str = "Cross-lingual transfer"
    allow_missing: bool = False
    by: tuple[str, ...] = ()
    published: bool = False
    corpus_sizes: Path | None = None


def publish_tables(
    cfg: TableConfig,
    suite_names: Sequence[str],
    out: Path,
    files: Sequence[Path],
    data: Path,
    made_by: Mapping[str, Any],
    num_workers: int = 1,
) -> Answer:
    """Score prediction files and write the folder of tables, unless it was made of the same files.

    Args:
        suite_names: suites and groups as the user named them.
        made_by: stage and settings that made the predictions, for a report.
    """
    check_columns([predictions.read_origin(path) for path in files])
    settings = {"table": cfg, "suites": suite_names, "rows": _rows_digest(files, data)}
    inputs = [
        *files,
        *([cfg.corpus_sizes] if cfg.corpus_sizes else []),
        *([PUBLISHED_FILE] if cfg.published else []),
    ]
    if manifest.up_to_date(out, "eval", settings, inputs, replaceable=True):
        return _published_answer(out)
    answered = score_files(files, data, num_workers)
    scores = [score for score, _ in answered]
    averages = Averages(answered)
    table = table_of(cfg, suite_names, scores, averages, data)
    table = replace(table, notes=(*table.notes, *notes_on_placeholders(files, data)))
    with manifest.publish(out, "eval", settings, inputs) as publication:
        score_file.write_scores(publication.path / "scores.json", scores, averages.intervals.values())
        for name, write in render.FORMATS.items():
            text = write(table)
            text = page.html_document(cfg.title, text) if name == "html" else text
            (publication.path / f"table.{name}").write_text(text, encoding="utf-8")
        publication.counts |= {"scores": len(scores), "made_by": made_by}
    return _published_answer(out)


def check_columns(origins: Sequence[Origin]) -> None:
    """Refuse a column whose languages were answered by several models, or one of them twice.

    Raises:
        UserError: naming the two models and their languages, or the language with two files of answers.
    """
    models_of: dict[tuple[Any, ...], dict[str, list[Origin]]] = {}
    for origin in origins:
        column = (origin.suite, origin.system, origin.protocol, origin.select, origin.source, origin.seed)
        parts = origin.extra.split("|")
        if origin.protocol in PROTOCOLS and PROTOCOLS[origin.protocol].per_target:
            parts = [part for part in parts if not part.startswith("fit:")]
        model = "|".join([*parts, f"checkpoint:{origin.checkpoint[:12] or 'none'}"])
        models_of.setdefault(column, {}).setdefault(model, []).append(origin)
    for (suite, system, *_, seed), models in models_of.items():
        if len(models) > 1:
            two_models = [
                f"{' '.join(o.lang for o in part)} by {model}" for model, part in list(models.items())[:2]
            ]
            raise UserError(
                f"{suite}, {system}, seed {seed}: one column of several models: {'; '.join(two_models)}",
                "one training and one checkpoint for all languages of a column",
                f"predict all of them with the same settings: xling eval {suite} systems={system} "
                f"langs={','.join(o.lang for part in models.values() for o in part)}, or use another out=",
            )
        splits: dict[str, str] = {}
        for origin in (o for part in models.values() for o in part):
            if origin.lang in splits:
                raise UserError(
                    f"{suite}, {system}, seed {seed}: two files of answers in {origin.lang}, to {splits[origin.lang]} "
                    f"and {origin.split} rows",
                    "one file for each language of a column",
                    "remove one of them, or use another out= for another test set",
                )
            splits[origin.lang] = origin.split


def _published_answer(out: Path) -> Answer:
    scores = [asdict(score) for score in score_file.read_scores(out / "scores.json")]
    return Answer((out / "table.md").read_text(encoding="utf-8"), scores)


def check_workers(num_workers: int) -> None:
    """Refuse a number of processes below one (UserError)."""
    if num_workers < 1:
        raise UserError(f"num_workers={num_workers}", "a whole number from 1")


def score_files(files: Sequence[Path], data: Path, num_workers: int = 1) -> list[tuple[Score, RowStatistics]]:
    """Score files of predictions in order, with their rows, using any number of processes."""
    if num_workers == 1:
        return [pair for path in files for pair in predictions.read_row_statistics(path, data)]
    with ProcessPoolExecutor(num_workers, get_context("forkserver"), signals.end_with_parent) as pool:
        results = pool.map(predictions.read_row_statistics, files, [data] * len(files), chunksize=4)
        return [pair for pairs in results for pair in pairs]


class Averages:
    """Intervals of averages, computed from row statistics when a table asks for them and kept in ``intervals``."""

    def __init__(self, answered: Sequence[tuple[Score, RowStatistics]]) -> None:
        self.intervals: dict[tuple[Column, tuple[str, ...], bool], Average] = {}
        self._answered_in: dict[Column, list[RowStatistics]] = {}
        for score, part in answered:
            self._answered_in.setdefault(column_of(score), []).append(part)

    def __call__(self, column: Column, langs: Sequence[str], is_gap: bool) -> tuple[float, float] | None:
        """Return the interval of a column's mean over ``langs``, or of the source's lead over it."""
        key = (column, tuple(langs), is_gap)
        if column not in self._answered_in:
            return None
        if key not in self.intervals:
            own = {*langs, column.source} if is_gap else set(langs)
            parts = [part for part in self._answered_in[column] if part.lang in own]
            share = 1 / sum(part.lang in langs for part in parts)
            lead = 1 / max(1, sum(part.lang == column.source for part in parts))
            weights = [lead if part.lang == column.source else -share for part in parts] if is_gap else []
            name = f"{'/'.join(column)}/{'gap' if is_gap else 'average'}"
            metric = METRICS[column.metric]
            ends = statistics.average_interval(parts, metric, name, weights)
            if not is_gap:  # wide intervals of few items can exceed the range of a score
                ends = max(metric.lowest, ends[0]), min(100.0, ends[1]) if metric.share else ends[1]
            self.intervals[key] = Average(*column, tuple(langs), is_gap, *ends)
        return self.intervals[key].low, self.intervals[key].high


def table_of(
    cfg: TableConfig,
    suite_names: Sequence[str],
    scores: Sequence[Score],
    ends: score_table.AverageInterval,
    data: Path,
) -> ScoreTable:
    """Build the table of scores with the additional rows and columns of ``cfg``."""
    sizes = read_sizes(cfg.corpus_sizes) if cfg.corpus_sizes else {}
    table = score_table.language_table(
        [*scores, *(published_scores(scores, data) if cfg.published else [])],
        cfg.title,
        cfg.allow_missing,
        score_table.groups_of_languages(scores, cfg.by),
        sizes,
        ends,
    )
    groups = [GROUPS[name] for name in suite_names if name in GROUPS]
    notes = [note for group in groups for note in group_notes(group, scores, cfg.allow_missing)]
    tuned = [
        name
        for name in {score.suite for score in scores}
        if suites()[name].shape.is_tuned and suites()[name].task
    ]
    notes += notes_on_nothing_learned(scores, tuned)
    return replace(table, notes=(*table.notes, *notes))


def _rows_digest(files: Sequence[Path], data: Path) -> str:
    """Return a digest of the gold rows behind prediction files, so that changed data is scored again."""
    origins = [predictions.read_origin(path) for path in files]
    parts = sorted({data_digest(suites()[o.suite], o.lang, o.split, data) for o in origins})
    return hashlib.sha256("".join(parts).encode()).hexdigest()


@dataclass(frozen=True)
class RescoreConfig:
    """Settings of ``xling eval rescore``.

    Args:
        run: folder of a run; its ``predictions`` are scored and its ``tables`` written again.
        data: folder of the suites' files; default: what XLING_DATA names.
        table: the settings of the tables, named as in ``xling eval``.
        num_workers: processes that score files.
    """

    run: Path
    data: Path | None = None
    table: TableConfig = field(default_factory=TableConfig)
    num_workers: int = 1


def rescore(cfg: RescoreConfig) -> Answer:
    """Score every saved prediction of a run again and publish the tables; no model is needed."""
    check_workers(cfg.num_workers)
    files = predictions.files(cfg.run / "predictions")
    suite_names = tuple(dict.fromkeys(predictions.read_origin(path).suite for path in files))
    out = cfg.run / "tables"
    data = data_of(cfg.data, suite_names)
    made_by: Mapping[str, Any] = {"stage": "eval rescore", "settings": to_dict(replace(cfg, data=data))}
    if (out / manifest.FILE_NAME).is_file():
        made_by = manifest.read(out).counts.get("made_by", made_by)
    return publish_tables(cfg.table, suite_names, out, files, data, made_by, cfg.num_workers)


COMPARED = ("random", "majority")
"""Controls of which a model that has learned something is better."""
MAX_NAMED = 20
_REMEDIES = {
    True: "train longer (fit.epochs=) or on more rows, and compare the labels of both files",
    False: "use a model that was trained longer, or on pairs of these languages, and look at layer= and pooling=",
}


def notes_on_nothing_learned(scores: Sequence[Score], tuned_suites: Sequence[str]) -> list[str]:
    """Return a sentence on each system and suite whose scores are within their intervals of a control, or below it.

    Args:
        scores: those of a table; the interval of several seeds is the mean of theirs.
        tuned_suites: names of suites that systems are fine-tuned on.
    """
    by_system: dict[tuple[str, str, str], dict[str, list[Score]]] = defaultdict(lambda: defaultdict(list))
    for score in scores:
        if score.select != PUBLISHED and score.low is not None:
            by_system[score.suite, score.metric, score.system][score.lang].append(score)
    first_metric = {suite: metric for suite, metric, _ in reversed(by_system)}
    notes = []
    for (suite, metric, system), by_lang in by_system.items():
        if system.partition(",")[0] in CONTROLS or metric != first_metric[suite]:
            continue
        none_better = [
            f"{lang} ({control})"
            for lang, each in by_lang.items()
            if (control := _control(by_system, suite, metric, lang, each))
        ]
        if none_better:
            more = f" and {len(none_better) - MAX_NAMED} more" if len(none_better) > MAX_NAMED else ""
            notes.append(
                f"{suite}, {system}: not better than a control, so the model has learned nothing that counts here, in "
                f"{', '.join(none_better[:MAX_NAMED])}{more}. What to do: {_REMEDIES[suite in tuned_suites]}."
            )
    return notes


def _control(
    by_system: dict[tuple[str, str, str], dict[str, list[Score]]],
    suite: str,
    metric: str,
    lang: str,
    scores: Sequence[Score],
) -> str:
    """Return the control with the highest score that is not below the interval of a system's scores, or ""."""
    low = fmean(score.low for score in scores if score.low is not None)
    values = {
        control: fmean(each.value for each in by_system[suite, metric, control][lang])
        for control in COMPARED
        if by_system.get((suite, metric, control), {}).get(lang)
    }
    best = max(values, key=lambda control: values[control], default="")
    return f"{best} {values[best]:.1f}" if best and values[best] >= low else ""


def notes_on_placeholders(files: Sequence[Path], data: Path) -> list[str]:
    """Return a sentence for each suite that has placeholders in its scored rows, with the scores without them.

    Such rows are scored like all others, since published numbers include them.

    Args:
        files: of predictions.
    """
    files_of: dict[str, list[Path]] = defaultdict(list)
    for path in files:
        files_of[predictions.read_origin(path).suite].append(path)
    notes = []
    for name, paths in files_of.items():
        suite = suites()[name]
        if not suite.placeholder:
            continue
        origins = [predictions.read_origin(path) for path in paths]
        places = dict.fromkeys((origin.lang, origin.split) for origin in origins)
        counts = [(*place, *count_placeholders(suite, *place, data)) for place in places]
        text = placeholder_text(suite, counts)
        affected = {(lang, split) for lang, split, num, total in counts if 0 < num < total}
        chosen = [
            path for path, each in zip(paths, origins, strict=True) if (each.lang, each.split) in affected
        ]
        if text:
            notes.append(f"{name}: {text}. Without them: {_scores_without(suite, chosen, data)}.")
    return notes


def _scores_without(suite: Suite, files: Sequence[Path], data: Path) -> str:
    """Return the scores of the main metric on the other rows, by system and language, as means over seeds."""
    values: dict[Column, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for path in files:
        for score, _ in predictions.read_row_statistics(
            path, data, lambda row: not has_placeholder(suite, row)
        ):
            if score.metric == suite.metric:
                values[column_of(score)][score.lang].append(score.value)
    parts = [
        f"{unique_title(column)} " + ", ".join(f"{lang} {fmean(each):.1f}" for lang, each in of.items())
        for column, of in values.items()
    ]
    return "; ".join(parts) or "no rows are left"
