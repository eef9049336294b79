"""EM for IBM model 1 over flat cells, a cell being a word of one side beside one of the other.

Source: Brown et al. 1993, model 1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from xling.array_types import Float64, Int64


def expected_links(
    cells: Int64[np.ndarray, " cells"],
    produced: Int64[np.ndarray, " cells"],
    producer_of: Int64[np.ndarray, " pairs"],
    null: Float64[np.ndarray, " produced"] | None,
    smoothing: float,
    prior: Float64[np.ndarray, " pairs"] | float = 0.0,
    iterations: int = 5,
) -> tuple[Float64[np.ndarray, " cells"], Float64[np.ndarray, " pairs"], Float64[np.ndarray, " pairs"]]:
    """EM from equal probabilities over flat cells, each produced word coming from one cell or none.

    Args:
        cells: number of the word pair of each cell.
        produced: number of the produced word of each cell.
        producer_of: producing word of each word pair.
        null: weight of no cell for each produced word; None for the mean of the probabilities of all cells.
        smoothing: added to what each producing word produces.
        prior: added to the expected links of each word pair.

    Returns:
        float64 each: the probability that each cell is a link, the expected links of each word pair, and
        p(produced | producing) of it.
    """
    probability = expected = np.ones(len(producer_of))
    shares: npt.NDArray[np.float64] = np.zeros(len(cells))
    for _ in range(iterations):
        shares = probability[cells]
        total = np.bincount(produced, shares) + (shares.mean() if null is None else null)
        shares = shares / total[produced]
        expected = np.bincount(cells, shares, len(producer_of)).astype(np.float64)
        totals = np.bincount(producer_of, expected)
        probability = (expected + prior) / (totals[producer_of] + smoothing)
    return shares, expected, probability
