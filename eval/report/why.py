"""The section of a report on what a model shares between languages, from runs of ``xling analyse``."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from xling.core.errors import UserError
from xling.eval.report.artifacts import Run
from xling.eval.report.sections import Section
from xling.pages import figure
from xling.pages.tabular import Table

STAGE = "analyse"
TABLES_FILE = "tables.json"
MEASURES_BY_LAYER = (
    "retrieval",
    "cka",
    "identity",
    "identity without the mean",
    "units shared",
    "calibration error",
    "probe",
    "probe, learned items",
    "control task",
)
"""Measures of a layer, in percent."""
MEASURES_OF_TWO = ("retrieval", "retrieval after rotation", "cka", "cka of other rows")
"""Measures of a layer of two models."""

Row = tuple[str, str, int, str, str, float]
COLUMNS = ("system", "suite", "layer", "lang", "measure", "percent")
"""System, suite, layer, language or ``all``, measure, percent."""


def section(runs: Sequence[Run]) -> Section:
    """Return the tables and pictures of every analysis among the runs; empty if there is none.

    Raises:
        UserError: an analysis cannot be read.
    """
    run_of = {item.path: run.name for run in runs for item in run.artifacts if item.stage == STAGE}
    section = Section(
        "Why does it transfer?",
        "What each layer of a model shares between languages, beside random weights of the same shape.",
    )
    for path, name in run_of.items():
        rows, tables = read(path)
        section.figures.extend(figures(rows))
        for table in tables:
            title = f"{table.title}, {name}" if len(run_of) > 1 else table.title
            section.tables.append(
                replace(table, name=f"analysis_{name}_{table.name}".replace(" ", "_"), title=title)
            )
    return section


def mean(rows: Sequence[Row], system: str, suite: str, layer: int, measure: str) -> float | None:
    """Return the mean over languages of a measure of a layer, None if it was not taken."""
    values = [r[5] for r in rows if r[:3] == (system, suite, layer) and r[4] == measure]
    return float(np.mean(values)) if values else None


def figures(rows: Sequence[Row]) -> list[str]:
    """Return a picture of every measure by layer, for each suite, as HTML."""
    pictures: list[str] = []
    for suite in dict.fromkeys(r[1] for r in rows):
        for measure in dict.fromkeys((*MEASURES_BY_LAYER, *MEASURES_OF_TWO)):
            series: dict[str, list[tuple[float, float]]] = {}
            for system, layer in dict.fromkeys((r[0], r[2]) for r in rows if r[1] == suite):
                if (value := mean(rows, system, suite, layer, measure)) is not None:
                    series.setdefault(system, []).append((float(layer), value))
            if series:
                pictures += figure.line_charts(series, f"{suite}, {measure} by layer", "percent", "layer")
    return pictures


def _table(record: Mapping[str, Any]) -> Table:
    columns = tuple((name, form) for name, form in record["columns"])
    return Table(
        record["name"], record["title"], columns, tuple(map(tuple, record["rows"])), tuple(record["notes"])
    )


def read(folder: Path) -> tuple[list[Row], list[Table]]:
    """Return the measures and the tables of a published analysis.

    Raises:
        UserError: a file is missing, or was written by another version.
    """
    try:
        told = json.loads((folder / "analysis.json").read_text(encoding="utf-8"))
        rows = [tuple(row[key] for key in COLUMNS) for row in told]
        # Its name until 0.2.
        path = folder / TABLES_FILE if (folder / TABLES_FILE).is_file() else folder / "sheets.json"
        stored = json.loads(path.read_text(encoding="utf-8"))
        tables = [_table(record) for record in stored]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{folder} holds no analysis that can be read: {type(error).__name__} {error}",
            fix="run xling analyse again",
        ) from None
    return rows, tables
