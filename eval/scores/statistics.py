"""Confidence intervals and significance tests of scores that are functions of sums over rows.

Rows are not independent: most suites ask the same items in every language, every seed answers the same items,
and the questions of one passage or the sentences of one document depend on each other. The sampling unit is
therefore a cluster of rows (`assign_clusters`): an item in all languages and seeds, with the rows of its passage.
Seeds are a second random factor. The spread of the seeds' means that items do not explain is added to every
interval and to the null distribution, with one degree of freedom less than seeds.

Clusters with equal statistics are drawn together if there are many: a resample is a multinomial draw over
the distinct ones, a random swap a binomial draw. Both have the same distribution as drawing one by one.

Sources:

- bootstrap: Efron 1979 (percentiles), Koehn 2004 (paired), Field and Welsh 2007 (clusters)
- two random factors: Owen 2007, The pigeonhole bootstrap
- approximate randomisation: Noreen 1989, and Riezler and Maxwell 2005, whose add-one estimate of p is used
- shares: Wilson 1927, with the effective number of rows of Korn and Graubard 1998
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import scipy  # its parts are loaded when they are used

from xling.array_types import Float64, Int64
from xling.core.sampling import rng
from xling.eval.metrics.base import Array, Metric

NUM_RESAMPLES = 2000
VALUES_AT_ONCE = 1 << 22
"""Numbers that one block of resamples holds."""
COST_OF_DISTINCT = 20
"""What a distinct cluster costs in a multinomial draw, in clusters drawn one by one (measured)."""
CONFIDENCE_LEVEL = 0.95
TIE_TOLERANCE = 1e-6
"""A sum in another order differs in its last bits: equal is within a millionth of a point."""

Clusters = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RowStatistics:
    """One system's row statistics in one language with one seed.

    Attributes:
        lang: language or pair.
        stats: float64 (num_rows, num_stats).
        ids: item of each row, the same in every language that has the item; default: every row is its own.
        blocks: what rows of this language share (a passage, a document), None for nothing.
        seed: of the training; the same items are answered by every seed.
    """

    lang: str
    stats: Float64[np.ndarray, "rows stats"]
    ids: Sequence[str] = ()
    blocks: Sequence[Hashable] = ()
    seed: int = -1

    def __post_init__(self) -> None:
        assert len(self.ids) in (0, len(self.stats)), (self.lang, len(self.ids), len(self.stats))


@dataclass(frozen=True)
class PairedStatistics:
    """Statistics of two systems on the same rows; the rest as in `RowStatistics`."""

    lang: str
    a: Float64[np.ndarray, "rows stats"]
    b: Float64[np.ndarray, "rows stats"]
    ids: Sequence[str] = ()
    blocks: Sequence[Hashable] = ()
    seed: int = -1

    def __post_init__(self) -> None:
        assert self.a.shape == self.b.shape, (self.lang, self.a.shape, self.b.shape)

    def sides(self) -> tuple[RowStatistics, RowStatistics]:
        """Resample the rows of both systems together."""
        return (
            RowStatistics(self.lang, self.a, self.ids, self.blocks, self.seed),
            RowStatistics(self.lang, self.b, self.ids, self.blocks, self.seed),
        )


@dataclass(frozen=True)
class Comparison:
    """Result of a test of ``b`` against ``a``.

    Attributes:
        difference: score of b minus score of a, averaged over languages and seeds, in points.
        low: lower end of the 95 % interval of the difference.
        high: upper end.
        p_two_sided: probability of a difference this large in either direction.
        n: rows in all.
        clusters: number of sampling units: items with their passage or document.
        seeds: number of trainings that the difference is averaged over.
    """

    difference: float
    low: float
    high: float
    p_two_sided: float
    n: int
    clusters: int
    seeds: int


def assign_clusters(parts: Sequence[RowStatistics]) -> tuple[list[Int64[np.ndarray, " _"]], int]:
    """Return the cluster of every row of every part, int64 (num_rows,) each, and how many clusters there are.

    Rows with one id belong together in every language and seed; so do the rows of one language that share a block,
    and whatever these join.
    """
    numbers: dict[Hashable, int] = {}
    nodes: list[int] = []
    edges: list[tuple[int, int]] = []
    for part_index, part in enumerate(parts):
        for row in range(len(part.stats)):
            key = ("id", part.ids[row]) if part.ids else ("row", part_index, row)
            node = numbers.setdefault(key, len(numbers))
            nodes.append(node)
            if part.blocks and part.blocks[row] is not None:
                block = numbers.setdefault(("block", part.lang, part.blocks[row]), len(numbers))
                edges.append((node, block))
    first, second = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    graph = scipy.sparse.coo_array((np.ones(len(edges)), (first, second)), shape=(len(numbers),) * 2)
    count, label_of_node = scipy.sparse.csgraph.connected_components(graph, directed=False)
    labels = label_of_node.astype(np.int64)[np.array(nodes, dtype=np.int64)]
    return np.split(labels, np.cumsum([len(part.stats) for part in parts])[:-1]), int(count)


def score_interval(
    stats: Float64[np.ndarray, "rows stats"],
    metric: Metric,
    key: str,
    blocks: Sequence[Hashable] = (),
    num_resamples: int = NUM_RESAMPLES,
) -> tuple[float, float]:
    """Return the 95 % interval of one score: Wilson's for a share, else bootstrap percentiles.

    Args:
        key: names the draw, so that equal input gives equal intervals.
        blocks: what rows share, see `RowStatistics`.
    """
    part = RowStatistics("", stats, blocks=blocks)
    (cluster_of_row,), count = assign_clusters([part])
    if metric.share is not None:
        return wilson_interval(
            *_sum_by_cluster(np.stack(metric.share(stats), axis=1), cluster_of_row, count).T
        )
    draws = _resampled_scores([part], metric, key, num_resamples)[0][:, 0]
    return _percentile_interval(draws, float(metric.reduce(stats.sum(axis=0))), count)


def wilson_interval(
    num_right: Float64[np.ndarray, " clusters"], num_rows: Float64[np.ndarray, " clusters"]
) -> tuple[float, float]:
    """Return Wilson's 95 % interval of the share ``sum(top) / sum(bottom)`` in percent.

    The number of trials is the effective one: as many independent ones as give the variance that the clusters have;
    their number where they are all alike.
    """
    total = float(num_rows.sum())
    if not total:
        return 0.0, 0.0
    share = min(1.0, max(0.0, float(num_right.sum()) / total))
    variance = float(((num_right - share * num_rows) ** 2).sum()) / total**2
    counted = int((num_rows > 0).sum())
    trials = share * (1 - share) / variance if variance > 0 and 0 < share < 1 else float(counted)
    z = NormalDist().inv_cdf(0.5 + CONFIDENCE_LEVEL / 2)
    middle = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2)
    return 100 * max(0.0, middle - half), 100 * min(1.0, middle + half)


def average_interval(
    parts: Sequence[RowStatistics],
    metric: Metric,
    key: str,
    weights: Sequence[float] = (),
    num_resamples: int = NUM_RESAMPLES,
) -> tuple[float, float]:
    """Return the 95 % interval of the mean of one system's scores over languages and seeds.

    Resamples of rows that are all alike have no spread; Wilson's interval over the clusters stands there.

    Args:
        parts: a language and seed each.
        key: names the draw.
        weights: of the parts in the mean; default: equal ones. A transfer gap has negative ones.
    """
    part_weights = np.asarray(weights or [1 / len(parts)] * len(parts), dtype=np.float64)
    scores, count = _resampled_scores(parts, metric, key, num_resamples)
    observed = np.array([float(metric.reduce(part.stats.sum(axis=0))) for part in parts])
    is_alike = float(np.ptp(observed)) < TIE_TOLERANCE and float(np.ptp(scores)) < TIE_TOLERANCE
    if metric.share is not None and not weights and is_alike:
        cluster_of_row, count = assign_clusters(parts)
        sums = [np.stack(metric.share(part.stats), axis=1) for part in parts]
        counts = [_sum_by_cluster(each, c, count) for each, c in zip(sums, cluster_of_row, strict=True)]
        return wilson_interval(*np.sum(counts, axis=0).T)
    draws = scores @ part_weights + _seed_noise(scores, observed, part_weights, [p.seed for p in parts], key)
    return _percentile_interval(draws, float(observed @ part_weights), count)


def compare_systems(
    pairs: Sequence[PairedStatistics],
    metric: Metric,
    key: str = "compare",
    num_resamples: int = NUM_RESAMPLES,
) -> Comparison:
    """Test b against a on the average over languages and seeds: interval by bootstrap, p by randomisation.

    Error rates are turned round, so a negative difference is always a loss. Resamples and swaps are of whole
    clusters in all languages and seeds at once.
    """
    sign = 1.0 if metric.higher_is_better else -1.0
    systems = [side for pair in pairs for side in pair.sides()]
    cluster_of_row, count = assign_clusters(systems[::2])
    sums = [metric.reduce(side.stats.sum(axis=0)) for side in systems]
    observed = sign * (np.array(sums[1::2], dtype=np.float64) - np.array(sums[::2], dtype=np.float64))
    seeds = [pair.seed for pair in pairs]
    weights = np.full(len(pairs), 1 / len(pairs))
    matrices = [
        _sum_by_cluster(np.hstack([p.a, p.b]), c, count) for p, c in zip(pairs, cluster_of_row, strict=True)
    ]
    draws = sign * _differences(matrices, metric, key, num_resamples)
    difference = float(observed @ weights)
    noise = _seed_noise(draws, observed, weights, seeds, key)
    low, high = _percentile_interval(draws @ weights + noise, difference, count)
    randomised = sign * _randomised_differences(matrices, metric, key, num_resamples) + noise
    num_as_extreme = int((np.abs(randomised) >= abs(difference) - TIE_TOLERANCE).sum())
    return Comparison(
        difference=difference,
        low=low,
        high=high,
        p_two_sided=(num_as_extreme + 1) / (num_resamples + 1),
        n=sum(len(pair.a) for pair in pairs),
        clusters=count,
        seeds=len(set(seeds)),
    )


def seed_variance(
    draws: Float64[np.ndarray, "resamples parts"],
    observed: Float64[np.ndarray, " parts"],
    shares: Float64[np.ndarray, " parts"],
    seeds: Sequence[int],
) -> tuple[float, int]:
    """Return the variance of an average due to seeds alone, and its degrees of freedom.

    The spread of the seeds' own averages less what items explain of it, which is how far the averages of resamples
    spread around their common mean.

    Args:
        draws: float64 (num_resamples, num_parts), scores of resamples.
        shares: float64 (num_parts,), weights of the average.
        seeds: of each part.
    """
    names = sorted(set(seeds))
    if len(names) < 2:
        return 0.0, 0
    of_seed = np.array([[seed == name for name in names] for seed in seeds], dtype=np.float64)
    weights = of_seed * shares[:, None] * len(names)
    means, resampled = observed @ weights, draws @ weights
    around = resampled - resampled.mean(axis=1, keepdims=True)
    degrees_of_freedom = len(names) - 1
    explained = float(around.var(axis=0).sum()) / degrees_of_freedom
    return max(0.0, float(means.var(ddof=1)) - explained) / len(names), degrees_of_freedom


def _seed_noise(
    draws: Array, observed: Array, weights: Array, seeds: Sequence[int], key: str
) -> npt.NDArray[np.float64]:
    """Return the seeds' contribution to each resample, float64 (num_resamples,); zeros with one seed."""
    variance, degrees_of_freedom = seed_variance(draws, observed, weights, seeds)
    if not variance:
        return np.zeros(len(draws))
    noise: npt.NDArray[np.float64] = rng("seeds", key).standard_t(degrees_of_freedom, len(draws))
    return noise * math.sqrt(variance)


