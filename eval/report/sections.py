"""Sections of a report besides its score tables, each built from the runs' tables and pictures."""

import html
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xling.core.commands import command_line
from xling.core.errors import UserError
from xling.core.languages import split_pair
from xling.eval.report.artifacts import Artifact, Event, Run
from xling.eval.report.comparison import AVERAGE, Test
from xling.eval.rows.suite import suites
from xling.eval.scores.score_file import CONTROLS, PUBLISHED, Score
from xling.pages import figure
from xling.pages.tabular import Cell, Table

MAX_ROWS_OPEN = 60
MAX_RUNS_DRAWN = 12
"""Runs that have pictures of their own: one takes a quarter of a second, and nobody looks at hundreds."""
"""Rows of a table that HTML shows unfolded, and languages that have a picture by language."""
TRAIN, VALID = "train", "valid"


@dataclass
class Section:
    """A section of a report.

    Attributes:
        title: heading.
        lead: a sentence under it.
        figures: pictures, for HTML only.
        folded_figures: pictures that HTML shows collapsed.
        tables: tables, for every format.
        details: tables that HTML shows collapsed.
        commands: shell commands by purpose.
    """

    title: str
    lead: str = ""
    figures: list[str] = field(default_factory=list)
    folded_figures: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    details: list[Table] = field(default_factory=list)
    commands: dict[str, list[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.figures or self.tables or self.details or self.commands)


def mark_suite(suite: str, picture: str) -> str:
    """Return a picture that is hidden when the page is filtered to another suite."""
    return picture.replace("<figure", f'<figure data-suite="{html.escape(suite)}"', 1)


def transfer(scores: Sequence[Score]) -> Section:
    """Return heat maps of transfer from the training language (column) to the test language (row)."""
    section = Section(
        "Transfer",
        "Rows: the language scored. Columns: the language trained on, or the other side of a pair, by system. "
        "The stronger the colour, the higher; one scale for all pictures of a metric.",
    )
    rows: list[tuple[Cell, ...]] = []
    heat_maps: list[tuple[str, str, list[str], list[str], dict[tuple[str, str], float]]] = []
    for suite in dict.fromkeys(s.suite for s in scores):
        suite_scores = [
            s for s in scores if s.suite == suite and s.system not in CONTROLS and s.select != PUBLISHED
        ]
        if not suite_scores:
            continue
        suite_scores = [s for s in suite_scores if suite_scores[0].metric == s.metric]
        cells: dict[tuple[str, str], list[float]] = {}
        systems = list(dict.fromkeys((s.system, s.select) for s in suite_scores))
        for score in suite_scores:
            source, target = _train_and_test_lang(score)
            name = (
                score.system
                if len({x for x, _ in systems}) == len(systems)
                else f"{score.system} {score.select}"
            )
            column = source if len(systems) == 1 else f"{name} {source}".strip()
            cells.setdefault((target, column or name), []).append(score.value)
        means = {place: sum(values) / len(values) for place, values in cells.items()}
        langs = sorted({row for row, _ in means})
        columns = list(dict.fromkeys(column for _, column in means))
        if set(columns) <= set(langs):
            columns.sort()  # as the rows are
        if len(langs) < 2:
            continue
        heat_maps.append((suite, suite_scores[0].metric, langs, columns, means))
        rows += [
            (suite, suite_scores[0].metric, column, row, value) for (row, column), value in means.items()
        ]
    for suite, metric, langs, columns, means in heat_maps:
        drawn = [value for _, other, *_, cells in heat_maps if other == metric for value in cells.values()]
        scale = (min(drawn), max(drawn))
        caption = f"{suite}, {metric}; colours from {scale[0]:.1f} to {scale[1]:.1f}"
        section.figures.append(mark_suite(suite, figure.heat_map(langs, columns, means, caption, scale)))
    columns_of = (("suite", ""), ("metric", ""), ("trained on", ""), ("scored in", ""), ("score", ".2f"))
    if rows:
        section.details.append(
            Table("transfer", "The numbers of the transfer matrices", columns_of, tuple(rows))
        )
    return section


def _train_and_test_lang(score: Score) -> tuple[str, str]:
    if "-" in score.lang:
        try:
            return split_pair(score.lang)
        except UserError:
            pass
    return score.source, score.lang


def intervals(scores: Sequence[Score]) -> Section:
    """Return the section on retrieval, mining, dictionaries, translation and generation, with intervals."""
    all_suites = suites()
    columns = (
        ("system", ""), ("test", ""), ("language", ""), ("metric", ""), ("score", ".2f"),
        ("low", ".2f"), ("high", ".2f"), ("rows", ",d"), ("seed", "d"),
    )  # fmt: skip
    section = Section(
        "Retrieval and translation", "Low and high are the ends of 95 % bootstrap intervals over rows."
    )
    for name in ("retrieval", "translation"):
        interval_scores = [
            s for s in scores
            if name == (all_suites[s.suite].shape.with_intervals if s.suite in all_suites else "translation")
        ]  # fmt: skip
        rows = tuple(
            (
                s.system,
                s.suite,
                s.lang,
                s.metric,
                s.value,
                s.low,
                s.high,
                s.n,
                s.seed if s.seed >= 0 else None,
            )
            for s in sorted(interval_scores, key=lambda s: (s.suite, s.metric, s.lang))
        )
        if rows:
            place = section.tables if len(rows) <= MAX_ROWS_OPEN else section.details
            place.append(Table(name, name.capitalize(), columns, rows))
    return section


def significance(results: Sequence[Test], notes: Sequence[str]) -> Section:
    """Return the section that compares every system with the first one, suite by suite."""
    title = "Comparison"
    lead = (
        "Difference in points with its 95 % paired bootstrap interval; p by approximate randomisation, two-sided; "
        "p (Holm) is adjusted for the number of averages compared here. Items are drawn, in all languages and seeds at "
        "once and with the rows of their passage or document; seeds are a second random factor as far as they were run."
    )
    section = Section(title, lead)
    columns = (
        ("system", ""), ("against", ""), ("test", ""), ("over", ""), ("difference", "+.2f"), ("low", "+.2f"),
        ("high", "+.2f"), ("p", ".4f"), ("p (Holm)", ".4f"), ("before", ".2f"), ("after", ".2f"),
        ("metric", ""), ("rows", ",d"),
    )  # fmt: skip
    averages = tuple(_row(t) for t in results if t.lang == AVERAGE)
    single = tuple(_row(t) for t in results if t.lang != AVERAGE)
    if averages or notes:
        section.tables.append(Table("comparison", "Averages", columns, averages, tuple(notes)))
    if single:
        section.details.append(Table("comparison_languages", "Language by language", columns, single))
    return section


def _row(t: Test) -> tuple[Cell, ...]:
    c = t.comparison
    over = t.lang if t.lang != AVERAGE else t.langs[0] if len(t.langs) == 1 else f"{len(t.langs)} languages"
    numbers = (c.difference, c.low, c.high, c.p_two_sided, t.p_holm)
    return (t.system, t.baseline, t.suite, over, *numbers, *t.scores, t.metric, c.n)


def training(runs: Sequence[Run]) -> Section:
    """Return the training curves by objective and language, and the last values in a table."""
    section = Section(
        "Training",
        "Losses in nats a prediction: of training since the point before, of validation on held-out text."
        + _drawn(runs),
    )
    rows: list[tuple[Cell, ...]] = []
    for number, run in enumerate(runs):
        for name, events in run.logs.items():
            title = f"{run.name}: {name}" if len(runs) > 1 else name
            for split in (VALID, TRAIN) if number < MAX_RUNS_DRAWN else ():
                for is_loss, picture in _charts_of(title, events, split):
                    (section.figures if is_loss else section.folded_figures).append(picture)
            rows += [(run.name, name, *row) for row in _last_values(events)]
    if len(runs) > 1:
        section.figures = [*_runs_compared(runs), *section.figures]
    columns = (
        ("run", ""), ("training", ""), ("objective", ""), ("language", ""), ("updates", ",d"),
        ("training loss", ".3f"), ("validation loss", ".3f"), ("first validation", ".3f"), ("perplexity", ",.1f"),
    )  # fmt: skip
    if rows:
        section.details.append(Table("training", "Losses at the end", columns, tuple(rows)))
    return section


def _drawn(runs: Sequence[Run]) -> str:
    """Say that only the first runs have pictures, where that is so."""
    if len(runs) <= MAX_RUNS_DRAWN:
        return ""
    return f" The first {MAX_RUNS_DRAWN} of {len(runs)} runs have pictures of their own; the tables have all."


def _charts_of(title: str, events: Sequence[Event], split: str) -> Iterator[tuple[bool, str]]:
    """Yield one chart per objective, lines by language, and one for each other measurement.

    Each comes with whether it tells how good the model is: a loss, or a measurement of validation.
    """
    split_name = {TRAIN: "training", VALID: "validation"}[split]
    families = _values_by_chart(events, split)
    for chart_name, lines in families.items():
        if not any(len(points) > 1 for points in lines.values()):
            continue
        is_loss, (name, label) = chart_name.startswith("loss"), _name_and_label(chart_name)
        chart_title = f"{split_name}{'' if is_loss else ':'} {name}"
        for picture in figure.line_charts(lines, f"{title}, {chart_title}", label):
            yield is_loss or split == VALID, picture


def _name_and_label(chart_name: str) -> tuple[str, str]:
    """Return how a chart is called in its title, and the label of its axis."""
    if chart_name.startswith("loss"):
        return f"loss of {chart_name[5:] or 'all objectives'}", "loss in nats"
    return chart_name, chart_name


def _values_by_chart(events: Sequence[Event], split: str) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Group measurements by chart: objective -> language, or measure -> pair."""
    charts: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for event in events:
        if event["split"] != split:
            continue
        for key, value in event.items():
            place = _chart_and_line(key)
            if place and isinstance(value, (int, float)) and value == value:
                chart_name, line = place
                charts.setdefault(chart_name, {}).setdefault(line, []).append((event["update"], value))
    if any(name.startswith("loss/") for name in charts):  # with one objective the sum equals that objective
        charts.pop("loss", None)
    return charts


def _chart_and_line(key: str) -> tuple[str, str] | None:
    """Return chart and line of a number in a log; None if it is not a learning curve."""
    parts = key.split("/")
    if parts[0] == "loss":
        return "/".join(parts[:2]), parts[2] if len(parts) > 2 else "all"
    if parts[0] in ("update", "split", "ppl", "count", "skipped_updates", "halved_batches", "epoch"):
        return None
    return parts[-1], parts[0] if len(parts) > 1 else "all"


def _runs_compared(runs: Sequence[Run]) -> list[str]:
    """Plot the validation loss of each objective, one line per training."""
    charts: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for run in runs:
        for name, events in run.logs.items():
            for chart_name, lines in _values_by_chart(events, VALID).items():
                line = run.name if len(run.logs) == 1 else f"{run.name} {name}"
                if "all" in lines:
                    charts.setdefault(chart_name, {})[line] = lines["all"]
    pictures: list[str] = []
    for chart_name, lines in charts.items():
        if len(lines) > 1:
            name, label = _name_and_label(chart_name)
            pictures += figure.line_charts(lines, f"validation {name}", label)
    return pictures


def _last_values(events: Sequence[Event]) -> Iterator[tuple[Cell, ...]]:
    """Yield objective, language, updates, last training loss, last and first validation loss, perplexity."""
    training_charts, validation_charts = _values_by_chart(events, TRAIN), _values_by_chart(events, VALID)
    last_event = next((e for e in reversed(events) if e["split"] == VALID), {})
    for chart_name in {**training_charts, **validation_charts}:
        if not chart_name.startswith("loss"):
            continue
        lines = {**training_charts.get(chart_name, {}), **validation_charts.get(chart_name, {})}
        for line in sorted(lines, key=lambda name: (name != "all", name)):
            training_points = training_charts.get(chart_name, {}).get(line, [])
            validation_points = validation_charts.get(chart_name, {}).get(line, [])
            key = f"ppl{chart_name[4:]}" + (f"/{line}" if line != "all" else "")
            yield (
                chart_name[5:] or "all",
                line,
                int((validation_points or training_points)[-1][0]),
                training_points[-1][1] if training_points else None,
                validation_points[-1][1] if validation_points else None,
                validation_points[0][1] if validation_points else None,
                last_event.get(key),
            )


def corpus(runs: Sequence[Run]) -> Section:
    """Return the section on text by language: read and kept by cleaning, available and drawn by sampling."""
    lead = "What there is by language, and what sampling makes of it." + _drawn(runs)
    section = Section("Corpus", lead)
    cleaning_rows: dict[tuple[Cell, ...], None] = {}
    sampling_rows: list[tuple[Cell, ...]] = []
    for number, run in enumerate(runs):
        for artifact in run.artifacts:
            if row := _cleaning_row(artifact):
                cleaning_rows[row] = None
            for sampling_name, unit, amounts in _sampling_amounts(artifact):
                before = {name: float(there) for name, (there, _) in amounts.items()}
                after = {name: float(drawn) for name, (_, drawn) in amounts.items()}
                title = f"{run.name}: {sampling_name}" if len(runs) > 1 else sampling_name
                if number < MAX_RUNS_DRAWN:
                    section.figures.append(
                        figure.share_bars(before, after, f"{title}, share of {unit} by language")
                    )
                sampling_rows += _sampling_rows(run.name, sampling_name, unit, before, after)
    if cleaning_rows:
        columns = (
            ("language", ""), ("corpus", ""), ("unit", ""), ("read", ",d"), ("kept", ",d"),
            ("characters read", ",d"), ("characters kept", ",d"), ("kept %", ".1f"),
        )  # fmt: skip
        section.details.append(Table("corpora", "Cleaning", columns, tuple(cleaning_rows)))
    if sampling_rows:
        columns_of = (
            ("run", ""), ("sampling", ""), ("language", ""), ("unit", ""), ("there is", ",d"), ("share %", ".2f"),
            ("drawn", ",d"), ("drawn %", ".2f"), ("times", ".2f"),
        )  # fmt: skip
        note = "In pre-training the amounts drawn are those of one epoch of the training."
        section.details.append(
            Table("sampling", "Before and after sampling", columns_of, tuple(sampling_rows), (note,))
        )
    return section


def _cleaning_row(artifact: Artifact) -> tuple[Cell, ...] | None:
    """Return one row about a corpus from its statistics, or None for other directories."""
    path = artifact.path / "stats.json"
    if artifact.stage not in ("corpus mono", "corpus parallel") or not path.is_file():
        return None
    stats = json.loads(path.read_text(encoding="utf-8"))
    num_seen, chars = stats["ledger"]["seen"], stats["ledger"]["seen_chars"]
    kept_percent = 100 * chars["corpus"] / max(1, chars["read"])
    name, unit = stats.get("pair") or stats["lang"], stats.get("unit", "documents")
    counts = (num_seen["read"], num_seen["corpus"], chars["read"], chars["corpus"])
    return (name, str(artifact.path), unit, *counts, kept_percent)


def _sampling_amounts(artifact: Artifact) -> Iterator[tuple[str, str, Mapping[str, tuple[int, int]]]]:
    """Name, unit and language -> (there, drawn) of every sampling that a directory records."""
    counts = artifact.manifest.counts
    if artifact.stage == "corpus sample":
        amounts = {
            lang: (c["there"], c["characters"])
            for lang, c in counts.items()
            if isinstance(c, dict) and "there" in c
        }
        if amounts:
            yield artifact.path.name, "characters", amounts
    if artifact.stage == "vocab" and counts.get("chars"):
        total = sum(counts["chars"].values())
        yield (
            artifact.path.name, "characters",
            {lang: (n, round(total * counts["shares"].get(lang, 0.0))) for lang, n in counts["chars"].items()},
        )  # fmt: skip
    mixture: Mapping[str, Any] = counts.get("mixture", {})
    by_objective: dict[str, dict[str, tuple[int, int]]] = {}
    for key, (there, drawn) in mixture.items():
        objective, _, name = key.rpartition(" ")
        by_objective.setdefault(objective, {})[name] = (there, drawn)
    for objective, amounts in by_objective.items():
        yield f"{artifact.path.name} {objective}".strip(), "tokens", amounts


def _sampling_rows(
    run: str, sampling_name: str, unit: str, before: Mapping[str, float], after: Mapping[str, float]
) -> list[tuple[Cell, ...]]:
    total_there, total_drawn = sum(before.values()) or 1.0, sum(after.values()) or 1.0
    return [
        (
            run, sampling_name, name, unit, int(before[name]), 100 * before[name] / total_there,
            int(after[name]), 100 * after[name] / total_drawn, after[name] / (before[name] or 1.0),
        )
        for name in sorted(before, key=lambda name: -before[name])
    ]  # fmt: skip


def commands_to_reproduce(runs: Sequence[Run]) -> Section:
    """Return the commands that reproduce the runs, in order, from their manifests, with their durations."""
    section = Section("How to make it again", "Commands from the manifests, each after what it needs.")
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        lines = []
        for artifact in run.artifacts:
            settings, stage = artifact.manifest.config, artifact.stage
            if by := artifact.manifest.counts.get("made_by"):
                settings, stage = by["settings"], by["stage"]
            lines.append(shlex.join(command_line.command_words(stage, settings, str(artifact.path))))
            facts = artifact.manifest
            rows.append(
                (
                    run.name, str(artifact.path), stage, facts.seconds, facts.peak_memory_mb,
                    facts.code_version, facts.digest()[:16],
                )
            )  # fmt: skip
        if run.missing_inputs:
            lines += [f"# no longer available: {name}" for name in run.missing_inputs]
        if lines:
            section.commands[run.name] = lines
    columns = (
        ("run", ""), ("directory", ""), ("stage", ""), ("seconds", ",.1f"), ("peak MiB", ",.0f"),
        ("xling", ""), ("digest", ""),
    )  # fmt: skip
    if rows:
        section.details.append(Table("stages", "What each stage took", columns, tuple(rows)))
    return section
