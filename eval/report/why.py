"""The chapter of a report on what a model shares between languages, from runs of ``xling analyse``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xling.eval.analysis import run as analysis
from xling.eval.report.artifacts import Run
from xling.eval.report.sections import Chapter

STAGE = "analyse"


def chapter(runs: Sequence[Run]) -> Chapter:
    """Return the tables and pictures of every analysis among the runs; empty if there is none.

    Raises:
        UserError: an analysis cannot be read.
    """
    made = {item.path: run.name for run in runs for item in run.made if item.stage == STAGE}
    found = Chapter(
        "Why does it transfer?",
        "What each layer of a model shares between languages, beside random weights of the same shape.",
    )
    for path, name in made.items():
        rows, sheets = analysis.read(path)
        found.figures.extend(analysis.figures(rows))
        for sheet in sheets:
            title = f"{sheet.title}, {name}" if len(made) > 1 else sheet.title
            found.sheets.append(
                replace(sheet, name=f"analysis_{name}_{sheet.name}".replace(" ", "_"), title=title)
            )
    return found
