"""The comparison of systems: which answers count, by which average, and the correction of p-values."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from xling.eval.metrics import METRICS
from xling.eval.report import comparison


def test_holm_by_hand() -> None:
    def test(p: float) -> comparison.Test:
        found = comparison.Comparison(1.0, 0.0, 2.0, p, 10, 10, 1)
        return comparison.Test("b", "a", "s", "m", comparison.AVERAGE, ("en",), (1.0, 2.0), found)

    adjusted = [t.p_holm for t in comparison.holm([test(0.04), test(0.01), test(0.03), test(0.9)])]
    assert adjusted == pytest.approx([0.09, 0.04, 0.09, 0.9])


def test_the_average_is_over_the_published_set() -> None:
    def system(name: str, right: dict[str, int]) -> comparison.System:
        def reader(lang: str) -> comparison.SystemAnswers:
            stats = np.stack([np.arange(10) < right[lang], np.ones(10)], axis=1).astype(np.float64)
            return comparison.SystemAnswers(METRICS["accuracy"], [(str(i), "") for i in range(10)], stats)

        keys = {(lang, "dev", "zero_shot", "last", "en", "1"): partial(reader, lang) for lang in right}
        return comparison.System(name, "xnli", keys)

    found, _ = comparison.test_systems([system("a", {"de": 4, "ko": 0}), system("b", {"de": 5, "ko": 9})])
    average = found[0]
    assert (average.langs, average.scores) == (("de",), (40.0, 50.0)), "ko is not one of XNLI's 15"
    assert average.comparison.difference == pytest.approx(10)
    assert {test.lang for test in found[1:]} == {"de", "ko"}


def test_systems_that_learned_in_different_ways_are_compared_if_each_has_one_way() -> None:
    def system(name: str, right: int, *ways: tuple[str, str]) -> comparison.System:
        stats = np.stack([np.arange(10) < right, np.ones(10)], axis=1).astype(np.float64)
        made = comparison.SystemAnswers(METRICS["accuracy"], [(str(i), "") for i in range(10)], stats)
        keys = {("de", "test", way, "last", source, "1"): lambda: made for way, source in ways}
        return comparison.System(name, "xnli", keys)

    teacher, student = system("a", 4, ("zero_shot", "en")), system("b", 7, ("in_language", "de"))
    (found, *_), notes = comparison.test_systems([teacher, student])
    assert not notes
    assert (found.scores, found.comparison.difference) == ((40.0, 70.0), pytest.approx(30))
    both = system("c", 9, ("in_language", "de"), ("few_shot", "de"))
    _, notes = comparison.test_systems([teacher, both])
    assert "in common" in notes[0], "which of its two ways is meant?"