def _percentile_interval(draws: npt.NDArray[np.float64], observed: float, count: int) -> tuple[float, float]:
    """Return the percentiles of resamples, widened as Student's t is for few clusters."""
    # One more draw is equally likely in each of the n + 1 gaps; numpy's own percentiles of 400 cover 94.5 %.
    low, high = np.percentile(
        draws, [50 * (1 - CONFIDENCE_LEVEL), 50 * (1 + CONFIDENCE_LEVEL)], method="weibull"
    )
    level = 0.5 + CONFIDENCE_LEVEL / 2
    widening = 1.0
    if count > 1:
        quantile = float(scipy.special.stdtrit(count - 1, level))
        widening = quantile / NormalDist().inv_cdf(level) * math.sqrt(count / (count - 1))
    return observed + widening * (float(low) - observed), observed + widening * (float(high) - observed)


def _sum_by_cluster(stats: Array, cluster_of_row: Clusters, count: int) -> Array:
    """Return sums of row statistics by cluster, (num_clusters, num_stats)."""
    sums = np.zeros((count, stats.shape[1]))
    np.add.at(sums, cluster_of_row, stats)
    return sums


def _resampled_scores(
    parts: Sequence[RowStatistics], metric: Metric, key: str, num_resamples: int
) -> tuple[Array, int]:
    """Return scores of resamples, (num_resamples, num_parts), and the number of clusters."""
    cluster_of_row, count = assign_clusters(parts)
    matrices = [_sum_by_cluster(part.stats, c, count) for part, c in zip(parts, cluster_of_row, strict=True)]
    blocks = [
        np.stack([metric.reduce(sums) for sums in block], axis=1)
        for block in _resample(matrices, key, num_resamples)
    ]
    return np.concatenate(blocks), count


