"""Classification of pages as spam: adult, gambling and machine-made pages, told by their words.

A linear model over hashed words and runs of words: in scripts without spaces runs of one to three characters. A feature
counts once, however often it occurs, and the vector has length 1 (Joachims 1998), so a long page needs more spam words
than a short one. The hashes are those of `xling.text.units`, which the filters have computed for the same text, so the
model costs little more than a look into its table.

All arithmetic is exact up to one root and one division: weights are multiples of a power of two. So the verdict on a
page depends neither on the machine nor on the pages that are judged in the same call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile

import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import NDArray

from xling.core.errors import UserError
from xling.text.units import CountedUnits, counted_units, runs, units

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64, Int32, Int64

FILE_NAME = "spam.npz"
_BITS, _PLACE_BITS = 40, 20  # of a feature, and of its place in the table
_STEP = 256  # weights are multiples of 1 / 256
_MAX_WEIGHT = 127.0
_PRUNED = 1 / 8  # weights below are left out
_RUNS, _UNSPACED_RUNS = (1, 2), (2, 3)  # lengths in words, in characters
_UNSPACED_SHARE = 0.5  # of the letters in scripts without spaces: from here on a text is read by characters

Ints = NDArray[np.int64]


def _runs(counted: CountedUnits) -> dict[int, Ints]:
    """Return the features by length of run, one for each unit at which a run begins."""
    lengths = _UNSPACED_RUNS if counted.unspaced_share > _UNSPACED_SHARE else _RUNS
    hashes = {num: counted.hashes if num == 1 else runs(counted.hashes, num) for num in lengths}
    return {num: (values >> np.uint64(64 - _BITS)).view(np.int64) for num, values in hashes.items()}


def _all_runs(text: str) -> Ints:
    return np.concatenate([*_runs(counted_units(text)).values()])


def features(text: str) -> Int64[np.ndarray, " num_features"]:
    """Return the different features of a text, ascending, ``(num_features,)`` int64; none without letters."""
    return np.unique(_all_runs(text))


def _size(places: Ints) -> float:
    """Return the length of a vector with a 1 at each of these different places."""
    return float(np.sqrt(max(1, len(places))))


@dataclass(frozen=True)
class SpamModel:
    """A weight for each known feature; no two of them have the same first 20 bits, their place in a table.

    Attributes:
        known: features, ascending, ``(num_known,)`` int64.
        weights: towards spam, multiples of 1/256, ``(num_known,)``.
        bias: log-odds of a text without known features.
    """

    known: Int64[np.ndarray, " num_known"]
    weights: Float64[np.ndarray, " num_known"]
    bias: float

    def log_odds(self, text: str) -> float:
        """Return the log-odds that a text is spam; `bias` for a text without letters."""
        of_text = _all_runs(text)
        if not len(of_text):
            return self.bias
        places = of_text >> (_BITS - _PLACE_BITS)
        rows = self._rows[places]
        rows = np.unique(rows[self.known[rows] == of_text])
        numbers = np.arange(len(places), dtype=np.int32)
        self._last[places] = numbers  # of equal places one number remains
        num_places = np.count_nonzero(self._last[places] == numbers)
        return int(self._steps[rows].sum()) / _STEP / float(np.sqrt(num_places)) + self.bias

    @cached_property
    def _rows(self) -> Int32[np.ndarray, " num_places"]:
        """Return the row of the feature at each place of the table; an empty place has any row."""
        rows = np.zeros(1 << _PLACE_BITS, dtype=np.int32)
        rows[self.known >> (_BITS - _PLACE_BITS)] = np.arange(len(self.known))
        return rows

    @cached_property
    def _steps(self) -> Ints:
        return np.rint(self.weights * _STEP).astype(np.int64)

    @cached_property
    def _last(self) -> Int32[np.ndarray, " num_places"]:
        return np.zeros(1 << _PLACE_BITS, dtype=np.int32)

    def telling(self, text: str, most: int = 5) -> list[str]:
        """Return the words and runs of words of a text that speak most for spam, most telling first.

        A run that contains a more telling run, or is a part of one, is left out.
        """
        counted, words = counted_units(text), units(text)
        joint = "" if counted.unspaced_share > _UNSPACED_SHARE else " "
        weight_of = dict[str, float]()
        for num, of_text in _runs(counted).items():
            rows = self._rows[of_text >> (_BITS - _PLACE_BITS)]
            weights = np.where(self.known[rows] == of_text, self.weights[rows], 0.0)
            for place in np.flatnonzero(weights > 0).tolist():
                weight_of[joint.join(words[place : place + num])] = float(weights[place])
        chosen = list[str]()
        for run in sorted(weight_of, key=lambda run: (-weight_of[run], run)):
            if not any(run in other or other in run for other in chosen):
                chosen.append(run)
            if len(chosen) == most:
                break
        return chosen

    def save(self, path: Path) -> None:
        """Write the model; equal models give equal bytes."""
        with path.open("wb") as handle:
            np.savez_compressed(
                handle,
                steps=np.diff(self.known, prepend=0),
                weights=np.rint(self.weights * _STEP).astype(np.int16),
                bias=np.array(self.bias),
            )


@cache
def load(path: Path) -> SpamModel:
    """Return the model in a file.

    Raises:
        UserError: there is none, or it is another kind of file.
    """
    try:
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            known, weights = np.cumsum(file["steps"]), file["weights"] / float(_STEP)
            if (
                known.dtype != np.int64
                or known.shape != weights.shape
                or not 0 < len(known) < 1 << _PLACE_BITS
            ):
                raise ValueError(f"shapes {known.shape} and {weights.shape}")
            return SpamModel(known, weights, float(file["bias"]))
    except (OSError, ValueError, KeyError, IndexError, AttributeError, EOFError, BadZipFile) as error:
        raise UserError(
            f"{path} is not a model of spam: {error}", "a file that xling corpus spam-train made"
        ) from None


def train(
    texts: Sequence[str],
    is_spam: Bool[np.ndarray, " num_texts"],
    strength: float = 4.0,
    min_texts: int = 3,
    only: Int64[np.ndarray, " num_only"] | None = None,
    steps: int = 100,
) -> SpamModel:
    """Fit a logistic regression on texts; spam and clean text weigh the same, whatever their numbers.

    Args:
        texts: pages, a paragraph a line.
        is_spam: what each is, ``(num_texts,)``; some are and some are not.
        strength: how far weights may go from 0: the inverse of the penalty on their squares.
        min_texts: a feature of fewer texts has no weight.
        only: the features that may have a weight, ascending; None for all.
        steps: of the optimiser at most.
    """
    rows, sizes = list[Ints](), np.empty(len(texts))
    for i, text in enumerate(texts):
        row = features(text)
        sizes[i] = _size(np.unique(row >> (_BITS - _PLACE_BITS)))
        rows.append(row if only is None else row[np.isin(row, only, assume_unique=True)])
    known = _known(np.concatenate(rows), min_texts)
    columns = [np.searchsorted(known, row[np.isin(row, known, assume_unique=True)]) for row in rows]
    nums = np.array([len(row) for row in columns])
    seen = scipy.sparse.csr_array(
        (np.repeat(1 / sizes, nums), np.concatenate(columns), np.append(0, np.cumsum(nums))),
        shape=(len(rows), len(known)),
    )
    signs = np.where(is_spam, 1.0, -1.0)
    shares = np.where(is_spam, 0.5 / is_spam.sum(), 0.5 / (~is_spam).sum()) * strength * len(rows)

    def loss(point: Float64[np.ndarray, " num_weights"]) -> tuple[float, Float64[np.ndarray, " num_weights"]]:
        margins = signs * (seen @ point[:-1] + point[-1])
        slopes = -shares * signs * scipy.special.expit(-margins)
        total = float(shares @ np.logaddexp(0, -margins)) + 0.5 * float(point[:-1] @ point[:-1])
        return total, np.append(seen.T @ slopes + point[:-1], slopes.sum())

    best = scipy.optimize.minimize(
        loss, np.zeros(len(known) + 1), jac=True, method="L-BFGS-B", options={"maxiter": steps}
    ).x
    weights = np.clip(np.rint(best[:-1] * _STEP) / _STEP, -_MAX_WEIGHT, _MAX_WEIGHT)
    kept = (np.abs(weights) >= _PRUNED) | (np.arange(len(known)) == 0)  # at least one
    return SpamModel(known[kept], weights[kept], round(float(best[-1]) * _STEP) / _STEP)


def _known(of_texts: Ints, min_texts: int) -> Ints:
    """Return the features that enough texts have, ascending; of those at one place the most frequent."""
    different, counts = np.unique(of_texts, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] >= min_texts]
    _, firsts = np.unique(different[order] >> (_BITS - _PLACE_BITS), return_index=True)
    return np.sort(different[order[firsts]])
