"""Published results from one cited file, audited when read: averages are recomputed from their languages."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from xling.core.errors import UserError
from xling.eval.report.tables import AVERAGE, PUBLISHED
from xling.eval.results import Score

FILE = Path(str(files("xling.eval") / "published.yaml"))
ROUNDING = 0.1 + 1e-6
"""Half a unit of the last printed digit, for the average and once more for its parts."""


@dataclass(frozen=True)
class Published:
    """One row of a published table.

    Attributes:
        system: model as the paper names it.
        suite: registry name.
        metric: registry name.
        protocol: name in `xling.eval.protocols.PROTOCOLS`, or ``none``.
        values: language (or pair) -> score; ``average`` for the printed average.
        over: languages of the average, when it is printed without them.
        paper: citation.
        table: place of the number: a table of the paper, or the file of the project that prints it.
        note: what differs from our protocol.
    """

    system: str
    suite: str
    metric: str
    protocol: str
    values: Mapping[str, float]
    paper: str
    table: str
    over: str = ""
    note: str = ""


@cache
def published(path: Path = FILE) -> tuple[Published, ...]:
    """The rows of the cited file.

    Raises:
        UserError: a row lacks a citation, or its average is not the mean of its languages.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    return tuple(row for position, entry in enumerate(document, 1) for row in _rows(path, position, entry))


def audit(values: Mapping[str, float], languages: Iterable[str] | None = None) -> str:
    """What is wrong with the arithmetic of a row, or nothing.

    Args:
        values: language -> score, with ``average``.
        languages: that the average is over; default: every language given.
    """
    if AVERAGE not in values:
        return ""
    langs = [x for x in (languages or values) if x != AVERAGE]
    if not langs:
        return ""
    if gone := [x for x in langs if x not in values]:
        return f"average over {' '.join(gone)}, which have no score"
    mean = statistics.fmean(values[x] for x in langs)
    if abs(mean - values[AVERAGE]) > ROUNDING:
        return f"average {values[AVERAGE]} printed, {mean:.2f} computed from {len(langs)} languages"
    return ""


def beside(scores: Iterable[Score], path: Path = FILE) -> list[Score]:
    """Published numbers of the same suites, metrics and protocols, one system per row of the file."""
    wanted = {(s.suite, s.metric, s.protocol) for s in scores}
    return [
        Score(
            suite=row.suite,
            lang=lang,
            metric=row.metric,
            value=value,
            n=1,
            seed=-1,
            system=f"{row.system} (published)",
            signature=f"{row.paper}, {row.table}",
            protocol=row.protocol,
            select=PUBLISHED,
            source="" if row.protocol == "none" else "en",
        )
        for row in published(path)
        if (row.suite, row.metric, row.protocol) in wanted
        for lang, value in row.values.items()
    ]


def _rows(path: Path, position: int, entry: Any) -> list[Published]:
    """The rows of one table of the file: ``paper``, ``table``, ``suite``, ``metric``, then ``systems``."""
    where = f"{path} entry {position}"
    common = {k: entry.get(k, "") for k in ("paper", "table", "suite", "metric", "protocol", "over", "note")}
    for key in ("paper", "table", "suite", "metric", "protocol"):
        if not common[key]:
            raise UserError(f"{where} has no {key!r}", "paper, table, suite, metric, protocol and systems")
    rows = []
    for system, values in entry["systems"].items():
        if problem := audit(values):
            raise UserError(
                f"{where}, {system}: {problem}", fix="compare with the paper; mistakes are ours or theirs"
            )
        rows.append(Published(system=system, values=values, **common))
    return rows
