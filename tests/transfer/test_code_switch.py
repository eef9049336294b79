"""Code-switched training rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.tuning import fine_tune
from xling.core.errors import UserError
from xling.transfer.code_switch import RowSwitcher
from xling.transfer.settings import TuneConfig
from xling.transfer.task import TASKS


@dataclass(frozen=True)
class Given:
    """A labelled row."""

    id: str
    fields: dict[str, Any]
    label: Any


TAGGED = [
    Given(str(i), {"tokens": ("the", "dog", "saw", "New", "York")}, ("O", "O", "O", "B-LOC", "I-LOC"))
    for i in range(40)
]
PAIRS = [Given(str(i), {"text_a": "The dog, (alone).", "text_b": "A dog."}, "yes") for i in range(40)]


@pytest.fixture
def dictionaries(tmp_path: Path) -> dict[str, str]:
    for lang, rows in {"de": "dog\thund\nnew\tneu\n", "fr": "dog\tchien\nsaw\ta vu\n"}.items():
        (tmp_path / lang).write_text(rows, encoding="utf-8")
    return {lang: str(tmp_path / lang) for lang in ("de", "fr")}


def test_tags_stay_with_their_words(dictionaries: dict[str, str]) -> None:
    made = RowSwitcher(TASKS["tag"], "en", dictionaries, 1.0, TAGGED, 1)(TAGGED, 0)
    assert {row.fields["tokens"] for row in made} == {
        ("the", dog, "a", "vu", "Neu", "York") for dog in ("hund", "chien")
    }
    assert {row.label for row in made} == {("O", "O", "O", "O", "B-LOC", "I-LOC")}


def test_texts_keep_their_punctuation_and_every_epoch_draws_anew(dictionaries: dict[str, str]) -> None:
    switch = RowSwitcher(TASKS["pair"], "en", dictionaries, 0.5, PAIRS, 1)
    first, again, second = switch(PAIRS, 0), switch(PAIRS, 0), switch(PAIRS, 1)
    assert first == again != second
    texts = {row.fields["text_a"] for row in first}
    assert texts == {f"The {dog}, (alone)." for dog in ("dog", "hund", "chien")}
    assert {row.label for row in first} == {"yes"} and [row.id for row in first] == [row.id for row in PAIRS]


def test_what_cannot_be_switched_is_refused(dictionaries: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"rows of kind 'span'.*valid: rows of kind classify, pair, tag"):
        RowSwitcher(TASKS["span"], "en", dictionaries, 0.5, [], 1)
    with pytest.raises(UserError, match="word_rate=2"):
        RowSwitcher(TASKS["pair"], "en", dictionaries, 2, PAIRS, 1)
    (tmp_path / "turned").write_text("hund\tdog\nallein\talone\nein\ta\n", encoding="utf-8")
    with pytest.raises(UserError, match="the wrong way round"):
        RowSwitcher(TASKS["pair"], "en", {"de": str(tmp_path / "turned")}, 0.5, PAIRS, 1)
    with pytest.raises(UserError, match="missing"):
        RowSwitcher(TASKS["pair"], "en", {"de": str(tmp_path / "missing")}, 0.5, PAIRS, 1)


def test_a_model_learns_from_words_it_would_never_have_met(model: Path, dictionaries: dict[str, str]) -> None:
    rows = [
        Given(str(i), {"text": "the dog" if i % 2 else "the cat"}, "yes" if i % 2 else "no")
        for i in range(16)
    ]
    cfg = TuneConfig(lr=4e-3, epochs=20, batch_rows=8, dropout=0.0, precision="fp32")
    other = [Given(str(i), {"text": f"the {word}"}, "yes") for i, word in enumerate(("hund", "chien"))]
    plain = fine_tune(model, "classify", ["no", "yes"], rows, cfg)[-1]
    switched = fine_tune(
        model, "classify", ["no", "yes"], rows, replace(cfg, switch=dictionaries, switch_rate=0.5)
    )[-1]
    assert switched.predict(other) == ["yes", "yes"]
    assert plain.predict(other) != ["yes", "yes"]
