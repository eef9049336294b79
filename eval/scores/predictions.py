"""Storage of predictions: one Parquet file per suite and language, with ids; re-scoring needs no model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from xling.array_types import Float64
from xling.core.errors import UserError
from xling.core.output import atomic_swap, digests, sealed
from xling.eval.metrics import METRICS, Metric, evaluate
from xling.eval.rows.own import register_suite_of
from xling.eval.rows.protocols import PROTOCOLS
from xling.eval.rows.suite import Example, Suite, data_digest, load, suites
from xling.eval.scores import statistics
from xling.eval.scores.score_file import Score, signature
from xling.eval.scores.statistics import RowStatistics
from xling.text.files.compressed import MAX_CELL_BYTES
from xling.text.files.parquet_rows import DAMAGE, DamagedCell, read_rows

FORMAT = "xling-predictions 1"
ANSWERS = "answers"
"""Key of the digest of the answers in the metadata of a file."""
ORIGIN = "origin_sha256"
_COLUMNS = ("id", "prediction")
NUM_FOLDERS = 4
"""Folders between a file of predictions and its run: predictions, suite, system and how."""
AnyArray = TypeVar("AnyArray", bound=npt.NDArray[Any])


@dataclass(frozen=True)
class Origin:
    """Origin of predictions: all parts of a signature that are not numbers.

    Attributes:
        suite: registry name.
        lang: language or pair.
        system: name in tables.
        seed: seed of the fine-tuning; -1 when nothing was random.
        protocol: name in `xling.eval.rows.protocols.PROTOCOLS`.
        select: how the checkpoint was chosen.
        source: language trained on, or "".
        checkpoint: digest of the model.
        extra: rest of the signature, for example layer, pooling and distance of a retrieval.
        rows: digest of the files whose rows are predicted; "" in predictions from before it was recorded.
    """

    suite: str
    lang: str
    split: str
    system: str
    seed: int
    protocol: str = "zero_shot"
    select: str = "source-dev"
    source: str = "en"
    checkpoint: str = ""
    extra: str = ""
    rows: str = ""

    def path(self, folder: Path) -> Path:
        """Return the path of this file in a folder of predictions."""
        how = f"{self.protocol}.{self.select}.{self.source or 'none'}.seed{self.seed}"
        return folder / self.suite / self.system / how / f"{self.lang}.{self.split}.parquet"


def write(folder: Path, origin: Origin, examples: Sequence[Example], predictions: Sequence[Any]) -> Path:
    """Write the predictions for ``examples`` in one step and return the file.

    Raises:
        UserError: another number of predictions than of examples.
    """
    if len(examples) != len(predictions):
        raise UserError(
            f"{len(predictions)} predictions for {origin.suite}/{origin.lang}/{origin.split}",
            f"{len(examples)}, one for each row",
        )
    path = origin.path(folder)
    answers = [json.dumps(each, ensure_ascii=False) for each in predictions]
    schema = {"id": pl.String, "prediction": pl.String}
    frame = pl.DataFrame({"id": [e.id for e in examples], "prediction": answers}, schema)
    facts = {"format": FORMAT, "origin": json.dumps(asdict(origin)), ANSWERS: answers_digest(frame)}
    facts |= {ORIGIN: hashlib.sha256(facts["origin"].encode()).hexdigest()}
    with atomic_swap.replacing(path) as temporary:
        frame.write_parquet(temporary, metadata=facts)
    return path


def answers_digest(frame: pl.DataFrame) -> str:
    """Return the SHA-256 of the ids and answers of a file of predictions, in the order of the ids."""
    ordered = frame.select("id", "prediction").sort("id")
    text = "\n".join(f"{len(each)} {each}" for column in ordered.get_columns() for each in column)
    return hashlib.sha256(text.encode()).hexdigest()


def check_answers_digest(path: Path, frame: pl.DataFrame) -> None:
    """Refuse answers that are not those that were predicted; files from before digests were kept pass.

    Raises:
        UserError: naming the file.
    """
    recorded = pl.read_parquet_metadata(path).get(ANSWERS)
    if recorded and recorded != answers_digest(frame):
        raise UserError(
            f"{path}: the answers were changed after they were predicted",
            f"the answers with SHA-256 {recorded[:16]}...",
            "restore the file, or delete it and predict again with the settings of the run",
        )


def read_origin(path: Path) -> Origin:
    """Return the origin of the predictions in a file.

    Raises:
        UserError: no such file, or not one of predictions.
    """
    if not path.is_file():
        raise UserError(f"no predictions at {path}", fix="run the evaluation that makes them")
    try:
        metadata = pl.read_parquet_metadata(path)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise UserError(
            f"{path} is not a Parquet file: {str(error).splitlines()[0]}", fix="predict again"
        ) from None
    if metadata.get("format") != FORMAT:
        raise UserError(f"{path} holds no predictions of xling", f"a file with format {FORMAT!r}")
    try:
        if metadata.get(ORIGIN, digest := hashlib.sha256(metadata["origin"].encode()).hexdigest()) != digest:
            raise ValueError("it was changed after they were predicted")
        origin = Origin(**json.loads(metadata["origin"]))
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{path}: its origin cannot be read: {type(error).__name__} {error}", fix="predict again"
        ) from None
    if len(path.parents) > NUM_FOLDERS:
        register_suite_of(path.parents[NUM_FOLDERS])
    return origin


def is_up_to_date(folder: Path, origin: Origin) -> bool:
    """Return whether the predictions of an origin exist, made with the same model, settings and rows."""
    path = origin.path(folder)
    return path.is_file() and read_origin(path) == origin


def read(path: Path, examples: Sequence[Example]) -> list[Any]:
    """Return the predictions in a file in the order of ``examples``.

    Raises:
        UserError: another number of rows, an id missing or there twice, an answer that is not JSON.
    """
    try:
        # A small file may hold any number of equal rows: they are counted before they are read.
        num_rows = pl.scan_parquet(path).select(pl.len()).collect().item()
        if num_rows != len(examples):
            raise UserError(
                f"{path} has {num_rows:,} predictions",
                f"{len(examples):,}, one for each row of the suite",
                "predict again, or check that it is the file of this suite, language and split",
            )
        rows = [row or {} for row in read_rows(path, lambda names: _COLUMNS, MAX_CELL_BYTES)]
        cells = {name: [row[name] for row in rows] for name in _COLUMNS}
        if any(isinstance(text, DamagedCell) for texts in cells.values() for text in texts):
            raise ValueError(f"an answer is damaged, or has more than {MAX_CELL_BYTES:,} bytes")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, KeyError, *DAMAGE) as error:
        raise UserError(
            f"{path} cannot be read: {str(error).splitlines()[0]}",
            "columns id and prediction",
            "predict again",
        ) from None
    frame = pl.DataFrame(cells, dict.fromkeys(_COLUMNS, pl.String))
    text_of = dict(zip(frame["id"].to_list(), frame["prediction"].to_list(), strict=True))
    if len(text_of) != len(frame):
        repeated = frame["id"].filter(frame["id"].is_duplicated())[0]
        raise UserError(f"{path}: id {repeated!r} is there twice", "one prediction per id")
    for position, example in enumerate(examples):
        if example.id not in text_of:
            raise UserError(
                f"{path} has no prediction for id {example.id!r}, row {position} of the suite",
                fix="predict again, or check that it is the file of this suite, language and split",
            )
    # Decoding one document is three times as fast as decoding its rows one by one.
    texts = [text_of[example.id] for example in examples]
    try:
        answers: list[Any] = json.loads(f"[{','.join(texts)}]")
    except (TypeError, ValueError, RecursionError):
        answers = []
    if len(answers) != len(texts):
        raise _json_error(path, examples, texts)
    check_answers_digest(path, frame)
    return answers


def _json_error(path: Path, examples: Sequence[Example], texts: Sequence[str]) -> UserError:
    """Return the error that names the first answer that is not valid JSON."""
    for position, (example, text) in enumerate(zip(examples, texts, strict=True)):
        try:
            json.loads(text)
        except (TypeError, ValueError, RecursionError) as error:
            return UserError(
                f"{path}: row {position}, id {example.id!r}: {str(text)[:60]!r} is not JSON: "
                f"{type(error).__name__} {error}",
                "one JSON value per row",
                "correct the file, or predict again",
            )
    raise AssertionError(f"{path}: every answer is JSON")


def check_answers(
    path: Path,
    suite: Suite,
    rows: Sequence[Example],
    answers: Sequence[Any],
    training: Callable[[], Sequence[Example]] = list,
) -> None:
    """Refuse an answer that no system could have given: another shape, or a name that the suite does not know.

    Args:
        answers: one a row.
        training: the training rows of the same language, which may hold candidates; read on demand.

    Raises:
        UserError: naming file, row and answer.
    """
    is_candidate = suite.shape.candidate_check(rows, training)
    for position, (row, answer) in enumerate(zip(rows, answers, strict=True)):
        is_valid = suite.shape.is_answer(suite, row, answer)
        if is_valid and (is_candidate is None or is_candidate(answer)):
            continue
        answer_text = json.dumps(answer, ensure_ascii=False)
        problem = (
            "is not an answer to a row"
            if not is_valid
            else f"is none of the candidates of the {len(rows)} rows"
        )
        raise UserError(
            f"{path}: row {position}, id {row.id!r}: {answer_text[:60]} {problem} of {suite.name}",
            suite.shape.answer + (f": {', '.join(suite.labels)}" if suite.labels else ""),
            "correct the file, or predict again",
        )


@dataclass(frozen=True)
class ScoredPredictions:
    """Predictions with their rows and the row statistics of one metric, float64 (num_rows, num_stats)."""

    origin: Origin
    metric: Metric
    rows: list[Example]
    answers: list[Any]
    value: float
    stats: Float64[np.ndarray, "rows stats"]

    @property
    def row_statistics(self) -> RowStatistics:
        """Return the input of statistics over several languages and seeds."""
        return RowStatistics(self.origin.lang, self.stats, self.ids, self.blocks, self.origin.seed)

    @property
    def ids(self) -> list[str]:
        """The items, by which the rows of several languages and seeds belong together; a split has its own."""
        return [f"{self.origin.split} {row.id}" for row in self.rows]

    @property
    def blocks(self) -> list[Hashable]:
        """Keys that dependent rows share; see `xling.eval.kinds.base.Kind.block`."""
        shape = suites()[self.origin.suite].shape
        return [shape.block(row) for row in self.rows]


def evaluate_file(
    path: Path, data: Path, metrics: Sequence[str] = (), keep_row: Callable[[Example], bool] | None = None
) -> Iterator[ScoredPredictions]:
    """Evaluate a file of predictions against the suite's rows, metric by metric, without a model.

    Args:
        path: file written by `write`.
        metrics: names of metrics; default: all of the suite.
        keep_row: which rows to score; all by default. Nothing is yielded when none is left.
    """
    origin = read_origin(path)
    suite = suites()[origin.suite]
    rows = load(suite, origin.lang, origin.split, data)
    # Predictions from before digests were kept pass.
    predicted_digest = origin.rows.partition("+")[0]  # the rest are training rows, which are not scored
    gold_digest = data_digest(suite, origin.lang, origin.split, data)
    if predicted_digest and predicted_digest != gold_digest:
        run = path.parents[4]
        raise UserError(
            f"{path} answers the {origin.split} rows of {suite.name} in {origin.lang} with digest "
            f"{predicted_digest[:12]}; those in {data} have {gold_digest[:12]}",
            "the rows that were predicted",
            f"restore them, or predict again with the settings of the run: xling eval {suite.name} "
            f"langs={origin.lang} systems={origin.system} out={run}",
        )
    answers = read(path, rows)
    check_answers(path, suite, rows, answers, partial(_training_rows, suite, origin.lang, data))
    if keep_row is not None:
        chosen = [i for i, row in enumerate(rows) if keep_row(row)]
        rows, answers = [rows[i] for i in chosen], [answers[i] for i in chosen]
    is_known = origin.protocol in PROTOCOLS  # "none" is not
    all_metrics = (*suite.metrics, *(PROTOCOLS[origin.protocol].retrieval_metrics if is_known else ()))
    for name in (metrics or all_metrics) if rows else ():
        metric = METRICS[name]
        if suite.shape.is_slow and keep_row is None:
            digest = data_digest(suite, origin.lang, origin.split, data)
            # Statistics of a slow metric lie beside the file, by answers, rows and metric.
            parts = "\n".join([digests.of_file(path), digest, metric.signature(origin.lang)])
            cached = path.parent / ".stats" / f"{hashlib.sha256(parts.encode()).hexdigest()}.npy"
            rowstats = cached_array(cached, partial(metric.stats, rows, answers, origin.lang))
            value = float(metric.reduce(rowstats.sum(axis=0)))
        else:
            value, rowstats = evaluate(metric, rows, answers, origin.lang)
        yield ScoredPredictions(origin, metric, rows, answers, value, rowstats)


def main_score(path: Path, data: Path) -> ScoredPredictions:
    """Score a file of predictions by the main metric of its suite."""
    (result,) = evaluate_file(path, data, [suites()[read_origin(path).suite].metric])
    return result


def _training_rows(suite: Suite, lang: str, data: Path) -> list[Example]:
    """Return the training rows of a language; none if they are not available any more."""
    return load(suite, lang, "train", data) if suite.has(lang, "train", data) else []


def cached_array(path: Path, compute: Callable[[], AnyArray]) -> AnyArray:
    """Read an array from a ``.npy`` file; if the file is missing or damaged, compute the array and write it."""
    if sealed.is_good(path):
        stored: AnyArray = np.load(path)
        return stored
    computed = compute()
    with sealed.writing(path) as file:
        np.save(file, computed)
    return computed


def read_row_statistics(
    path: Path, data: Path, keep_row: Callable[[Example], bool] | None = None
) -> list[tuple[Score, RowStatistics]]:
    """Return the scores of `evaluate_file` with intervals and signatures, each with the row statistics for averages."""
    return [
        (_score(scored, data), scored.row_statistics) for scored in evaluate_file(path, data, (), keep_row)
    ]


def _score(scored: ScoredPredictions, data: Path) -> Score:
    origin, metric = scored.origin, scored.metric
    suite = suites()[origin.suite]
    digest = data_digest(suite, origin.lang, origin.split, data)
    name = f"{suite.name}/{origin.lang}/{metric.name}"
    low, high = statistics.score_interval(scored.stats, metric, name, scored.blocks)
    return Score(
        suite=origin.suite,
        lang=origin.lang,
        metric=metric.name,
        value=scored.value,
        n=len(scored.rows),
        seed=origin.seed,
        system=origin.system,
        signature=signature(
            metric.signature(origin.lang), digest, origin.seed, origin.checkpoint, origin.extra
        ),
        split=origin.split,
        source=origin.source,
        protocol=origin.protocol,
        select=origin.select,
        low=low,
        high=high,
        synthetic=suite.synthetic,
    )


def files(folder: Path) -> list[Path]:
    """Return every file of predictions below a folder, sorted.

    Raises:
        UserError: there is none.
    """
    paths = sorted(p for p in folder.rglob("*.parquet") if not p.name.startswith("."))
    if not paths:
        raise UserError(
            f"no predictions below {folder}", fix="give the predictions folder of an evaluation run"
        )
    return paths
