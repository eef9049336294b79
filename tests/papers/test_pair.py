"""Scores of a model of two languages: measures whose answer is known, rows in a made-up language, claims."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.eval.rows.suite import Example
from xling.eval.scores.score_file import Score, write_scores
from xling.papers import altered, pair
from xling.papers.alteration import Alteration, relettered
from xling.papers.altered import AlteredConfig
from xling.papers.grid import GridConfig, mean_of, verdict
from xling.papers.grid import run as table
from xling.papers.pair import altered_row, both_ways


def test_both_ways_count_each_direction() -> None:
    a = np.eye(3, dtype=np.float32)
    assert both_ways(a, a).tolist() == [[2, 2]] * 3
    # Row 2 of the second side lies nearest to row 1 of the first.
    b = np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0.5]], dtype=np.float32)
    assert both_ways(a, b).tolist() == [[2, 2], [2, 2], [1, 2]]


def test_words_in_context_are_found_where_they_were_moved_to() -> None:
    change = Alteration("own", "reversed")
    first = np.random.default_rng(1).normal(size=(5, 8)).astype(np.float32)
    right = pair._in_context([first], [first[::-1]], ["a"], change)
    wrong = pair._in_context([first], [first[[1, 0, 2, 4, 3]]], ["a"], change)
    assert right.tolist() == [[10, 10]] and wrong[0, 0] < 10
    beyond = first.copy()
    beyond[4:] = 0  # the model had no room for the last word
    assert pair._in_context([beyond], [first[::-1]], ["a"], change).tolist() == [[8, 8]]


def test_tags_move_with_their_words() -> None:
    row = Example("1", {"tokens": ("the", "cat", "sat")}, ("DET", "NOUN", "VERB"))
    copy = altered_row(row, Alteration("own", "reversed"))
    assert copy.fields["tokens"] == tuple(relettered(w) for w in ("sat", "cat", "the"))
    assert copy.label == ("VERB", "NOUN", "DET")
    texts = altered_row(
        Example("1", {"text_a": "a b", "text_b": "c"}, "neutral"), Alteration("shared", "reversed")
    )
    assert (texts.fields, texts.label) == ({"text_a": "b a", "text_b": "c"}, "neutral")


@pytest.mark.parametrize(
    ("kind", "difference", "half", "said"),
    [
        ("lower", -9.0, 4.0, "holds"),
        ("lower", 9.0, 4.0, "refuted"),
        ("lower", 0.0, 1.0, "refuted"),
        ("lower", -3.0, 9.0, "open"),
        ("higher", 9.0, 4.0, "holds"),
        ("same", 1.0, 2.0, "holds"),
        ("same", 9.0, 2.0, "refuted"),
        ("same", 4.0, 2.0, "open"),
        ("lower", -9.0, float("inf"), "open"),
    ],
)
def test_a_verdict_asks_the_interval(kind: str, difference: float, half: float, said: str) -> None:
    assert verdict(kind, difference, half, 5.0) == said


def test_the_interval_over_seeds_is_student_s() -> None:
    mean, half = mean_of([{"x": 1.0}, {"x": 2.0}, {"x": 3.0}, {}], "x")
    assert mean == 2 and half == pytest.approx(4.302653 / 3**0.5, rel=1e-5)
    assert mean_of([{"x": 1.0}], "x") == (1.0, float("inf"))


def cell(folder: Path, name: str, seed: int, value: float) -> None:
    measured = {
        "system": "pretrained",
        "measure": "retrieval",
        "layer": 0,
        "value": value,
        "low": 0,
        "high": 100,
    }
    facts: dict[str, Any] = {
        "seed": seed,
        "measured": [measured, measured | {"system": "random"}],
    }
    with manifest.publish(folder / f"{name}-{seed}" / "pair", pair.STAGE, {}) as made:
        (made.path / "pair.json").write_text(json.dumps(facts))
    with manifest.publish(folder / f"{name}-{seed}" / "model", "pretrain", {}) as made:
        made.counts["last"] = {"loss": 9.0, "loss/mmlm": 9.0, "loss/mmlm/en": 2.0, "loss/mmlm/de": value / 10}


def test_cells_and_claims_are_gathered(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        cell(tmp_path, "original", seed, 50 + seed)
        cell(tmp_path, "own-positions", seed, 20 + seed)
    claims = {
        "a": "own-positions|lower|x|-1.4 points",
        "b": "reversed|lower|y|-2",
        "c": "original,own-positions|same|z",
        "d": "own-positions|lower loss|w",
    }
    table(GridConfig(tmp_path, tmp_path / "grid", claims=claims))
    grid = (tmp_path / "grid" / "grid.md").read_text()
    assert grid.index("original") < grid.index("own-positions")
    last = next(line for line in grid.splitlines() if "own-positions" in line)
    assert [x.strip() for x in last.split("|")[2:-1]] == ["3", "2.100 ± 0.124", "22.0 ± 2.5", "22.0", "22.0"]
    said = (tmp_path / "grid" / "claims.csv").read_text()
    assert said.startswith("claim,their number,cells,column,our difference,verdict\n")
    assert "x,'-1.4 points,own-positions - original,score,'-30.0 ± 0.0,holds" in said
    assert 'y,-2,"reversed, original",score,,not run: reversed' in said
    assert "z,,original - own-positions,score,'+30.0 ± 0.0,refuted" in said
    assert "w,,own-positions - original,loss,'-1.500 ± 0.000,holds" in said
    for wrong in ("nothing", "own-positions|lower", "own-positions|lower|x|1|2"):
        with pytest.raises(UserError, match=r"claims\.a=.*; valid: CELL\|KIND\|CLAIM or CELL"):
            table(GridConfig(tmp_path, tmp_path / "other", claims={"a": wrong}))
    with pytest.raises(UserError, match="holds no analysis"):
        table(GridConfig(tmp_path / "grid", tmp_path / "other"))


def test_bits_and_scores_of_a_run_are_columns_that_claims_may_name(tmp_path: Path) -> None:
    for name, bits, tags in (("alone", 2.0, 60.0), ("close", 1.9, 60.5)):
        for seed in (1, 2, 3):
            run = tmp_path / f"{name}-{seed}"
            with manifest.publish(run / "bits", "analyse bits", {}) as made:
                told = {"en": {"bits": bits + seed / 1000}}
                (made.path / "bits.json").write_text(json.dumps(told))
            with manifest.publish(run / "tuned" / "tables", "eval", {}) as made:
                scores = [
                    Score("udpos", "en", "tag_accuracy", tags + seed, 9, seed),
                    Score("udpos", "en", "tag_f1", 1.0, 9, seed),
                    Score("udpos", "en", "tag_accuracy", 20.0, 9, seed, "random"),
                ]
                write_scores(made.path / "scores.json", scores)
    claims = {
        "a": "close|lower bits en|less",
        "b": "close|higher tuned udpos|more",
        "c": "close|higher bits en|no",
    }
    answer = table(GridConfig(tmp_path, tmp_path / "grid", "alone", claims))
    grid = (tmp_path / "grid" / "grid.csv").read_text().splitlines()
    assert grid[0] == "cell,runs,bits en,tuned udpos,tuned udpos random"
    assert grid[1].startswith("alone,3,2.002 ± 0.002,62.0 ± 2.5,20")
    assert answer.data["cells"]["close"][0] == pytest.approx(
        {"bits en": 1.901, "tuned udpos": 61.5, "tuned udpos random": 20.0}
    )
    said = (tmp_path / "grid" / "claims.csv").read_text()
    assert "less,,close - alone,bits en,'-0.100 ± 0.000,holds" in said
    assert "more,,close - alone,tuned udpos,'+0.5 ± 0.0,holds" in said
    assert "no,,close - alone,bits en,'-0.100 ± 0.000,refuted" in said
    with pytest.raises(UserError, match=r"unknown column of claims\.a 'bit en'; fix: .*valid: .*bits en"):
        table(GridConfig(tmp_path, tmp_path / "other", "alone", {"a": "close|lower bit en|x"}))


def test_suites_that_cannot_be_altered_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair, "_text_of", lambda folder: None)
    cfg = pair.PairConfig(
        tmp_path, tmp_path, tmp_path / "out", suites=("xsid", "panx", "xquad"), data=tmp_path
    )
    with pytest.raises(
        UserError,
        match="suites=xsid,xquad: their answers are not labels; valid: suites of tags, classes or sentence pairs",
    ):
        pair.run(cfg)


def test_a_copy_with_equal_letters_is_found_at_every_layer(model: Path, corpus: Path, tmp_path: Path) -> None:
    """Of a copy in the same order every vector has its like; losses by language come from the model's manifest."""
    text = tmp_path / "text"
    altered.run(
        AlteredConfig(str(corpus / "en.txt"), str(text), second_lang="ar", change=Alteration(), test=12)
    )
    facts = pair.run(pair.PairConfig(model, text, tmp_path / "pair")).data
    told = [(m["system"], m["measure"], m["layer"]) for m in facts["measured"]]
    assert told == [(s, m, layer) for s in pair.SYSTEMS for layer in (0, 1) for m in pair.MEASURES]
    assert {m["value"] for m in facts["measured"]} == {100.0}
    assert {*facts["losses"]} == {f"loss/mmlm/{lang}" for lang in ("ar", "en", "th")}
    assert (facts["updates"], facts["seed"]) == (30, 1)
