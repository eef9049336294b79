"""Shares of a population from a stratified sample, with intervals, and the agreement of readers.

Sources: Wilson 1927 for the interval of a share; Korn and Graubard 1998 for its effective number of texts; Krippendorff
2011, "Computing Krippendorff's Alpha-Reliability", for the agreement.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

_Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class Stratum:
    """The part of one stratum that was read.

    Attributes:
        size: texts of the population.
        read: texts that were read, at most ``size``.
        hits: how many of them count; a fraction where readers differ.
    """

    size: int
    read: int
    hits: float


@dataclass(frozen=True)
class Estimate:
    """A share with its 95 % interval.

    Attributes:
        share: estimate for the strata that were read, weighted by their sizes.
        low, high: bounds of the interval.
        covered: share of the population whose strata were read.
    """

    share: float
    low: float
    high: float
    read: int
    covered: float

    def is_enough(self, width: float) -> bool:
        """Return whether the interval is at most ``width`` wide and stands for the whole population."""
        return self.covered == 1 and self.high - self.low <= width + 1e-12


def wilson(share: float, num: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of ``num`` texts; (0, 1) where nothing was counted."""
    if num <= 0:
        return 0.0, 1.0
    if math.isinf(num):
        return share, share
    middle = share + _Z * _Z / (2 * num)
    half = _Z * math.sqrt(share * (1 - share) / num + _Z * _Z / (4 * num * num))
    scale = 1 + _Z * _Z / num
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


def estimate(strata: Iterable[Stratum]) -> Estimate | None:
    """Return the share of the hits in the population, or None where nothing was read.

    The interval is Wilson's with the effective number of texts: that of a simple sample with the variance of this one.
    The variance of each stratum is computed with one hit and one miss more than it has, so a stratum without a miss
    has one too. It is zero where all of its texts were read. One large stratum has Wilson's own interval.
    """
    everything = list(strata)
    read = [stratum for stratum in everything if stratum.read]
    total = sum(stratum.size for stratum in read)
    if not total:
        return None
    share = smoothed = variance = 0.0
    for stratum in read:
        weight = stratum.size / total
        share += weight * stratum.hits / stratum.read
        likely = (stratum.hits + 1) / (stratum.read + 2)
        smoothed += weight * likely
        left = (stratum.size - stratum.read) / max(1, stratum.size - 1)
        variance += weight * weight * likely * (1 - likely) / stratum.read * left
    num = smoothed * (1 - smoothed) / variance if variance > 0 else math.inf
    low, high = wilson(share, num)
    num_read = sum(stratum.read for stratum in read)
    return Estimate(share, low, high, num_read, total / sum(stratum.size for stratum in everything))


@dataclass(frozen=True)
class Agreement:
    """How far readers agree on one question.

    Attributes:
        alpha: Krippendorff's alpha for nominal labels: 1 is full agreement, 0 that of chance; None where it is not
            defined, since all labels are the same.
        raw: share of the texts on which all readers say the same.
        num_texts: texts that at least two readers answered.
    """

    alpha: float | None
    raw: float
    num_texts: int


def agreement(answers: Iterable[Sequence[str]]) -> Agreement | None:
    """Return the agreement on texts, each with the labels of the readers who answered; None without a pair.

    Args:
        answers: for each text one label a reader; texts with fewer than two are left out.
    """
    units = [Counter(labels) for labels in answers if len(labels) > 1]
    if not units:
        return None
    totals: Counter[str] = Counter()
    disagreement = 0.0
    for unit in units:
        totals.update(unit)
        disagreement += _pairs_that_differ(unit) / (unit.total() - 1)
    expected = _pairs_that_differ(totals) / (totals.total() - 1)
    alpha = 1 - disagreement / expected if expected else None
    return Agreement(alpha, sum(len(unit) == 1 for unit in units) / len(units), len(units))


def _pairs_that_differ(counts: Mapping[str, int]) -> int:
    total = sum(counts.values())
    return total * total - sum(n * n for n in counts.values())
