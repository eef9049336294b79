"""Artifacts of a run for its report: manifests in order of creation, scores, logs, predictions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from xling.array_types import Float64
from xling.core.errors import UserError
from xling.core.output import digests, manifest
from xling.core.output.manifest import FILE_NAME, Manifest
from xling.core.progress import Progress
from xling.core.settings.values import named_path
from xling.eval.metrics import METRICS
from xling.eval.rows.suite import Example
from xling.eval.scores import score_file, statistics
from xling.eval.scores.score_file import CONTROLS, FORMAT, Average, Score
from xling.eval.tables import score_table
from xling.eval.tables.columns import Column, column_of
from xling.text.files import corpus_reader

LOG_FILE = "log.jsonl"
TEXT_STAGES = ("finetune mt", "umt", "finetune generate")
"""Stages that keep the texts they wrote for their test sets, and the plain references' places."""
_MAX_LEVELS_UP = 3
Event = dict[str, Any]


@dataclass(frozen=True)
class Artifact:
    """A published folder with its manifest."""

    path: Path
    manifest: Manifest

    @property
    def stage(self) -> str:
        """Name of the stage that published it."""
        return self.manifest.stage


@dataclass(frozen=True)
class Run:
    """One run of a report: its folder, name and the outputs of its stages.

    Attributes:
        name: unique within the report.
        folder: folder that the user named.
        artifacts: its published directories and their ancestors, each after its inputs.
        missing_inputs: those that are not there any more.
        scores: scores of its evaluations, and of the texts that it wrote.
        logs: name of a training -> its log, event by event.
        averages: intervals of the averages of its evaluations.
    """

    name: str
    folder: Path
    artifacts: tuple[Artifact, ...]
    missing_inputs: tuple[str, ...]
    scores: tuple[Score, ...]
    logs: Mapping[str, Sequence[Event]]
    averages: tuple[Average, ...] = ()


def open_runs(paths_of_runs: Sequence[str | Path]) -> list[Run]:
    """Return the runs at these places, each a path or ``NAME=PATH``.

    Raises:
        UserError: there is nothing, or nothing that a stage has made; two runs of one name.
    """
    names_and_paths = [named_path(str(place)) for place in paths_of_runs]
    paths = [Path(path) for _, path in names_and_paths]
    names = [given or short for (given, _), short in zip(names_and_paths, short_names(paths), strict=True)]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"two runs are called {twice!r}", "different names", "runs=NAME=PATH,NAME=PATH")
    runs = []
    with Progress("report: read", len(paths), "runs") as progress:
        for path, name in zip(paths, names, strict=True):
            runs.append(open_run(path, name))
            progress.update()
    return runs


def short_names(paths: Sequence[Path]) -> list[str]:
    """Return the shortest distinct suffixes of paths."""
    parts_of_paths = [(path.parent if path.is_file() else path).absolute().parts for path in paths]
    for length in range(1, max(map(len, parts_of_paths), default=0) + 1):
        # A suffix that all paths share is not informative.
        names = ["/".join(parts[-length:]) for parts in parts_of_paths]
        if len(set(names)) == len(set(parts_of_paths)):
            return names
    return ["/".join(parts) for parts in parts_of_paths]


def open_run(path: Path, name: str) -> Run:
    """Return the run at a path: a folder with published directories, one such directory, or a file of scores.

    Raises:
        UserError: there is nothing, or nothing that a stage has made; two files hold different values of one score; or
            scores or answers were changed after they were written.
    """
    if path.is_file():
        scores = score_file.read_scores(path)
        return Run(name, path, (), (), tuple(scores), {}, tuple(score_file.read_averages(path)))
    if not path.is_dir():
        raise UserError(f"no run at {path}", "a folder that xling has written, or a scores.json")
    own_folders = [p.parent for p in sorted(path.rglob(FILE_NAME)) if not _is_hidden(p.relative_to(path))]
    own_folders = [p for p in own_folders if manifest.read(p).stage != "report"]
    logs = sorted(p for p in path.rglob(f"*.partial/{LOG_FILE}") if not _is_hidden(p.relative_to(path)))
    loose_score_files = [
        p
        for p in sorted(path.rglob("scores.json"))
        if p.parent not in own_folders and (FORMAT in p.read_text(encoding="utf-8")[:200])
    ]
    if not own_folders and not logs and not loose_score_files:
        raise UserError(f"{path} holds nothing that a stage has finished", fix="give the folder of a run")
    artifact, missing_inputs = inputs_first(own_folders)
    own_artifacts = [item for item in artifact if item.path in own_folders]
    for item in own_artifacts:
        check_answers_unchanged(item)
    score_files = [*loose_score_files, *(m.path / "scores.json" for m in own_artifacts if m.stage == "eval")]
    scores = score_file.merge(score_files)
    averages = tuple(average for file in score_files for average in score_file.read_averages(file))
    for item in own_artifacts:
        if item.stage in TEXT_STAGES:
            scores += text_scores(item, label(item.path, path))
    logs_by_name = {label(p.parent, path): read_log(p) for p in logs}
    logs_by_name |= {
        label(m.path, path): read_log(m.path / LOG_FILE) for m in artifact if (m.path / LOG_FILE).is_file()
    }
    return Run(name, path, tuple(artifact), tuple(missing_inputs), tuple(scores), logs_by_name, averages)


