"""How many items, languages and seeds a difference needs, beside worlds of that size."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from eval_helpers import Epochs

from tests.eval.scores.test_statistics import ACCURACY
from tests.eval.worlds import World
from xling.core.errors import UserError
from xling.eval import power
from xling.eval.power import PowerConfig
from xling.eval.run import evaluation
from xling.eval.run.settings import EvalConfig
from xling.eval.scores import statistics

BIG = World(num_langs=6, num_seeds=3, num_items=1500)


@pytest.mark.parametrize(("items", "langs", "seeds"), [(200, 3, 1), (150, 1, 3), (300, 6, 2)])
def test_the_spread_of_one_world_tells_that_of_smaller_ones(items: int, langs: int, seeds: int) -> None:
    draw = np.random.default_rng(1)
    spread = statistics.variance_components(BIG.pairs(draw), ACCURACY, "k", 1000)
    small = dataclasses.replace(BIG, num_items=items, num_langs=langs, num_seeds=seeds)
    found = []
    for _ in range(150):
        pairs = small.pairs(draw)
        found.append(np.mean([100 * (p.b[:, 0].mean() - p.a[:, 0].mean()) for p in pairs]))
    assert spread.variance(items, langs, seeds) ** 0.5 == pytest.approx(float(np.std(found)), rel=0.2)


def test_seeds_alone_may_spread_more_than_the_difference() -> None:
    spread = statistics.VarianceComponents(400, 100, 50, 50, seed=1.0, items=100, langs=4, seeds=2)
    assert power.items_needed(spread, 1, 1, 0.9) is None
    assert power.items_needed(spread, 2, 4, 1.0) == 625  # (400 + 50 + 12.5 + 6.25) / (1 - .25)
    assert spread.variance(100, 1, 1) == pytest.approx(7)


def test_the_command_says_what_is_needed(world: Path, tmp_path: Path) -> None:
    right = {lang: [4, 9 - number, 6] for number, lang in enumerate(("en", "sw", "de"))}
    for name, shift in (("a", 0), ("b", 2)):
        cfg = EvalConfig(("toy_xnli",), tmp_path / name, world, seeds=(1, 2))
        evaluation.evaluate_systems(
            cfg, [Epochs({k: [v - shift for v in values] for k, values in right.items()})]
        )
    runs = (tmp_path / "a", tmp_path / "b")
    said = power.run(PowerConfig(runs, "toy_xnli", ("pretrained",), 5.0, data=world))
    assert "toy_xnli accuracy: 12 items, 3 languages and 2 seeds find a difference of" in said
    assert "| languages | seeds | items for 5 points |" in said
    with pytest.raises(UserError, match="random have no language, protocol and seed of toy_xnli in common"):
        power.run(PowerConfig(runs[:1], "toy_xnli", data=world))
    with pytest.raises(UserError, match="one run and two systems"):
        power.run(PowerConfig(runs[:1], "toy_xnli", ("pretrained",), data=world))
    with pytest.raises(UserError, match="a difference above 0"):
        power.run(PowerConfig(runs, "toy_xnli", ("pretrained",), 0.0, data=world))
