"""The corpus audits itself: recall by kind of noise in its card, with intervals."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.core.commands.runner import run_local
from xling.corpora.parallel import audit
from xling.corpora.parallel.clean.synthetic_noise import KINDS
from xling.corpora.parallel.settings import ParallelConfig
from xling.corpora.toyworld import para
from xling.eval.scores.statistics import wilson_interval


def built(folder, num_pairs=2500, **more):
    pairs = list(dict.fromkeys(para("en", "de", num_pairs, 1)))
    for side, lang in ((0, "en"), (1, "de")):
        (folder / f"text.{lang}").write_text("".join(p[side] + "\n" for p in pairs), encoding="utf-8")
    cfg = ParallelConfig("en-de", (f"moses:{folder / 'text'}",), str(folder / "out"), **more)
    run_local("corpus parallel", cfg)
    return json.loads((cfg.directory / "stats.json").read_text()), (cfg.directory / "card.md").read_text()


def test_the_card_says_what_the_filters_see(tmp_path):
    stats, card = built(tmp_path)
    told = {row[0]: row for row in stats["audit"]}
    assert (
        {"copied", "swapped", "html", "mojibake", "random", audit.CLEAN} <= set(told) <= {*KINDS, audit.CLEAN}
    )
    assert all(told[kind][2] == "100.0 %" for kind in ("copied", "html", "empty", "duplicate"))
    assert float(told[audit.CLEAN][2].split()[0]) < 3
    assert "What the filters see" in card


def test_a_filter_that_is_missing_is_seen(tmp_path):
    stats, _ = built(tmp_path, filters=("empty", "duplicates"))
    told = {row[0]: row[2] for row in stats["audit"]}
    assert told["html"] == "0.0 %"
    assert audit.CLEAN not in told


def test_the_switch(tmp_path):
    stats, card = built(tmp_path, num_pairs=1800, audit=False)
    assert stats["audit"] == []
    assert "What the filters see" not in card


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_intervals_are_those_of_scores(counts):
    dropped, total = counts
    ones = np.arange(total) < dropped
    theirs = np.array(wilson_interval(ones.astype(np.float64), np.ones(total))) / 100
    assert audit.dropped_interval(dropped, total) == pytest.approx(tuple(theirs), abs=1e-9)
