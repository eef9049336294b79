"""Classifiers that tell the pairs of a corpus from damaged copies of them.

A classifier is a logistic regression on traits of pairs, their squares, and products with the length. Its training
needs no labels: the corpus is one class, damage that was planted into a sample of it the other. Pairs of the corpus
that are damaged already are few and only make it more careful. Both classes weigh alike, so that log odds say the
same everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from jaxtyping import Float64

_RIDGE, _STEPS, _CLIP = 0.3, 8, 6.0
_DOUBT = 2.0  # log odds from which a pair of the corpus does not count as whole


@dataclass(frozen=True)
class Classifier:
    """Log odds that a pair is damaged, by its traits.

    Attributes:
        middle: float64 (num_traits,), medians of the corpus.
        spread: float64 (num_traits,), standard deviations.
        weights: float64 (num_terms,), one a term of `_terms`.
    """

    middle: Float64[np.ndarray, " traits"]
    spread: Float64[np.ndarray, " traits"]
    weights: Float64[np.ndarray, " terms"]

    def odds(self, traits: Float64[np.ndarray, "pairs traits"]) -> Float64[np.ndarray, " pairs"]:
        """Log odds of each pair, float64 (num_pairs,)."""
        return _terms((traits - self.middle) / self.spread) @ self.weights

    def to_json(self) -> dict[str, Any]:
        """Return the classifier as JSON-ready values; `from_json` reads them."""
        return {name: getattr(self, name).tolist() for name in _ARRAYS}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Classifier:
        """Rebuild a classifier from the values that `to_json` returned."""
        return Classifier(**{name: np.array(data[name], np.float64) for name in _ARRAYS})


_ARRAYS = ("middle", "spread", "weights")


def _terms(scaled: Float64[np.ndarray, "pairs traits"]) -> Float64[np.ndarray, "pairs terms"]:
    """One, the traits, their squares, and their products with the last one."""
    x = np.clip(scaled, -_CLIP, _CLIP)
    return np.concatenate([np.ones((len(x), 1)), x, x * x, x[:, :-1] * x[:, -1:]], axis=1)


def train(
    corpus: Float64[np.ndarray, "pairs traits"], planted: Float64[np.ndarray, "planted traits"]
) -> Classifier:
    """Logistic regression with a ridge, by Newton's method; both classes weigh alike.

    Pairs of the corpus that a first classifier takes for damaged do not count as whole in the second. The ridge shrinks
    log odds, so these are scaled at last until they fit the two classes.
    """
    whole = corpus[_fitted(corpus, planted).odds(corpus) < _DOUBT]
    whole = whole if 2 * len(whole) > len(corpus) else corpus
    classifier = _fitted(whole, planted)
    odds = np.concatenate([classifier.odds(whole), classifier.odds(planted)])
    start, slope = _logistic(np.stack([np.ones(len(odds)), odds], axis=1), len(whole), np.full(2, 1e-4))
    weights = slope * classifier.weights
    weights[0] += start
    return Classifier(classifier.middle, classifier.spread, weights)


def _fitted(whole: npt.NDArray[np.float64], planted: npt.NDArray[np.float64]) -> Classifier:
    middle = np.median(whole, axis=0)
    spread = np.maximum(whole.std(axis=0), 1e-6)
    x = _terms((np.concatenate([whole, planted]) - middle) / spread)
    ridge = np.full(x.shape[1], _RIDGE)
    ridge[0] = 1e-6
    return Classifier(middle, spread, _logistic(x, len(whole), ridge))


def _logistic(
    x: npt.NDArray[np.float64], num_whole: int, ridge: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Weights of the terms ``x``, of which the first ``num_whole`` rows are whole pairs."""
    y = np.arange(len(x)) >= num_whole
    weigh = np.where(y, 0.5 / max(len(x) - num_whole, 1), 0.5 / max(num_whole, 1))
    weights = np.zeros(x.shape[1])
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        slope = x.T @ (weigh * (y - p)) - ridge * weights
        curve = (x * (weigh * np.maximum(p * (1 - p), 1e-4))[:, None]).T @ x + np.diag(ridge)
        weights = weights + np.linalg.solve(curve, slope)
    return weights
