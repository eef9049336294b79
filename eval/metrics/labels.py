"""Metrics of class names and tags: accuracy, span F1, intents with slots, dictionary precision."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import numpy as np

from xling.array_types import Float64
from xling.core.errors import UserError
from xling.eval.metrics.base import METRICS, Array, Metric, f1, mean, with_count
from xling.eval.rows.suite import Example

Span = tuple[str, int, int]
TagRows = Sequence[Sequence[str | None]]
"""A tag per word and row; None for a word that the model did not see."""


def accuracy(
    examples: Sequence[Example], predictions: Sequence[Any], lang: str = ""
) -> Float64[np.ndarray, "rows 2"]:
    """Return statistics (right, 1) of predictions equal to the label."""
    return with_count([float(p == e.label) for e, p in zip(examples, predictions, strict=True)])


def bitext_f1(
    examples: Sequence[Example], predictions: Sequence[Any], lang: str = ""
) -> Float64[np.ndarray, "rows 2"]:
    """Return statistics (F1, 1) of rows that are each to be found once: 2 h / (1 + n).

    h is 1 where a row is found by its own translation, n is how many texts find it. This is the main score of bitext
    mining in MTEB: scikit-learn's F1, weighted, with 0 for a division by zero.

    Source: ``mteb/_evaluators/text/bitext_mining_evaluator.py`` of embeddings-benchmark/mteb.
    """
    times_found = Counter(predictions)
    right = [p == e.label for e, p in zip(examples, predictions, strict=True)]
    return with_count([2 * h / (1 + times_found[e.label]) for h, e in zip(right, examples, strict=True)])


def tag_accuracy(
    examples: Sequence[Example], predictions: TagRows, lang: str = ""
) -> Float64[np.ndarray, "rows 2"]:
    """Return statistics (correct words, words); a word that the model did not see (None) is wrong."""
    rows = []
    for example, tags in zip(examples, predictions, strict=True):
        check_length(example, example.label, tags)
        rows.append((sum(a == b for a, b in zip(example.label, tags, strict=True)), len(tags)))
    return np.asarray(rows, dtype=np.float64).reshape(-1, 2)


def span_f1(
    examples: Sequence[Example], predictions: TagRows, lang: str = ""
) -> Float64[np.ndarray, "rows 3"]:
    """Return statistics (true positives, predicted, gold) of spans in seqeval's default mode, which is conlleval's.

    A span begins at ``B-`` and also at an ``I-`` that continues nothing. A word that the model did not see
    (None) counts as outside, so the spans there are missed.
    """
    return _span_counts(examples, predictions, default_spans)


def span_f1_strict(
    examples: Sequence[Example], predictions: TagRows, lang: str = ""
) -> Float64[np.ndarray, "rows 3"]:
    """Like `span_f1` in seqeval's strict IOB2 mode: a span must begin with ``B-``."""
    return _span_counts(examples, predictions, strict_spans)


@lru_cache(maxsize=1 << 16)
def default_spans(tags: tuple[str, ...]) -> frozenset[Span]:
    """Return spans (type, first word, last word) in seqeval's default mode.

    The rules are written out for ``B-``, ``I-`` and ``O``, and seqeval is asked about other tags only: it loads
    scikit-learn and pandas, two seconds that scoring saved predictions must not pay.
    """
    if not all(tag[:2] in ("B-", "I-") or tag == "O" for tag in tags):
        from seqeval.metrics.sequence_labeling import get_entities

        return frozenset(get_entities(list(tags)))
    return _spans(tags, any_start=True)


def _spans(tags: Sequence[str], any_start: bool) -> frozenset[Span]:
    """Return spans of IOB2 tags; a ``any_start`` span may begin with an ``I-`` without a preceding tag."""
    spans, start, kind = [], -1, ""
    for i, tag in enumerate((*tags, "O")):
        if start >= 0 and (tag[0] != "I" or tag[2:] != kind):
            spans.append((kind, start, i - 1))
            start = -1
        if tag[0] == "B" or (any_start and tag[0] == "I" and start < 0):
            start, kind = i, tag[2:]
    return frozenset(spans)


@lru_cache(maxsize=1 << 16)
def strict_spans(tags: tuple[str, ...]) -> frozenset[Span]:
    """Return spans (type, first word, last word) in seqeval's strict IOB2 mode; see `default_spans`."""
    if all(tag[:2] in ("B-", "I-") or tag == "O" for tag in tags):
        return _spans(tags, any_start=False)
    from seqeval.scheme import IOB2, Entities

    (entities,) = Entities([list(tags)], scheme=IOB2).entities
    return frozenset((e.tag, e.start, e.end - 1) for e in entities)


def tag_f1(
    examples: Sequence[Example], predictions: TagRows, lang: str = ""
) -> Float64[np.ndarray, "rows 3"]:
    """Return statistics (true positives, predicted, gold) of runs of equal tags, as seqeval reads non-IOB2 tags.

    XTREME prints this for parts of speech; equal neighbours count once.
    """
    return _span_counts(examples, predictions, _tag_runs)


