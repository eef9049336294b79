"""Which rows train, choose and are scored under every protocol."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from eval_helpers import write_ner, write_nli
from hypothesis import given
from hypothesis import strategies as st

from xling.core.errors import UserError
from xling.eval.rows.protocols import (
    PROTOCOLS,
    RowsConfig,
    choose_shots,
    hold_out,
    scored_rows,
    select,
    source_rows,
    training_rows,
    translate_rows,
)
from xling.eval.rows.suite import Example, load, suites

XNLI, NER = suites()["toy_xnli"], suites()["toy_ner"]


def upper(texts: Sequence[str], source: str, target: str) -> list[str]:
    return [f"{source}>{target} {text.upper()}" for text in texts]


def texts(rows: Sequence[Example]) -> set[str]:
    return {row.fields["text_a"][:2] for row in rows}


def test_zero_shot_trains_on_the_source_alone(world: Path) -> None:
    found = training_rows(XNLI, PROTOCOLS["zero_shot"], "en", ["sw", "de"], world)
    assert (len(found.train), len(found.dev), found.lang) == (24, 6, "en")
    assert texts(found.train) == {"en"}
    assert training_rows(XNLI, PROTOCOLS["zero_shot"], "sw", ["de"], world).lang == "sw"


def test_in_language_and_few_shot(world: Path) -> None:
    found = training_rows(XNLI, PROTOCOLS["in_language"], "en", ["sw"], world)
    assert texts(found.train) == {"sw"} == texts(found.dev)
    assert found.lang == "sw"
    few = training_rows(XNLI, PROTOCOLS["few_shot"], "en", ["sw"], world, RowsConfig(shots=2))
    assert len(few.train) == 24 + 6
    assert len({row.id for row in few.train}) == 30
    assert "6 rows of toy_xnli/sw, 2 per class, draw 1" in few.origin
    again = training_rows(XNLI, PROTOCOLS["few_shot"], "en", ["sw"], world, RowsConfig(shots=2))
    other = training_rows(XNLI, PROTOCOLS["few_shot"], "en", ["sw"], world, RowsConfig(shots=2, seed=2))
    assert again == few
    assert {r.id for r in other.train} != {r.id for r in few.train}


def test_source_rows_and_those_of_the_language_together(world: Path) -> None:
    both = training_rows(XNLI, PROTOCOLS["both_languages"], "en", ["sw"], world)
    own = load(XNLI, "sw", "train", world)
    assert len(both.train) == 24 + len(own) == len({row.id for row in both.train})
    assert texts(both.dev) == {"en"} and both.lang == "en"
    assert both.origin == "toy_xnli/en + toy_xnli/sw"
    alone = training_rows(XNLI, PROTOCOLS["both_languages"], "en", ["en"], world)
    assert len(alone.train) == 24 and alone.origin == "toy_xnli/en"
    few = training_rows(XNLI, PROTOCOLS["both_languages"], "en", ["sw"], world, RowsConfig(limit=5))
    assert len(few.train) == 10


def test_translate_train_and_test(world: Path) -> None:
    one = training_rows(XNLI, PROTOCOLS["translate_train"], "en", ["sw"], world, translate=upper)
    assert len(one.train) == 24
    assert one.train[0].fields["text_a"] == "en>sw EN A DOG SLEEPS."
    assert one.train[0].label == "entailment"
    every = training_rows(
        XNLI, PROTOCOLS["translate_train_all"], "en", ["en", "sw", "de"], world, translate=upper
    )
    assert len(every.train) == 72
    assert len({row.id for row in every.train}) == 72
    gold = load(XNLI, "sw", "test", world)
    seen = scored_rows(XNLI, PROTOCOLS["translate_test"], "en", "sw", gold, upper)
    assert seen[0].fields["text_b"] == "sw>en A DOG IS ASLEEP."
    assert scored_rows(XNLI, PROTOCOLS["translate_test"], "en", "en", gold) == gold
    assert scored_rows(XNLI, PROTOCOLS["zero_shot"], "en", "sw", gold) == gold
    with pytest.raises(UserError, match="translate_test needs a translation model"):
        scored_rows(XNLI, PROTOCOLS["translate_test"], "en", "sw", gold)
    with pytest.raises(
        UserError, match=r"no training rows of toy_xnli translated into 'sw'.*nli/sw\.train\.tsv"
    ):
        training_rows(XNLI, PROTOCOLS["translate_train"], "en", ["sw"], world)
    with pytest.raises(
        UserError, match="labels of tag rows do not survive translation: they are places in the text"
    ):
        training_rows(NER, PROTOCOLS["translate_train"], "en", ["sw"], world, translate=upper)


def test_machine_translated_rows_serve_translate_train_and_not_in_language(tmp_path: Path) -> None:
    for lang in ("en", "fr"):
        write_nli(tmp_path / f"nli/xnli.train.{lang}.tsv", 4, mark=f"{lang} ")
        write_nli(tmp_path / f"nli/xnli.dev.{lang}.tsv", 1, mark=f"{lang} ")
        write_nli(tmp_path / f"nli/xnli.test.{lang}.tsv", 1, mark=f"{lang} ")
    xnli = dataclasses.replace(suites()["xnli"], files=())
    found = training_rows(xnli, PROTOCOLS["translate_train"], "en", ["fr"], tmp_path)
    assert texts(found.train) == {"fr"}
    with pytest.raises(UserError, match="training rows of xnli in 'fr' are machine translations"):
        training_rows(xnli, PROTOCOLS["in_language"], "en", ["fr"], tmp_path)
    with pytest.raises(UserError, match="are machine translations"):
        training_rows(xnli, PROTOCOLS["both_languages"], "en", ["fr"], tmp_path)
    with pytest.raises(UserError, match="few_shot needs rows written in the language"):
        training_rows(xnli, PROTOCOLS["few_shot"], "en", ["fr"], tmp_path)
    written = training_rows(xnli, PROTOCOLS["few_shot"], "en", ["fr"], tmp_path, RowsConfig("dev", shots=1))
    assert texts(written.train) == {"en", "fr"}


def test_train_rows_is_how_many_rows_a_language_are_trained_on(tmp_path: Path) -> None:
    for lang, times in (("en", 8), ("fr", 6)):  # 24 and 18 rows
        write_nli(tmp_path / f"nli/xnli.train.{lang}.tsv", times, mark=f"{lang} ")
        write_nli(tmp_path / f"nli/xnli.dev.{lang}.tsv", 1, mark=f"{lang} ")
        write_nli(tmp_path / f"nli/xnli.test.{lang}.tsv", 1, mark=f"{lang} ")
    xnli = dataclasses.replace(suites()["xnli"], files=())
    for name, wanted in (("translate_train", {"fr": 5}), ("translate_train_all", {"en": 5, "fr": 5})):
        found = training_rows(xnli, PROTOCOLS[name], "en", ["fr"], tmp_path, RowsConfig(limit=5))
        assert Counter(row.fields["text_a"][:2] for row in found.train) == wanted


def test_choices_are_translated_with_their_premise() -> None:
    row = Example("0", {"premise": "p", "question": "cause", "choices": ("a", "b")}, 1)
    (found,) = translate_rows(suites()["xcopa"], [row], "en", "sw", upper)
    assert found.fields == {"premise": "en>sw P", "question": "cause", "choices": ("en>sw A", "en>sw B")}


def test_dev_rows_that_are_scored_are_not_chosen_on(world: Path) -> None:
    (world / "nli/en.test.tsv").unlink()
    train, dev = source_rows(XNLI, XNLI, "en", world)
    assert (len(train), len(dev)) == (22, 2)
    scored = {row.fields["text_a"] + row.id for row in load(XNLI, "en", "dev", world)}
    assert len(scored) == 6
    assert {r.id for r in train}.isdisjoint(r.id for r in dev)


def test_suites_that_train_on_the_same_rows_hold_out_the_same_rows(world: Path) -> None:
    (world / "nli/en.test.tsv").unlink()
    other = dataclasses.replace(XNLI, name="other", train_from=XNLI.name)
    assert source_rows(other, XNLI, "en", world) == source_rows(XNLI, XNLI, "en", world)


@given(n=st.integers(2, 300))
def test_hold_out_parts_the_rows(n: int) -> None:
    rows = [Example(str(i), {}, "x") for i in range(n)]
    train, dev = hold_out(rows)
    assert sorted([*train, *dev], key=lambda r: int(r.id)) == rows
    assert len(dev) == max(1, n // 10)
    assert hold_out(rows) == (train, dev)


@given(seed=st.integers(0, 50), k=st.integers(1, 5))
def test_shots_have_k_of_every_class(seed: int, k: int) -> None:
    rows = [Example(str(i), {"text_a": "", "text_b": ""}, XNLI.labels[i % 3]) for i in range(30)]
    chosen = choose_shots(XNLI, rows, k, seed)
    assert [sum(r.label == label for r in chosen) for label in XNLI.labels] == [k, k, k]
    with pytest.raises(UserError, match="class 'entailment' has 10 rows; valid: at least k=11"):
        choose_shots(XNLI, rows, 11, seed)


def test_shots_of_tags_cover_every_span_type(tmp_path: Path) -> None:
    write_ner(tmp_path / "ner/en.train.tsv", 5)
    chosen = choose_shots(NER, load(NER, "en", "train", tmp_path), 2, 1)
    for kind in NER.labels:
        assert sum(any(tag.endswith(kind) for tag in row.label) for row in chosen) >= 2


def test_selection() -> None:
    scores = {"source-dev": [1.0, 3.0, 3.0], "oracle": [5.0, 1.0, 2.0]}
    assert select("last", "abc", lambda c: "mean", {}) == "c"
    assert select("averaged", "abc", lambda c: "mean", {}) == "mean"
    assert select("source-dev", "abc", lambda c: "mean", scores) == "b"
    assert select("oracle", "abc", lambda c: "mean", scores) == "a"
    assert select("oracle", "a", lambda c: "mean", {}) == "a"


def test_rows_of_other_suites_are_trained_on_too(world: Path) -> None:
    """Dev rows where there are no training rows, until they are a third of the suite's own; never scored ones."""
    write_ner(world / "ner/panx/cs.train.tsv", 12)
    write_ner(world / "ner/panx/cs.dev.tsv", 1)
    write_ner(world / "ner/uner/cs.dev.tsv", 1)
    panx, zero_shot, more = suites()["panx"], PROTOCOLS["zero_shot"], RowsConfig(others=("uner",))
    own = training_rows(panx, zero_shot, "cs", ["hr"], world).train
    found = training_rows(panx, zero_shot, "cs", ["hr"], world, more)
    dev = load(suites()["uner"], "cs", "dev", world)
    assert found.train == own + dev * 4
    assert found.origin == "panx/cs + uner/cs dev"
    with pytest.raises(UserError, match="train_with=uner: no rows in 'cs' to train on"):
        training_rows(suites()["uner"], zero_shot, "cs", ["hr"], world, more)
    write_ner(world / "ner/uner/cs.test.tsv", 1)
    found = training_rows(suites()["uner"], zero_shot, "cs", ["hr"], world, more)
    assert found.train == own + dev * 4  # PAN-X holds out the same rows for both suites
    with pytest.raises(UserError, match=r"train_with=xnli has other labels than panx; valid: .*uner"):
        training_rows(panx, zero_shot, "cs", ["hr"], world, RowsConfig(others=("xnli",)))


def test_rows_of_the_suite_itself_are_named_where_it_trains_on_another(tmp_path: Path) -> None:
    path = tmp_path / "ner/masakhaner2/swa.train.tsv"
    path.parent.mkdir(parents=True)
    path.write_text("Ana\tB-PER\n\n", encoding="utf-8")
    suite = suites()["masakhaner"]
    with pytest.raises(UserError, match=f"trains on panx, .* in 'sw'; .* tags=TEST_FILES train.sw={path}"):
        source_rows(suite, suites()["panx"], "sw", tmp_path)


def test_dev_rows_that_are_scored_are_called_so_where_one_row_trains(tmp_path: Path) -> None:
    (tmp_path / "ner/panx").mkdir(parents=True)
    for split in ("train", "dev"):
        (tmp_path / f"ner/panx/sw.{split}.tsv").write_text("Ana\tB-PER\n\n", encoding="utf-8")
    suite = dataclasses.replace(suites()["panx"], files=())
    with pytest.raises(UserError, match="1 training row and no dev rows but the scored ones: one row"):
        source_rows(suite, suite, "sw", tmp_path)
