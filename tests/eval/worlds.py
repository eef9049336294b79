"""Rates of false alarms and coverage of comparisons where rows are correlated, in made-up worlds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xling.eval.metrics import METRICS
from xling.eval.metrics.base import with_count
from xling.eval.scores import statistics
from xling.eval.scores.statistics import PairedStatistics

ACCURACY = METRICS["accuracy"]


@dataclass(frozen=True)
class World:
    """How answers of two systems come about: logits of an item, of item by system, by language and by seed."""

    num_langs: int = 5
    num_seeds: int = 3
    num_items: int = 200
    hard: float = 0.5
    item: float = 1.5
    own: float = 1.0
    in_lang: float = 0.7
    in_seed: float = 0.5
    seed: float = 0.0
    passage: int = 1

    def pairs(self, draw: np.random.Generator) -> list[PairedStatistics]:
        """Two systems that are equally good; items, languages and seeds are drawn anew."""
        n, shape = self.num_items, (2, self.num_items)
        blocks = np.arange(n) // self.passage
        item = self.item * draw.normal(size=n)[blocks] + self.own * draw.normal(size=shape)[:, blocks]
        seeds = self.seed * draw.normal(size=(2, self.num_seeds))
        made = []
        by_seed = self.in_seed * draw.normal(size=(2, self.num_seeds, n))
        for lang in range(self.num_langs):
            here = item + self.in_lang * draw.normal(size=n)
            for s in range(self.num_seeds):
                logits = self.hard + here + by_seed[:, s] + seeds[:, s, None]
                a, b = (draw.random(shape) < 1 / (1 + np.exp(-logits))).astype(float)
                ids = [str(i) for i in range(n)]
                made.append(
                    PairedStatistics(str(lang), with_count(a), with_count(b), ids, blocks.tolist(), s)
                )
        return made

    def share_right(self, draws: int = 400_000) -> float:
        """The expected accuracy in percent."""
        z = np.random.default_rng(0).normal(size=(draws, 5))
        spread = z @ [self.item, self.own, self.in_lang, self.in_seed, self.seed]
        return 100 * float((1 / (1 + np.exp(-(self.hard + spread)))).mean())


WORLDS = {
    "items in 5 languages, 3 seeds": World(),
    "items in 40 languages": World(num_langs=40, num_seeds=1),
    "3 seeds that differ": World(num_langs=3, seed=0.25),
    "passages of 5 questions": World(num_langs=4, num_seeds=1, num_items=300, passage=5),
    "nothing in common": World(item=0, own=0, in_seed=0, num_langs=4, num_seeds=1),
    "nearly all right": World(num_langs=1, num_seeds=1, hard=5, item=0.5, own=0.5, num_items=150),
    "few items": World(num_langs=8, num_seeds=1, num_items=40),
}


def rates(world: World, draws: int, resamples: int = 400) -> dict[str, float]:
    """Shares of draws: p at or below .05, difference in its interval, and average accuracy in its interval."""
    draw, truth = np.random.default_rng(7), world.share_right()
    alarms, covered, averages = 0, 0, 0
    for number in range(draws):
        pairs = world.pairs(draw)
        test = statistics.compare_systems(pairs, ACCURACY, f"d{number}", resamples)
        alarms += test.p_two_sided <= 0.05
        covered += test.low <= 0 <= test.high
        first = [pair.sides()[0] for pair in pairs]
        if len(first) == 1:
            low, high = statistics.score_interval(first[0].stats, ACCURACY, f"{number}", first[0].blocks)
        else:
            low, high = statistics.average_interval(first, ACCURACY, f"{number}", num_resamples=resamples)
        averages += low <= truth <= high
    return {"alarms": alarms / draws, "covered": covered / draws, "averages": averages / draws}
