"""Measures on vectors of texts: similarity of representations, probes with control tasks, language identity, neurons.

All of them are deterministic: splits are by the order of the rows, labels of control tasks by a hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from xling.array_types import Float, Int64

RIDGE = 1.0
NUM_BINS = 10
TOP_SHARE = 0.05
"""Share of the units of a layer that count as a language's own."""


def linear_cka(a: Float[np.ndarray, "rows dim_a"], b: Float[np.ndarray, "rows dim_b"]) -> float:
    """Return linear centred kernel alignment of vectors of the same items, 0 to 1 (Kornblith et al. 2019, eq. 4)."""
    a, b = (x.astype(np.float64) - x.mean(axis=0, dtype=np.float64) for x in (a, b))
    norm = float(np.linalg.norm(a.T @ a) * np.linalg.norm(b.T @ b))
    return min(1.0, float(np.linalg.norm(a.T @ b) ** 2) / norm) if norm else 0.0


def rotation(
    a: Float[np.ndarray, "rows dim_a"], b: Float[np.ndarray, "rows dim_b"]
) -> Float[np.ndarray, "dim_a dim_b"]:
    """Return the orthogonal map that takes ``a`` nearest to ``b``, rows of the same items (Schönemann 1966).

    Between spaces of different widths its rows or its columns are orthonormal, whichever are fewer.
    """
    left, _, right = np.linalg.svd(a.T.astype(np.float64) @ b, full_matrices=False)
    return np.asarray(left @ right, dtype=a.dtype)


def probe(
    train: Float[np.ndarray, "train dim"],
    labels: Int64[np.ndarray, " train"],
    test: Float[np.ndarray, "test dim"],
) -> Int64[np.ndarray, " test"]:
    """Predict classes with a linear probe: ridge regression of one-hot labels on standardised vectors.

    Args:
        labels: their classes, from 0.
    """
    mean, scale = train.mean(axis=0), train.std(axis=0) + 1e-6
    x = np.hstack([(train - mean) / scale, np.ones((len(train), 1))])
    wanted = np.eye(int(labels.max()) + 1)[labels]
    weights = np.linalg.solve(x.T @ x + RIDGE * len(x) / 10 * np.eye(x.shape[1]), x.T @ wanted)
    y = np.hstack([(test - mean) / scale, np.ones((len(test), 1))])
    predicted: Int64[np.ndarray, " test"] = (y @ weights).argmax(axis=1).astype(np.int64)
    return predicted


def classifier(
    train: Float[np.ndarray, "train dim"], labels: Int64[np.ndarray, " train"]
) -> Callable[[Float[np.ndarray, "test dim"]], Float[np.ndarray, "test classes"]]:
    """Fit a logistic regression on standardised vectors; return a function that gives the probabilities of classes.

    Args:
        labels: their classes, from 0; each has to occur.
    """
    from sklearn.linear_model import LogisticRegression

    mean, scale = train.mean(axis=0), train.std(axis=0) + 1e-6
    fitted = LogisticRegression(C=0.1, max_iter=300, tol=1e-3).fit((train - mean) / scale, labels)
    return lambda vectors: np.asarray(fitted.predict_proba((vectors - mean) / scale))


def calibration_error(
    probabilities: Float[np.ndarray, "rows classes"], labels: Int64[np.ndarray, " rows"]
) -> float:
    """Return the expected calibration error, 0 to 1, with ten bins of equal width (Guo et al. 2017, equation 3).

    It is the mean distance of confidence and accuracy, over bins of the confidence in the likeliest class, weighted by
    the number of rows in each.
    """
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    bins = np.minimum((confidence * NUM_BINS).astype(int), NUM_BINS - 1)
    apart = np.bincount(bins, weights=confidence - right, minlength=NUM_BINS)
    return float(np.abs(apart).sum() / len(labels))


def control_labels(texts: Sequence[str], classes: Int64[np.ndarray, " rows"]) -> Int64[np.ndarray, " texts"]:
    """Draw a class for each text by its hash, as frequently as it occurs: a control task (Hewitt and Liang 2019)."""
    hashes = [int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) for text in texts]
    places = np.array(hashes, dtype=np.int64) * len(classes) // (1 << 32)
    drawn: Int64[np.ndarray, " texts"] = np.sort(classes)[places]
    return drawn


def language_identity(vectors: Mapping[str, Float[np.ndarray, "rows dim"]], centred: bool) -> float:
    """Return the share of texts whose language a linear probe predicts, trained on every second text.

    Args:
        centred: whether each language's mean, of the texts learned from, is taken off first.
    """
    langs = sorted(vectors)
    halves = []
    for part in (0, 1):
        rows = [
            vectors[lang][part::2] - (vectors[lang][::2].mean(axis=0) if centred else 0) for lang in langs
        ]
        halves.append((np.vstack(rows), np.repeat(np.arange(len(langs)), [len(r) for r in rows])))
    (train, labels), (test, wanted) = halves
    return float((probe(train, labels, test) == wanted).mean())


def strongest_units(
    vectors: Float[np.ndarray, "rows dim"], overall_mean: Float[np.ndarray, " dim"]
) -> set[int]:
    """Return the units of a layer whose mean deviates most from that of all languages, in standard deviations."""
    far = np.abs(vectors.mean(axis=0) - overall_mean) / (vectors.std(axis=0) + 1e-6)
    return set(np.argsort(-far, kind="stable")[: max(1, round(TOP_SHARE * len(far)))].tolist())


def jaccard(first: set[int], second: set[int]) -> float:
    """Return Jaccard's index: the size of the intersection divided by the size of the union."""
    return len(first & second) / (len(first | second) or 1)
