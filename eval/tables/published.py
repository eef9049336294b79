"""Published results from one cited file, audited when read: averages are recomputed from their languages.

Comparability with our scores is checked automatically: training rows, scored split, languages of
the average and, for answers from vectors, layer, pooling and distance.
"""

import re
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from xling.core.errors import UserError
from xling.eval.rows.suite import Suite, load, suites
from xling.eval.scores.score_file import AVERAGE, CONTROLS, PUBLISHED, Score

PUBLISHED_FILE = Path(str(files("xling.eval.tables") / "published.yaml"))
AVERAGE_TOLERANCE = 0.01
"""Share by which numbers of training rows may differ: corpora are cleaned a little."""
ROUNDING_ERROR = 0.1 + 1e-6
"""Half a unit of the last printed digit, for the average and once more for its parts."""


@dataclass(frozen=True)
class Published:
    """One row of a published table.

    Attributes:
        system: model as the paper names it.
        suite: registry name.
        metric: registry name.
        protocol: name in `xling.eval.rows.protocols.PROTOCOLS`, or ``none``.
        values: language (or pair) -> score; ``average`` for the printed average.
        over: languages of the average, when it is printed without them.
        paper: citation.
        table: location of the number: a table of the paper, or the file of the project that prints it.
        note: differences from our protocol.
        train_rows: number of training rows; 0 if the source does not say.
        split: scored split.
        vectors: how answers were found, as in our signatures (``layer:8|pooling:mean|distance:cosine``); ""
            if the source does not say.
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
    train_rows: int = 0
    split: str = "test"
    vectors: str = ""


_SHARED = {field.name for field in fields(Published)} - {"system", "values"}


@cache
def read_published(path: Path = PUBLISHED_FILE) -> tuple[Published, ...]:
    """Return the rows of the cited file.

    Raises:
        UserError: a row lacks a citation, or its average is not the mean of its languages.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UserError(
            f"{path} is not YAML: {' '.join(str(error).split())}", fix="correct the file"
        ) from None
    return tuple(
        row for position, entry in enumerate(document, 1) for row in _read_entry(path, position, entry)
    )


