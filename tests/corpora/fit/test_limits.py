"""Limits fitted to clean text: no rule drops more than asked, unless a limit is at its bound; a recipe that works."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from xling.core.commands.runner import run_local
from xling.core.errors import UserError
from xling.core.settings import config
from xling.corpora.builtin.limits import Limits
from xling.corpora.common.shards import read_corpus
from xling.corpora.fit.limits import (
    FitLimitsConfig,
    count_losses,
    count_words,
    fit,
    measure_texts,
    most_frequent_words,
    run,
)
from xling.corpora.mono import MonoConfig
from xling.corpora.stages.filters import RULES, Filters, first_failed_rule, measure

SYLLABLES = ["ka", "li", "mo", "ne", "pu", "ra", "si", "to", "vu", "wa"]
LOOSEST = {
    "min_mean_word": Limits().min_mean_word / 3,
    "max_mean_word": Limits().max_mean_word * 3,
    "max_repeated_runs": Limits().max_repeated_runs * 3,
    "min_stop_words": 0.0,
}


def documents(num: int, long_words: bool) -> list[str]:
    """Texts of words that are as long as those of a language that joins its words, or short."""
    texts = []
    for n in range(num):
        random = Random(n)
        words = ["".join(random.choices(SYLLABLES, k=9 if long_words else 3)) for _ in range(120)]
        words[::12] = ["na"] * 10
        lines = [" ".join(words[i : i + 12]) + "." for i in range(0, 120, 12)]
        texts.append("\n".join(lines))
    return texts


def write(path: Path, texts: list[str]) -> tuple[str, ...]:
    path.write_text("\n\n".join(texts), encoding="utf-8")
    return (str(path),)


def test_a_limit_that_drops_clean_text_is_loosened_and_others_are_made_stricter(tmp_path: Path) -> None:
    texts = documents(60, long_words=True)
    assert {first_failed_rule(measure(text, Limits()), Limits()) for text in texts} == {"mean_word_length"}
    cfg = FitLimitsConfig(text={"sw": write(tmp_path / "a.txt", texts)}, out=str(tmp_path / "limits"))
    fitted = run(cfg).counts["limits"]["sw"]
    before = Filters().limits_for("sw")
    assert fitted["max_mean_word"] > before.max_mean_word
    assert fitted["max_ellipses"] < before.max_ellipses
    assert not {"min_words", "max_short", "max_braces", "max_placeholders"} & set(fitted)
    recipe = (tmp_path / "limits" / "limits.yaml").read_text(encoding="utf-8")
    settings = config.load(MonoConfig, tmp_path / "limits" / "limits.yaml", ["lang=sw"]).settings["filters"]
    assert {name: float(number) for name, number in settings["per_lang"]["sw"].items()} == fitted
    assert "na" in settings["stop_words"]["sw"]
    assert "stop_words" in recipe
    table = (tmp_path / "limits" / "dropped.tsv").read_text(encoding="utf-8")
    assert "mean_word_length\t60\t0" in table


def test_what_comes_out_is_a_recipe(tmp_path: Path) -> None:
    texts = documents(60, long_words=True)
    source = write(tmp_path / "a.txt", texts)[0]
    run(FitLimitsConfig(text={"sw": (source,)}, out=str(tmp_path / "limits")))
    words = [f"out={tmp_path}/out", "lang=sw", f"source=text:{source}", "after_dedup=filters", "dedup=false"]
    words += ["near_dedup=false"]
    with pytest.raises(UserError, match="mean_word_length 60"):
        run_local("corpus mono", config.load(MonoConfig, None, words))
    run_local("corpus mono", config.load(MonoConfig, tmp_path / "limits" / "limits.yaml", words))
    assert len(list(read_corpus(tmp_path / "out"))) == 60


def test_too_little_text_is_refused(tmp_path: Path) -> None:
    given = write(tmp_path / "a.txt", documents(60, long_words=False))
    with pytest.raises(UserError, match="sw: 60 documents"):
        run(FitLimitsConfig(text={"sw": given}, out=str(tmp_path / "b"), min_docs=61))
    with pytest.raises(UserError, match="no clean text"):
        FitLimitsConfig()


_WORDS = st.lists(
    st.sampled_from(["a", "na", "ndege", "kilimanjaroni", "12", "…", "#"]), min_size=12, max_size=40
)
_LINES = st.lists(_WORDS.map(" ".join), min_size=1, max_size=6)


@given(st.lists(_LINES.map(".\n".join), min_size=1, max_size=30), st.floats(0.01, 0.9))
@example(["a a a a a a a a ndege a a a na na na na na ndege kilimanjaroni kilimanjaroni kilimanjaroni"], 0.5)
def test_a_rule_drops_at_most_the_share_that_was_asked_unless_a_limit_is_at_its_bound(
    texts: list[str], drop: float
) -> None:
    limits = Limits(min_words=1, stop_words=most_frequent_words([count_words(texts)]))
    values = measure_texts(texts, limits)
    fitted = limits.with_changes(fit(values, limits, drop))
    lost = count_losses(values, fitted)
    for reason in {reason for reason, *_ in RULES if not reason.startswith("too_")}:
        assert lost[reason] <= drop * len(values) or _is_at_bound(reason, fitted), (reason, lost)


def _is_at_bound(reason: str, fitted: Limits) -> bool:
    for name, _, limit, side in RULES:
        if name == reason:
            loosest = getattr(Limits(), limit) * (3 if side == "most" else 1 / 3)
            loosest = LOOSEST.get(limit, loosest)
            if abs(getattr(fitted, limit) - loosest) <= 1e-4:
                return True
    return False


def _with(mean_words: Sequence[float]) -> list[dict[str, float]]:
    return [{"words": 100.0, "mean_word": value} for value in mean_words]


def test_a_relative_limit_is_the_default_times_the_ratio_of_the_quantiles() -> None:
    english, finnish = [4.0 + n / 100 for n in range(100)], [5.5 + n / 50 for n in range(100)]
    fitted = fit(_with(finnish), Limits(), 0.1, _with(english))
    assert fitted["max_mean_word"] == pytest.approx(12 * 7.38 / 4.94, abs=1e-4)
    assert fitted["min_mean_word"] == pytest.approx(2.5 * 5.6 / 4.05, abs=1e-4)
    assert fit(_with(english), Limits(), 0.1, _with(english)) == {"min_mean_word": 2.5, "max_mean_word": 12.0}


def test_limits_are_bounded_and_what_is_off_stays_off() -> None:
    short, long = fit(_with([1.2] * 9), Limits(), 0.1), fit(_with([90.0] * 9), Limits(), 0.1)
    assert short == {"min_mean_word": 1.2, "max_mean_word": 8.0}
    assert long == {"min_mean_word": 3.75, "max_mean_word": 36.0}
    values = [{"words": 100.0, "short": 0.9, "ended": 0.0, "lettered": 1.0}]
    assert fit(values, Limits(min_ended=0), 0.1) == {"min_lettered": 0.85}
    assert fit(values, Limits(max_short=0.35), 0.1) == {
        "min_lettered": 0.85,
        "min_ended": 0.0833,
        "max_short": 0.9,
    }
    assert fit(_with([4.0]), Limits(), 0.1, reasons=["top_ngram"]) == {}


def test_stop_words_are_frequent_in_every_source() -> None:
    scripture, news = (
        ["the lord said to the king", "the lord and the ark"],
        ["the bank said to the press 12 12 12"],
    )
    words = most_frequent_words([count_words(scripture), count_words(news)], 4)
    assert words[:3] == ("the", "said", "to")
    assert most_frequent_words([count_words(["的是的一"])], 2) == ("的", "一")
    assert (
        most_frequent_words([count_words(["12 34"])])
        == most_frequent_words([count_words([""])])
        == most_frequent_words([])
        == ()
    )
