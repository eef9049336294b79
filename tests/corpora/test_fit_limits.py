"""Limits fitted to clean text: loosened where they would drop it, never made stricter, and a recipe that works."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from xling.core import config
from xling.core.errors import UserError
from xling.core.stage import run_local
from xling.corpora.fit_limits import FitLimitsConfig, run
from xling.corpora.mono import MonoConfig
from xling.corpora.shards import read_corpus
from xling.corpora.stages.filters import Filters, Limits, failed

SYLLABLES = ["ka", "li", "mo", "ne", "pu", "ra", "si", "to", "vu", "wa"]


def documents(num: int, long_words: bool) -> list[str]:
    """Texts of words that are as long as those of a language that joins its words, or short."""
    texts = []
    for n in range(num):
        random = Random(n)
        words = ["".join(random.choices(SYLLABLES, k=9 if long_words else 3)) for _ in range(120)]
        lines = [" ".join(words[i : i + 12]) + "." for i in range(0, 120, 12)]
        texts.append("\n".join(lines))
    return texts


def write(path: Path, texts: list[str]) -> tuple[str, ...]:
    path.write_text("\n\n".join(texts), encoding="utf-8")
    return (str(path),)


def test_a_limit_that_drops_clean_text_is_loosened_and_no_other_changes(tmp_path: Path) -> None:
    texts = documents(60, long_words=True)
    assert {failed(text, Limits()) for text in texts} == {"mean_word_length"}
    cfg = FitLimitsConfig(text={"sw": write(tmp_path / "a.txt", texts)}, out=str(tmp_path / "limits"))
    fitted = run(cfg).counts["limits"]["sw"]
    assert set(fitted) == {"min_mean_word", "max_mean_word"}
    assert fitted["max_mean_word"] > Filters().limits_for("sw").max_mean_word
    limits = Filters(per_lang={"sw": fitted}).limits_for("sw")
    assert not any(failed(text, limits) for text in texts)
    assert "mean_word_length\t60\t0" in (tmp_path / "limits" / "dropped.tsv").read_text(encoding="utf-8")


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


def test_text_that_passes_changes_nothing_and_too_little_is_refused(tmp_path: Path) -> None:
    texts = documents(60, long_words=False)
    given = write(tmp_path / "a.txt", texts)
    assert run(FitLimitsConfig(text={"sw": given}, out=str(tmp_path / "limits"))).counts["limits"] == {
        "sw": {}
    }
    with pytest.raises(UserError, match="sw: 60 documents"):
        run(FitLimitsConfig(text={"sw": given}, out=str(tmp_path / "b"), min_docs=61))
    with pytest.raises(UserError, match="no clean text"):
        FitLimitsConfig()