def check_average(values: Mapping[str, float], languages: Iterable[str] | None = None) -> str:
    """Return what is wrong with the arithmetic of a row, or "".

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
    if abs(mean - values[AVERAGE]) > ROUNDING_ERROR:
        return f"average {values[AVERAGE]} printed, {mean:.2f} computed from {len(langs)} languages"
    return ""


def published_scores(
    scores: Iterable[Score], data: Path | None = None, path: Path = PUBLISHED_FILE
) -> list[Score]:
    """Return published numbers of the same suites, metrics and protocols, one system per row of the file.

    The name of a system says whether it may be compared, its signature where the number was read and why not.

    Args:
        scores: ours.
        data: folder of the suites' files, in which training rows are counted where a signature has no number.
    """
    scores_by_suite: dict[tuple[str, str, str], list[Score]] = {}
    for score in scores:
        scores_by_suite.setdefault((score.suite, score.metric, score.protocol), []).append(score)
    rows = []
    for row in read_published(path):
        same_suite = scores_by_suite.get((row.suite, row.metric, row.protocol))
        if not same_suite:
            continue
        reasons = reasons_not_comparable(row, same_suite, data)
        name = f"{row.system} ({PUBLISHED}{', not comparable' if reasons else ''})"
        verdict = f"Not comparable: {'; '.join(reasons)}" if reasons else "Comparable"
        signature = f"{row.paper}, {row.table}{f'; note: {row.note}' if row.note else ''}. {verdict}"
        source = "" if row.protocol == "none" else "en"
        how = (name, signature, row.split, source, row.protocol, PUBLISHED)
        rows += [Score(row.suite, lang, row.metric, value, 1, -1, *how) for lang, value in row.values.items()]
    return rows


def reasons_not_comparable(row: Published, scores: Sequence[Score], data: Path | None = None) -> list[str]:
    """Return why a published row is not comparable with our scores of its suite, metric and protocol; empty if it is.

    Args:
        row: published.
        scores: ours; controls count only where there is nothing else.
        data: as in `published_scores`.
    """
    model_scores = [s for s in scores if s.system not in CONTROLS] or list(scores)
    suite = suites()[row.suite]
    reasons = [*_reasons_from_languages(row, suite, {s.lang for s in model_scores})]
    if splits := sorted({s.split for s in model_scores} - {row.split}):
        reasons.append(f"scored on {row.split} rows, ours on {' and '.join(splits)} rows")
    if suite.task:
        counts = {trained_rows(s, {x.lang for x in model_scores}, data) for s in model_scores}
        if not row.train_rows:
            reasons.append("the source does not say how many rows it was trained on")
        elif None in counts:
            reasons.append(f"trained on {row.train_rows:,} rows, of ours it is not recorded")
        elif other := [
            n for n in counts if n and abs(n - row.train_rows) > AVERAGE_TOLERANCE * row.train_rows
        ]:
            reasons.append(
                f"trained on {row.train_rows:,} rows, ours on {' and '.join(f'{n:,}' for n in sorted(other))}"
            )
        return reasons
    how = sorted({_vectors_used(s) for s in model_scores})
    if not row.vectors:
        reasons.append(f"the source states no layer, pooling and distance; ours {' and '.join(how)}")
    elif how != [row.vectors]:
        reasons.append(f"found by {row.vectors}, ours by {' and '.join(how)}")
    return reasons


def _reasons_from_languages(row: Published, suite: Suite, langs: set[str]) -> list[str]:
    """Return whether a published average covers other languages than ours would."""
    if AVERAGE not in row.values:
        return []
    published_langs = {*row.values} - {AVERAGE} or ({*suite.languages} if row.over[:1].isdigit() else set())
    here = langs & {*suite.languages}
    if not published_langs:
        return [f"its average is over {row.over}, which are not listed; ours over {len(here)}"]
    if published_langs == here:
        return []
    return [
        f"its average is over {len(published_langs)} languages, ours over {len(published_langs & here)} of them"
    ]


def _vectors_used(score: Score) -> str:
    """Return layer, pooling and distance of a signature, and the rest of its fields."""
    match = re.search(r"layer:.*?(?=\|data:)", score.signature)
    return match[0] if match else "unknown vectors"


def trained_rows(score: Score, langs: Collection[str], data: Path | None = None) -> int | None:
    """Return how many rows a model was trained on, from its signature and the suite's files; None if unknown.

    Args:
        langs: all languages of the run, into which ``translate_train_all`` translates.
    """
    training_source = re.search(r"\|train:([^|/]+)(?:/(\w+))?", score.signature)
    if training_source is None or "|with:" in score.signature:
        return None
    limit = re.search(r"\|rows:(\d+)(?:x(\d+))?", score.signature)
    num_copies = len({*langs, score.source}) if score.protocol == "translate_train_all" else 1
    suite, split = suites()[training_source[1]], training_source[2] or "train"
    there = data is not None and suite.has(score.source, split, data)
    at_hand = len(load(suite, score.source, split, data)) if there and data else None
    if limit:
        return min(int(limit[1]), at_hand or int(limit[1])) * int(limit[2] or 1)
    return at_hand * num_copies if at_hand else None


def _read_entry(path: Path, position: int, entry: Any) -> list[Published]:
    """Return the rows of one table of the file: ``paper``, ``table``, ``suite``, ``metric``, then ``systems``."""
    entry_name = f"{path} entry {position}"
    shared_fields = {k: v for k, v in entry.items() if k in _SHARED}
    for key in ("paper", "table", "suite", "metric", "protocol"):
        if not shared_fields.get(key):
            raise UserError(
                f"{entry_name} has no {key!r}", "paper, table, suite, metric, protocol and systems"
            )
    rows = []
    for system, values in entry["systems"].items():
        if problem := check_average(values):
            raise UserError(
                f"{entry_name}, {system}: {problem}",
                fix="compare with the paper; mistakes are ours or theirs",
            )
        rows.append(Published(system=system, values=values, **shared_fields))
    return rows