def _differences(matrices: Sequence[Array], metric: Metric, key: str, num_resamples: int) -> Array:
    """Return differences b - a of resamples, (num_resamples, num_pairs), from statistics of a and b side by side."""
    width = matrices[0].shape[1] // 2
    drawn = [
        np.stack([metric.reduce(x[:, width:]) - metric.reduce(x[:, :width]) for x in block], axis=1)
        for block in _resample(matrices, key, num_resamples)
    ]
    return np.concatenate(drawn)


def _distinct_rows(clusters: Array) -> tuple[Array, npt.NDArray[np.int64]]:
    rows, counts = np.unique(clusters, axis=0, return_counts=True)
    return rows, counts


def _resample(matrices: Sequence[Array], key: str, num_resamples: int) -> Iterator[list[Array]]:
    """Yield sums of bootstrap samples of clusters in blocks: per matrix (block, num_stats)."""
    side_by_side = np.hstack(matrices)
    ends = np.cumsum([m.shape[1] for m in matrices])[:-1]
    rows, counts = _distinct_rows(side_by_side)
    generator = rng("bootstrap", key)
    total = len(side_by_side)
    is_few = COST_OF_DISTINCT * len(rows) < total
    for size in _block_sizes(num_resamples, len(rows) if is_few else total):
        if is_few:
            multiplicities = generator.multinomial(total, counts / total, size=size)
            sums = multiplicities.astype(np.float64) @ rows
        else:
            drawn = generator.integers(total, size=(size, total), dtype=np.int64)
            drawn += np.arange(size, dtype=np.int64)[:, None] * total
            multiplicities = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape)
            sums = multiplicities.astype(np.float64) @ side_by_side
        yield np.split(sums, ends, axis=1)