@lru_cache(maxsize=1 << 16)
def _tag_runs(tags: tuple[str, ...]) -> frozenset[Span]:
    from seqeval.metrics.sequence_labeling import get_entities

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns for every tag that it is not a named-entity tag
        return frozenset(get_entities(list(tags)))


def intent_accuracy(
    examples: Sequence[Example], predictions: Sequence[Any], lang: str = ""
) -> Float64[np.ndarray, "rows 2"]:
    """Return statistics (right, 1) of the intent, the first part of a prediction."""
    return with_count([float(p[0] == e.label[0]) for e, p in zip(examples, predictions, strict=True)])


def slot_f1(
    examples: Sequence[Example], predictions: Sequence[Any], lang: str = ""
) -> Float64[np.ndarray, "rows 3"]:
    """Return statistics (true positives, predicted, gold) of the slots in seqeval's strict mode, xSID's measure."""
    slots = [Example(e.id, e.fields, e.label[1]) for e in examples]
    return _span_counts(slots, [p[1] for p in predictions], strict_spans)


def fully_correct(
    examples: Sequence[Example], predictions: Sequence[Any], lang: str = ""
) -> Float64[np.ndarray, "rows 2"]:
    """Return statistics (right, 1) of utterances whose intent and whole slot sequence are right."""
    pairs = zip(examples, predictions, strict=True)
    return with_count([float((p[0], tuple(p[1])) == (e.label[0], tuple(e.label[1]))) for e, p in pairs])


def precision_at_1(
    examples: Sequence[Example], predictions: Sequence[str], lang: str = ""
) -> Float64[np.ndarray, "rows 2"]:
    """Return statistics (right, 1): the predicted translation is one of the accepted ones."""
    return with_count([float(p in e.label) for e, p in zip(examples, predictions, strict=True)])


def mining_f1(
    examples: Sequence[Example], predictions: Sequence[Sequence[str]], lang: str = ""
) -> Float64[np.ndarray, "rows 3"]:
    """Return statistics (true positives, predicted, gold) of mined pairs; a row has the ids paired with it."""
    rows = np.zeros((len(examples), 3))
    for row, example, prediction in zip(rows, examples, predictions, strict=True):
        if example.fields["side"] == "src":
            gold, mined = set(example.label), set(prediction)
            row[:] = len(gold & mined), len(mined), len(gold)
    return rows


def check_length(example: Example, gold: Sequence[str], tags: Sequence[str | None]) -> None:
    """Refuse a tag sequence that is not as long as its sentence.

    Raises:
        UserError: another number of tags than of words.
    """
    if len(gold) != len(tags):
        raise UserError(
            f"row {example.id!r}: {len(tags)} tags", f"{len(gold)}, one for each word, None where unseen"
        )


def _span_counts(examples: Sequence[Example], predictions: TagRows, spans: Any) -> Array:
    rows = np.zeros((len(examples), 3))
    for row, example, tags in zip(rows, examples, predictions, strict=True):
        check_length(example, example.label, tags)
        gold, predicted = spans(tuple(example.label)), spans(tuple(t or "O" for t in tags))
        row[:] = len(gold & predicted), len(predicted), len(gold)
    return rows


_SEQEVAL = f"seqeval:{version('seqeval')}"
for _metric in (
    Metric("accuracy", accuracy, mean, lambda lang: "accuracy:1"),
    Metric("tag_accuracy", tag_accuracy, mean, lambda lang: "tag_accuracy:1|unit:word"),
    Metric("tag_f1", tag_f1, f1, lambda lang: f"tag_f1:1|{_SEQEVAL}|mode:default|average:micro"),
    Metric("span_f1", span_f1, f1, lambda lang: f"span_f1:1|{_SEQEVAL}|mode:default|average:micro"),
    Metric(
        "span_f1_strict",
        span_f1_strict,
        f1,
        lambda lang: f"span_f1:1|{_SEQEVAL}|mode:strict-IOB2|average:micro",
    ),
    Metric("intent_accuracy", intent_accuracy, mean, lambda lang: "intent_accuracy:1"),
    Metric("slot_f1", slot_f1, f1, lambda lang: f"slot_f1:1|{_SEQEVAL}|mode:strict-IOB2|average:micro"),
    Metric("fully_correct", fully_correct, mean, lambda lang: "fully_correct:1"),
    Metric("choice_accuracy", accuracy, mean, lambda lang: "choice_accuracy:1"),
    Metric("retrieval_accuracy", accuracy, mean, lambda lang: "retrieval_accuracy:1"),
    Metric("retrieval_f1", bitext_f1, mean, lambda lang: "retrieval_f1:1|mteb"),
    Metric("mining_f1", mining_f1, f1, lambda lang: "mining_f1:1|threshold:train"),
    Metric("bli_p1", precision_at_1, mean, lambda lang: "bli_p1:1"),
):
    METRICS.add(_metric.name, _metric)
