"""Controls learn from one row, from one class, and from rows that share nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from xling.core.errors import UserError
from xling.eval.controls.majority_ngrams import MajorityControl, NgramControl
from xling.eval.kinds.base import of_bioes
from xling.eval.rows.protocols import hold_out
from xling.eval.rows.suite import Example, check_rows, suites
from xling.eval.systems import FitConfig

TEXTS = [
    Example("1", {"text": "abc"}, "sports"),
    Example("2", {"text": "xyz"}, "health"),
    Example("3", {"text": ""}, "sports"),
]
NER = [
    Example("1", {"tokens": ("Ana", "sings")}, ("O", "O")),
    Example("2", {"tokens": ("Rome",)}, ("B-LOC",)),
]


@pytest.mark.parametrize("num", [1, 2, 3])
def test_ngrams_learn_classes_from_a_few_rows(num: int) -> None:
    control, suite, train = NgramControl(), suites()["sib200"], TEXTS[:num]
    (learned,) = control.fit(suite, train, [], "en", FitConfig())
    answers = control.predict(learned, suite, train[:2], "en")
    assert {*answers} <= {row.label for row in train}
    shares = control.probabilities(learned, suite.labels, train)
    assert shares.shape == (num, len(suite.labels)) and shares.sum(1) == pytest.approx(1)


def test_rows_of_one_class_or_without_text_give_that_class() -> None:
    control, suite = NgramControl(), suites()["sib200"]
    for train in ([TEXTS[0], replace(TEXTS[0], id="9")], [TEXTS[2]], [TEXTS[2], replace(TEXTS[2], id="9")]):
        (learned,) = control.fit(suite, train, [], "en", FitConfig())
        assert control.predict(learned, suite, TEXTS, "en") == ["sports"] * 3


def test_ngrams_learn_tags_of_one_kind() -> None:
    control, suite = NgramControl(), suites()["panx"]
    for train in (NER[:1], NER[1:], NER):
        (learned,) = control.fit(suite, train, [], "en", FitConfig())
        answers = control.predict(learned, suite, train, "en")
        assert answers == [list(row.label) for row in train]


def test_majority_of_answers_that_are_not_there_is_the_first_word() -> None:
    suite, row = suites()["xquad"], Example("1", {"context": "Ana sings.", "question": "Who?"}, ())
    (learned,) = MajorityControl().fit(suite, [row], [], "en", FitConfig())
    assert MajorityControl().predict(learned, suite, [row], "en") == ["Ana"]


def test_one_row_cannot_be_held_out() -> None:
    with pytest.raises(UserError, match="1 training row and no dev rows"):
        hold_out(TEXTS[:1])
    train, dev = hold_out(TEXTS[:2])
    assert len(train) == len(dev) == 1


def test_bioes_and_bilou_are_read_as_iob2(capsys: pytest.CaptureFixture[str]) -> None:
    types = ("PER", "LOC", "ORG")
    for single, last in ("SE", "UL"):
        tags = ("B-PER", last + "-PER", "O", single + "-LOC", "B-ORG", "I-ORG", last + "-ORG", "E-mail")
        assert of_bioes(tags, types) == ("B-PER", "I-PER", "O", "B-LOC", "B-ORG", "I-ORG", "I-ORG", "E-mail")
    rows = [(None, 1, Example("1", {"tokens": ("Ana", "Lee")}, ("B-PER", "E-PER")))]
    (read,) = check_rows(suites()["panx"], rows)
    assert read.label == ("B-PER", "I-PER")
    assert "tags of BIOES (E-PER): read as IOB2" in capsys.readouterr().err
