"""fastText's answers computed in arrays: those of the library, for any text and any company."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from tests.corpora.stages.test_langid import TEXTS
from xling.corpora.langid import fasttext_model
from xling.corpora.langid.identify import Ensemble, lid176

ODD = (
    "",
    " ",
    "a",
    "🙂 ok 🙂🙂",
    "é",
    "x\x00y \x0bz",
    "<a> b>",
    "__label__en habari",
    "ein </s> two",
    "12 - 34",
)


def texts() -> list[str]:
    """Return texts of all lengths, in several scripts and mixed."""
    random.seed(0)
    words = " ".join(TEXTS.values()).split()
    mixed = [" ".join(random.choices(words, k=random.randint(1, 60))) for _ in range(100)]
    return [*TEXTS.values(), *mixed, *ODD]


def test_the_answers_are_those_of_the_library() -> None:
    model = lid176().model
    unpacked = fasttext_model.load(lid176()._path)
    assert unpacked is not None
    for text, answer in zip(texts(), unpacked.best(texts(), 5), strict=True):
        labels, scores = model.predict(text, 5)
        assert len(labels) in (len(answer), 0), text  # the library answers nothing to an empty text
        for label, score, (own, share) in zip(labels, scores, answer, strict=False):
            assert abs(score - share) < 2e-5, (text, labels, answer)
            assert own == label or share < 1e-3 or abs(score - dict(answer)[label]) < 2e-5, (
                text,
                labels,
                answer,
            )


def test_a_text_has_the_same_answer_in_any_company() -> None:
    every = texts()
    together = Ensemble().ranks(every)
    assert together[::-1] == Ensemble().ranks(every[::-1])
    for text, ranking in zip(every, together, strict=True):
        assert ranking == Ensemble().ranks([text])[0]
        alone = Ensemble().rank(text)
        assert [code for code, _ in alone[:1]] == [code for code, _ in ranking[:1]], text
        assert alone[:1] == [(code, pytest.approx(score, abs=1e-4)) for code, score in ranking[:1]]
    assert Ensemble().ranks([]) == []


def test_models_of_another_kind_are_left_to_the_library(tmp_path: Path) -> None:
    stored = lid176()._path.read_bytes()
    for place, value in (
        (8, 3),
        (7, 2),
        (11, 1),
        (0, 1),
    ):  # softmax, pairs of words, single characters, another format
        changed = bytearray(stored)
        struct.pack_into("<i", changed, 4 * place, value)
        (tmp_path / "other.ftz").write_bytes(changed)
        assert fasttext_model.load(tmp_path / "other.ftz") is None, place
