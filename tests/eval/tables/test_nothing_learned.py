"""A note says where a model is no better than a control."""

from __future__ import annotations

from xling.eval.scores.score_file import Score
from xling.eval.tables.publish import notes_on_nothing_learned


def score(
    system: str, value: float, half: float, lang: str = "sw", seed: int = 1, metric: str = "accuracy"
) -> Score:
    return Score("xnli", lang, metric, value, 100, seed, system, low=value - half, high=value + half)


def test_a_score_whose_interval_holds_a_control_has_learned_nothing() -> None:
    scores = [score("pretrained", 36, 5), score("majority", 33, 5), score("random", 34, 5)]
    (note,) = notes_on_nothing_learned(scores, ["xnli"])
    assert "learned nothing" in note
    assert "sw (random 34.0)" in note
    assert "fit.epochs=" in note
    (note,) = notes_on_nothing_learned(scores, [])
    assert "layer=" in note


def test_a_score_below_a_control_too() -> None:
    assert notes_on_nothing_learned([score("a", 10, 2), score("majority", 33, 5)], ["xnli"])


def test_a_better_score_has_no_note() -> None:
    assert not notes_on_nothing_learned(
        [score("a", 70, 5), score("majority", 33, 5), score("ngram", 71, 5)], []
    )
    assert not notes_on_nothing_learned([score("a", 70, 5)], [])


def test_only_the_languages_that_are_no_better_are_named_and_seeds_are_averaged() -> None:
    scores = [
        score("a", 70, 5),
        score("majority", 33, 5),
        score("a", 33, 5, "de"),
        score("majority", 33, 5, "de"),
    ]
    scores += [score("a", 43, 4, "fr"), score("a", 37, 4, "fr", seed=2), score("majority", 35, 5, "fr")]
    (note,) = notes_on_nothing_learned(scores, ["xnli"])
    assert "in de (majority 33.0)." in note


def test_the_main_metric_counts() -> None:
    scores = [
        score("a", 70, 5),
        score("majority", 33, 5),
        score("a", 1, 1, metric="f1"),
        score("majority", 1, 1, metric="f1"),
    ]
    assert not notes_on_nothing_learned(scores, ["xnli"])
