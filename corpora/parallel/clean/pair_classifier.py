"""Classifiers that tell the pairs of a corpus from damaged copies of them.

A classifier is a logistic regression on features of pairs, their squares, and products with the length. Its training
needs no labels: the corpus is one class, synthetic noise in a sample of it the other. Pairs of the corpus
that are damaged already are few and only make it more careful. Both classes weigh alike, so that log odds say the
same everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from xling.array_types import Float64

_RIDGE, _NUM_STEPS, _SCALE_STEPS, _CLIP = 0.3, 8, 40, 6.0
_MAX_CLEAN_ODDS = 1.5  # log odds from which a pair of the corpus does not count as whole


@dataclass(frozen=True)
class Classifier:
    """Log odds that a pair is damaged, by its features.

    Attributes:
        middle: float64 (num_features,), medians of the corpus.
        spread: float64 (num_features,), standard deviations.
        weights: float64 (num_terms,), one a term of `_add_squares`.
    """

    middle: Float64[np.ndarray, " features"]
    spread: Float64[np.ndarray, " features"]
    weights: Float64[np.ndarray, " terms"]

    def odds(self, features: Float64[np.ndarray, "pairs features"]) -> Float64[np.ndarray, " pairs"]:
        """Log odds of each pair, float64 (num_pairs,): `_add_squares` times the weights, without making the terms."""
        x = np.clip((features - self.middle) / self.spread, -_CLIP, _CLIP)
        plain, squares, products = np.split(self.weights[1:], (x.shape[1], 2 * x.shape[1]))
        odds: npt.NDArray[np.float64] = self.weights[0] + x @ plain + (x * x) @ squares
        return odds + x[:, -1] * (x[:, :-1] @ products)

    def to_json(self) -> dict[str, Any]:
        """Return the classifier as JSON-ready values; `from_json` reads them."""
        return {name: getattr(self, name).tolist() for name in _ARRAYS}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Classifier:
        """Rebuild a classifier from the values that `to_json` returned."""
        return Classifier(**{name: np.array(data[name], np.float64) for name in _ARRAYS})


_ARRAYS = ("middle", "spread", "weights")


def _add_squares(scaled: Float64[np.ndarray, "pairs features"]) -> Float64[np.ndarray, "pairs terms"]:
    """One, the features, their squares, and their products with the last one."""
    x = np.clip(scaled, -_CLIP, _CLIP)
    return np.concatenate([np.ones((len(x), 1)), x, x * x, x[:, :-1] * x[:, -1:]], axis=1)


def train(
    corpus: Float64[np.ndarray, "pairs features"], noisy: Float64[np.ndarray, "noisy features"]
) -> Classifier:
    """Logistic regression with a ridge, by Newton's method; both classes weigh alike.

    Pairs of the corpus that a first classifier takes for damaged do not count as whole in the second. Otherwise the log
    odds of damage could not rise above those of its share in the corpus.
    """
    clean = corpus[_fit(corpus, noisy).odds(corpus) < _MAX_CLEAN_ODDS]
    return _fit(clean if 2 * len(clean) > len(corpus) else corpus, noisy)


def _fit(clean: npt.NDArray[np.float64], noisy: npt.NDArray[np.float64]) -> Classifier:
    middle = np.median(clean, axis=0)
    low, high = np.quantile(clean, (0.05, 0.95), axis=0)
    # Nine in ten of a normal distribution lie within 1.645 deviations; damage in the corpus does not widen that.
    spread = np.maximum((high - low) / 3.29, np.maximum(0.3 * clean.std(axis=0), 1e-6))
    x = _add_squares((np.concatenate([clean, noisy]) - middle) / spread)
    ridge = np.full(x.shape[1], _RIDGE)
    ridge[0] = 1e-6
    weights = _fit_logistic(x, len(clean), ridge)
    # The ridge shrinks log odds; so they are scaled until they fit the two classes.
    odds = np.stack([np.ones(len(x)), x @ weights], axis=1)
    start, slope = _fit_logistic(odds, len(clean), np.full(2, 1e-4), _SCALE_STEPS)
    weights *= slope
    weights[0] += start
    return Classifier(middle, spread, weights)


def _fit_logistic(
    x: npt.NDArray[np.float64], num_clean: int, ridge: npt.NDArray[np.float64], steps: int = _NUM_STEPS
) -> npt.NDArray[np.float64]:
    """Weights of the terms ``x``, of which the first ``num_clean`` rows are whole pairs."""
    y = np.arange(len(x)) >= num_clean
    row_weights = np.where(y, 0.5 / max(len(x) - num_clean, 1), 0.5 / max(num_clean, 1))
    weights = np.zeros(x.shape[1])
    for _ in range(steps):
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        slope = x.T @ (row_weights * (y - p)) - ridge * weights
        curve = (x * (row_weights * np.maximum(p * (1 - p), 1e-4))[:, None]).T @ x + np.diag(ridge)
        weights = weights + np.linalg.solve(curve, slope)
    return weights
