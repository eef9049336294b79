"""A threshold for scores that come from two groups, good pairs and bad ones, when nobody has labelled any.

Two normal distributions are fitted by EM. The cut is where a score is as likely from one as from the other. Scores that
all lie in [0, 1] are fitted as log odds. Where one distribution explains the scores as well, there is no cut.

Source: Dempster, Laird and Rubin 1977 (EM); Schwarz 1978 (BIC).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from xling.array_types import Float64

MIN_SCORES = 100
_NUM_STEPS, _MAX_SCORES = 200, 100_000
_LEAST_SHARE, _LEAST_GAP = 0.003, 2.0  # of a group; between the means, in their standard deviations
_CLIP = 1e-4
GaussianGroup = tuple[float, float, float]


def find_threshold(scores: Float64[np.ndarray, " scores"]) -> float | None:
    """Return the score under which the lower group is likelier, None where no two groups show.

    Args:
        scores: higher is better; those that are not finite do not count.
    """
    scores = scores[np.isfinite(scores)]
    if len(scores) < MIN_SCORES or scores.min() == scores.max():
        return None
    scores = np.sort(scores)[np.linspace(0, len(scores) - 1, min(_MAX_SCORES, len(scores))).astype(np.int64)]
    are_shares = bool(scores[0] >= 0 and scores[-1] <= 1)
    x = (
        np.log(np.clip(scores, _CLIP, 1 - _CLIP) / (1 - np.clip(scores, _CLIP, 1 - _CLIP)))
        if are_shares
        else scores
    )
    min_spread = max(1e-3 * float(x.std()), 1e-12)
    fits = [_fit_two_groups(x, start, min_spread) for start in (0.02, 0.1, 0.3, 0.5)]
    likelihood, low, high = max(fits)
    one = float(_log_density(x, (1.0, float(x.mean()), float(x.std()))).sum())
    gap = (high[1] - low[1]) / math.sqrt((low[2] ** 2 + high[2] ** 2) / 2)
    if (
        2 * (likelihood - one) < 3 * math.log(len(x))
        or gap < _LEAST_GAP
        or min(low[0], high[0]) < _LEAST_SHARE
    ):
        return None
    # The border is where both groups are as likely.
    grid = np.linspace(low[1], high[1], 2001)
    border = float(grid[np.argmax(_log_density(grid, high) >= _log_density(grid, low))])
    return 1 / (1 + math.exp(-border)) if are_shares else border


def _log_density(x: npt.NDArray[np.float64], group: GaussianGroup) -> npt.NDArray[np.float64]:
    share, mean, spread = group
    density: npt.NDArray[np.float64] = math.log(share / spread) - 0.5 * ((x - mean) / spread) ** 2
    return density - 0.5 * math.log(2 * math.pi)


def _fit_two_groups(
    x: npt.NDArray[np.float64], start: float, min_spread: float
) -> tuple[float, GaussianGroup, GaussianGroup]:
    """Return log likelihood, lower and upper group; ``start`` of the sorted values are in the lower one at first."""
    low = np.arange(len(x)) < start * len(x)
    membership, old_likelihood = np.where(low, 0.99, 0.01), -math.inf
    groups: list[GaussianGroup] = []
    for _ in range(_NUM_STEPS):
        groups = []
        for weight in (membership, 1 - membership):
            total = float(max(weight.sum(), 1e-9))
            mean = float((weight * x).sum() / total)
            spread = math.sqrt(float((weight * (x - mean) ** 2).sum()) / total)
            groups.append((min(max(total / len(x), 1e-9), 1.0), mean, max(spread, min_spread)))
        log_densities = np.stack([_log_density(x, group) for group in groups])
        log_totals = np.logaddexp(log_densities[0], log_densities[1])
        membership, likelihood = np.exp(log_densities[0] - log_totals), float(log_totals.sum())
        if likelihood - old_likelihood < 1e-6 * abs(likelihood):
            break
        old_likelihood = likelihood
    low_group, high_group = sorted(groups, key=lambda group: group[1])
    return likelihood, low_group, high_group
