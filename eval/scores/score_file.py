"""Scores and their file format, the input of tables, reports and comparisons."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xling.core.errors import UserError
from xling.core.output.manifest import check_as_published, write_atomic

FORMAT = "xling-scores 1"
AVERAGE = "average"
"""Language code of the average that a published table prints."""
PUBLISHED = "published"
"""``select`` of a published score."""
CONTROLS = ("random", "majority", "ngram", "dictionary")
"""Systems that stand beside a result to show what it is worth: untrained weights, the most frequent label,
character n-grams without any neural network, and these after a word-by-word translation."""


@dataclass(frozen=True)
class Score:
    """One number of one system on one language, with its provenance.

    Attributes:
        suite: registry name of the suite.
        lang: language or pair.
        metric: registry name of the metric.
        value: score, 0 to 100.
        n: number of rows behind it.
        seed: of the fine-tuning; -1 when nothing was random.
        system: ``pretrained``, one of `CONTROLS`, or the name of a checkpoint.
        signature: metric and version, tokeniser, data digest, seed, checkpoint digest.
        split: rows it was taken on.
        source: language of the training rows, or "" without training.
        protocol: name in `xling.eval.rows.protocols.PROTOCOLS`.
        select: how the checkpoint was chosen.
        low: lower end of the 95 % bootstrap interval, or None.
        high: upper end.
        synthetic: the rows were generated.
    """

    suite: str
    lang: str
    metric: str
    value: float
    n: int
    seed: int
    system: str = "pretrained"
    signature: str = ""
    split: str = "test"
    source: str = "en"
    protocol: str = "zero_shot"
    select: str = "source-dev"
    low: float | None = None
    high: float | None = None
    synthetic: bool = False


@dataclass(frozen=True)
class Average:
    """The 95 % interval of a mean over languages and seeds, of one column of a table.

    Attributes:
        suite: registry name of the suite; the names up to ``source`` are those of its scores.
        langs: languages of the mean.
        is_gap: the source's score minus the mean, not the mean.
        low: lower end.
        high: upper end.
    """

    suite: str
    metric: str
    system: str
    protocol: str
    select: str
    source: str
    langs: tuple[str, ...]
    is_gap: bool
    low: float
    high: float


def signature(metric: str, data_digest: str, seed: int, checkpoint: str, extra: str = "") -> str:
    """Return the signature that says how a score was computed.

    Example:
        >>> signature("accuracy:1", "ab" * 32, 1, "cd" * 32)
        'accuracy:1|data:abababababab|seed:1|checkpoint:cdcdcdcdcdcd'
    """
    parts = [metric, *([extra] if extra else []), f"data:{data_digest[:12]}", f"seed:{seed}"]
    return "|".join([*parts, f"checkpoint:{checkpoint[:12] or 'none'}"])


def write_scores(path: Path, scores: Iterable[Score], averages: Iterable[Average] = ()) -> None:
    """Write a ``scores.json``, one score or average a line, in one step."""
    lists = [
        [json.dumps(dataclasses.asdict(item), ensure_ascii=False) for item in items]
        for items in (scores, averages)
    ]
    text = f'{{"format": "{FORMAT}", "scores": [\n' + ",\n".join(lists[0]) + "\n]"
    more = ', "averages": [\n' + ",\n".join(lists[1]) + "\n]" if lists[1] else ""
    write_atomic(path, f"{text}{more}}}\n")


def read_averages(path: Path) -> list[Average]:
    """Return the usable averages in a file of scores; files from before 2026-11 have none."""
    rows = json.loads(path.read_text(encoding="utf-8")).get("averages", [])
    return [Average(**{**row, "langs": tuple(row["langs"])}) for row in rows]


def read_scores(path: Path) -> list[Score]:
    """Return the scores in a file.

    Raises:
        UserError: no such file, not this format, a key missing or unknown; or it was changed since it was published.
    """
    if not path.is_file():
        raise UserError(f"no scores at {path}", fix="give the scores.json of an evaluation run")
    check_as_published(path)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is not JSON: {error}", fix="run the evaluation again") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise UserError(f"{path} is not a scores file", f'an object with "format": "{FORMAT}"')
    if not isinstance(document.get("scores"), list):
        raise UserError(f"{path} holds no list of scores", '"scores": [...]', "run the evaluation again")
    return [_score(path, position, row) for position, row in enumerate(document["scores"])]


def merge(files: Sequence[Path]) -> list[Score]:
    """Return the scores of several runs.

    Raises:
        UserError: two files hold different values of one score.
    """
    by_key: dict[tuple[Any, ...], tuple[Path, Score]] = {}
    for path in files:
        for score in read_scores(path):
            old = by_key.setdefault(key_of(score), (path, score))
            if old[1].value != score.value:
                name = f"{score.suite}/{score.lang}/{score.metric}, {score.system}, seed {score.seed}"
                raise UserError(
                    f"{path} and {old[0]} disagree on {name}: {score.value} and {old[1].value}",
                    fix="give only one of them, or name the systems apart (a report: runs=NAME=PATH,NAME=PATH)",
                )
    return [score for _, score in by_key.values()]


def key_of(score: Score) -> tuple[Any, ...]:
    """Return the key of equal measurements."""
    named = ("suite", "lang", "metric", "seed", "system", "split", "source", "protocol", "select")
    return tuple(getattr(score, name) for name in named)


_TYPES: dict[str, Any] = {
    "str": str,
    "int": int,
    "bool": bool,
    "float": (int, float),
    "float | None": (int, float, type(None)),
}
"""What a field of a score may be, by its annotation; JSON writes a whole float as an integer in other hands."""


def _score(path: Path, position: int, row: Any) -> Score:
    # One score a line after the line with the format.
    row_name = f"{path}:{position + 2}"
    if not isinstance(row, dict):
        raise UserError(f"{row_name}: {row!r} is not a score", "a JSON object", "run the evaluation again")
    try:
        score = Score(**row)
    except TypeError as error:
        raise UserError(
            f"{row_name}: not a score: {str(error).replace('Score.__init__() ', '')}",
            "the fields that xling eval writes",
            "run the evaluation again",
        ) from None
    for field in dataclasses.fields(Score):
        value = getattr(score, field.name)
        if not isinstance(value, _TYPES[str(field.type)]) or (
            isinstance(value, bool) and field.type != "bool"
        ):
            raise UserError(
                f"{row_name}: {field.name}={value!r}", str(field.type), "run the evaluation again"
            )
    if score.n < 1:
        raise UserError(f"{row_name}: value {score.value!r} over {score.n} rows", "at least one row")
    return score