def _randomised_differences(matrices: Sequence[Array], metric: Metric, key: str, num_resamples: int) -> Array:
    """Return mean differences b - a after swapping the systems' answers to random clusters, (num_resamples,)."""
    pairs_of_matrices = [np.split(m, 2, axis=1) for m in matrices]
    rows, counts = _distinct_rows(np.hstack([b - a for a, b in pairs_of_matrices]))
    generator = rng("randomise", key)
    ends = np.cumsum([a.shape[1] for a, _ in pairs_of_matrices])[:-1]
    means = []
    for size in _block_sizes(num_resamples, len(rows)):
        swapped = generator.binomial(counts, 0.5, size=(size, len(counts))).astype(np.float64) @ rows
        moved_by_pair = np.split(swapped, ends, axis=1)
        differences = [
            metric.reduce(b.sum(axis=0) - m) - metric.reduce(a.sum(axis=0) + m)
            for (a, b), m in zip(pairs_of_matrices, moved_by_pair, strict=True)
        ]
        means.append(np.mean(differences, axis=0))
    return np.concatenate(means)


def _block_sizes(num_resamples: int, width: int) -> Iterator[int]:
    """Yield block sizes of resamples that fit into memory."""
    max_size = max(1, VALUES_AT_ONCE // max(width, 1))
    for start in range(0, num_resamples, max_size):
        yield min(max_size, num_resamples - start)
