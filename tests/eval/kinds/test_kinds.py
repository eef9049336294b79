"""Every kind of suite keeps the contract; what a test needs to know of a kind, the kind says."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

import xling.eval
import xling.transfer
from xling.eval.kinds.base import KINDS, Example, Kind
from xling.eval.metrics import METRICS, evaluate
from xling.eval.rows.suite import frozen, suites
from xling.transfer.task import TASKS


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


def test_its_facts_name_things_that_exist(kind: Kind) -> None:
    assert kind.fields and set(kind.fields.values()) <= {str, tuple}
    assert kind.label and kind.answer
    assert kind.metrics and set(kind.metrics) <= set(METRICS)
    assert not kind.task or kind.task in TASKS
    assert bool(kind.task) or type(kind).answers_by_vectors is not Kind.answers_by_vectors, (
        "a model can be asked"
    )
    assert kind.with_intervals in ("", "retrieval", "translation")
    assert set(kind.texts) <= set(kind.fields)


def test_a_suite_without_metrics_has_those_of_its_kind(kind: Kind) -> None:
    for suite in suites().values():
        if suite.kind == kind.name:
            assert suite.metrics
            assert METRICS[suite.metric]


LABELS: dict[str, Any] = {"class name": "a", "reference": "b c"}


def rows_of(kind: Kind, count: int = 6) -> list[Example]:
    """Rows made from what the kind says of its fields, with the first label of some shapes that it accepts."""
    made = []
    for number in range(count):
        shapes: list[Any] = ["a", 0, number / 2, ("a", "b"), (("w0", 0),), ("a", ("a", "b"))]
        fields = {
            name: f"w{number} text" if wanted is str else (f"w{number}", "x")
            for name, wanted in kind.fields.items()
        }
        fields |= {"side": "src"} if "side" in fields else {}
        good = [s for s in shapes if kind.is_label(Example(str(number), fields, s))]
        assert good, f"{kind.name} accepts none of the known shapes of labels"
        made.append(Example(str(number), fields, good[-1]))
    return made


def test_right_answers_are_answers_and_score_a_hundred(kind: Kind) -> None:
    class Open:
        labels: tuple[str, ...] = ("a", "b")
        scheme = ""

    rows = rows_of(kind)
    answers = [json.loads(json.dumps(kind.right_answer(row))) for row in rows]
    assert all(kind.is_answer(Open(), row, answer) for row, answer in zip(rows, answers, strict=True))
    assert not kind.is_answer(Open(), rows[0], {"no": "answer"})
    if kind.metrics[0] not in ("span_f1", "slot_f1", "bleu"):
        assert evaluate(METRICS[kind.metrics[0]], rows, answers, "en")[0] == pytest.approx(100)


def test_labels_of_another_shape_are_refused(kind: Kind) -> None:
    (row,) = rows_of(kind, 1)
    assert kind.is_label(Example(row.id, row.fields, frozen(json.loads(json.dumps(row.label)))))
    assert not kind.is_label(Example(row.id, row.fields, None))
    assert not kind.is_label(Example(row.id, row.fields, {"a": 1}))


def test_what_a_majority_learns_it_repeats(kind: Kind) -> None:
    if type(kind).majority_label is Kind.majority_label:
        with pytest.raises(NotImplementedError):
            kind.majority_label([], min)
        return

    class Open:
        labels: tuple[str, ...] = ("a", "b")
        scheme = ""

    rows = rows_of(kind)
    learned = kind.majority_label(rows, lambda values: min(values, key=str))
    assert all(kind.is_answer(Open(), row, kind.majority_answer(learned, row)) for row in rows)


def test_nobody_else_compares_the_name_of_a_kind() -> None:
    """A name of a kind stands in no comparison and no table of the evaluation or of fine-tuning."""
    names = set(KINDS) - {"mt", "generation", "span", "tag", "pair", "choice"} | set(KINDS)
    for package in (xling.eval, xling.transfer):
        folder = Path(package.__path__[0])
        for path in folder.rglob("*.py"):
            if {"kinds", "suites", "tasks"} & set(path.relative_to(folder).parts):
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Compare):
                    compared = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)}
                    about = "kind" in ast.unparse(node) or "task" in ast.unparse(node)
                    assert not (about and compared & names), f"{path}:{node.lineno}: {ast.unparse(node)}"