def check_answers_unchanged(artifact: Artifact) -> None:
    """Refuse a table beside answers that are not those it was made from.

    Raises:
        UserError: a file of predictions was changed after the table was made.
    """
    if artifact.stage != "eval" or digests.mode() == digests.NEVER:
        return
    for name, recorded in artifact.manifest.inputs.items():
        *_, inside = name.rpartition("/predictions/")
        # Where the run was moved, its answers are there.
        beside = artifact.path.parent / "predictions" / inside
        path = beside if beside.is_file() else Path(name)
        if path.suffix == ".parquet" and path.is_file() and digests.of_file(path) != recorded:
            raise UserError(
                f"{path} was changed after the tables in {artifact.path} were made from it",
                f"the answers with SHA-256 {recorded[:16]}...",
                f"restore the file, or make the tables again: xling eval rescore {artifact.path.parent}",
            )


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def label(path: Path, folder: Path) -> str:
    """Return the name of a directory in a run."""
    inside = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.name
    return path.name if inside == "." else inside


def inputs_first(paths_of_runs: Sequence[Path]) -> tuple[list[Artifact], list[str]]:
    """Return published directories and their ancestors, inputs first; then the missing inputs."""
    artifact: dict[Path, Artifact] = {}
    missing_inputs: dict[str, None] = {}

    def visit(path: Path) -> None:
        if path.absolute() in artifact:
            return
        record = manifest.read(path)
        artifact[path.absolute()] = Artifact(path, record)
        for name in inputs_of(record):
            folder = published_folder_of(Path(name))
            if folder is not None and folder.absolute() != path.absolute():
                visit(folder)
            elif folder is None and not Path(name).exists():
                missing_inputs[name] = None
        artifact[path.absolute()] = artifact.pop(path.absolute())  # move it after its inputs

    for place in paths_of_runs:
        visit(place)
    return list(artifact.values()), list(missing_inputs)


def inputs_of(record: Manifest) -> list[str]:
    """Return the inputs of a directory; for an evaluation also the models, for a corpus the source files."""
    settings = record.counts.get("made_by", {}).get("settings", {})
    models = [settings.get("checkpoint"), *(named_path(p)[1] for p in settings.get("checkpoints", []))]
    sources = [str(uri).partition(":")[2].partition("*")[0] for uri in record.config.get("source") or []]
    local = [place for place in sources if published_folder_of(Path(place))]
    return [*filter(None, [*models, settings.get("data")]), *local, *record.inputs]


def published_folder_of(path: Path) -> Path | None:
    """Return the published directory that contains a path or equals it."""
    nearest_first = [path, *list(path.parents)[:_MAX_LEVELS_UP]] if path.parts else []
    return next((p for p in nearest_first if (p / FILE_NAME).is_file()), None)


def read_log(path: Path) -> list[Event]:
    """Read the events of a training; an incomplete last line is dropped."""
    manifest.check_as_published(path)
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [json.loads(line) for line in lines]


@dataclass(frozen=True)
class WrittenTexts:
    """Texts that a model wrote for a test set, with the row statistics of BLEU (num_rows, num_stats)."""

    lang: str
    bleu: float
    signature: str
    stats: Float64[np.ndarray, "rows stats"] | None


def written_texts(artifact: Artifact) -> Iterator[WrittenTexts]:
    """Return the test sets of a translation or generation model.

    Without ``stats`` if references are missing or changed.
    """
    scores = artifact.manifest.counts.get("scores", {})
    for lang, result in scores.get("test", scores).items():
        model_result = result.get("model", result)
        rows = _references_and_texts(artifact, lang)
        stats, metric = None, METRICS["bleu"]
        if rows is not None:
            stats = metric.stats(rows[0], rows[1], lang)
            if abs(float(metric.reduce(stats.sum(axis=0))) - model_result["bleu"]) > 0.005:
                stats = None
        yield WrittenTexts(lang, model_result["bleu"], model_result["signature"], stats)


def _references_and_texts(artifact: Artifact, lang: str) -> tuple[list[Example], list[str]] | None:
    """Return references and texts, or None if they no longer exist."""
    place = artifact.manifest.config["test"].get(lang)
    names = [place] if isinstance(place, str) else list(place or [])
    output_path = artifact.path / f"test.{lang}.txt"
    if not names or not output_path.is_file() or not all(Path(name).is_file() for name in names):
        return None
    texts = [_lines(Path(name)) for name in names]
    references = [row.partition("\t")[2] for row in texts[0]] if len(texts) == 1 else texts[1]
    answers = _lines(output_path)
    if len(answers) != len(references):
        return None
    return [Example(str(i), {}, text) for i, text in enumerate(references)], answers


def _lines(path: Path) -> list[str]:
    return list(corpus_reader.any_lines(path))


def text_scores(artifact: Artifact, name: str) -> list[Score]:
    """Return BLEU of a model's translations, with bootstrap intervals if the references are available."""
    scores = []
    for item in written_texts(artifact):
        low, high, key = None, None, f"{artifact.stage}/{item.lang}/bleu"
        if item.stats is not None:
            low, high = statistics.score_interval(item.stats, METRICS["bleu"], key)
        num_rows, seed = (
            len(item.stats) if item.stats is not None else 1,
            artifact.manifest.config.get("seed", 1),
        )
        scores.append(
            Score(
                artifact.stage,
                item.lang,
                "bleu",
                item.bleu,
                num_rows,
                int(seed),
                name,
                item.signature,
                source="",
                protocol="none",
                select="last",
                low=low,
                high=high,
            )
        )
    return scores


def merged_scores(runs: Sequence[Run]) -> tuple[list[Score], list[str]]:
    """Merge the scores of all runs, with systems renamed apart, and describe the changes.

    A system that several runs have in one suite takes its run's name; a control stays the first run's.
    """
    names = system_names(runs)
    scores = [
        replace(score, system=names[run.name, score.suite, score.system])
        for run in runs
        for score in run.scores
        if names[run.name, score.suite, score.system]
    ]
    note = f"Controls are those of {runs[0].name}, or of the first run that has them."
    return scores, [] if all(names.values()) else [note]


def interval_of_averages(runs: Sequence[Run]) -> score_table.AverageInterval:
    """Return the recorded intervals of averages in the runs, under the names of `merged_scores`."""
    names = system_names(runs)
    averages_of_columns = {
        (column_of(replace(average, system=name)), average.langs, average.is_gap): average
        for run in runs
        for average in run.averages
        if (name := names.get((run.name, average.suite, average.system), ""))
    }

    def interval_of(column: Column, langs: Sequence[str], is_gap: bool) -> tuple[float, float] | None:
        average = averages_of_columns.get((column, tuple(langs), is_gap))
        return (average.low, average.high) if average else None

    return interval_of


def system_names(runs: Sequence[Run]) -> dict[tuple[str, str, str], str]:
    """Map (run, suite, system) to its name in the report; "" for a control that another run has too."""
    runs_of_systems: dict[tuple[str, str], list[str]] = {}
    for run in runs:
        for suite, system in dict.fromkeys((s.suite, s.system) for s in run.scores):
            runs_of_systems.setdefault((suite, system), []).append(run.name)
    names: dict[tuple[str, str, str], str] = {}
    for run in runs:
        systems = {(s.suite, s.system) for s in run.scores}
        num_systems = Counter(suite for suite, system in systems if system not in CONTROLS)
        for suite, system in systems:
            run_names, name = runs_of_systems[suite, system], system
            if len(run_names) > 1:
                is_control = system in CONTROLS
                name = (
                    (run.name if num_systems[suite] == 1 else f"{run.name} {system}")
                    if not is_control
                    else system
                )
                name = name if not is_control or run_names[0] == run.name else ""
            names[run.name, suite, system] = name
    return names
