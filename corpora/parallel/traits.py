"""Traits of a sentence pair beside a lexicon: how much is covered, in which order, how long it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from xling.corpora.parallel.lexical import Lexicon, Tokens, fit, run_keys

if TYPE_CHECKING:
    from jaxtyping import Float64

NAMES = (
    "tgt_fit", "src_fit", "worse_fit", "tgt_end", "src_end", "tgt_begin", "src_begin", "tgt_all", "src_all", "length",
    "length_off", "foreign_end", "foreign_begin", "foreign", "copied", "order", "tgt_runs", "src_runs", "runs_off",
    "words",
)  # fmt: skip
"""Of which `measure` gives the values."""
_RUN_SMOOTHING = 3.0


def measure(
    lexicon: Lexicon,
    src: Tokens,
    tgt: Tokens,
    chars: Float64[np.ndarray, "pairs 2"],
) -> Float64[np.ndarray, "pairs traits"]:
    """The values of `NAMES` for each pair, float64 (num_pairs, num_traits).

    Args:
        lexicon: of the languages.
        src: words of the source sides.
        tgt: words of the target sides.
        chars: characters of both sides, float64 (num_pairs, 2).
    """
    fits = fit(lexicon, src, tgt)
    src_fit, tgt_fit = mean(src, fits.src), mean(tgt, fits.tgt)
    foreign = _foreign(lexicon, tgt)
    runs = [_runs(lexicon, side, tokens) for side, tokens in ((0, src), (1, tgt))]
    length = np.log((chars[:, 1] + 3) / (chars[:, 0] + 3)) * np.sqrt(chars.sum(axis=1) + 10) / 4
    values = (
        tgt_fit, src_fit, np.minimum(src_fit, tgt_fit),
        ends(tgt, fits.tgt), ends(src, fits.src), ends(tgt, fits.tgt, True), ends(src, fits.src, True),
        _root(tgt, tgt_fit), _root(src, src_fit), length, np.zeros(len(length)),
        -ends(tgt, -foreign), -ends(tgt, -foreign, True), mean(tgt, foreign), _copied(src, tgt),
        _order(tgt, fits.tgt, fits.place), runs[1], runs[0], runs[1] - runs[0],
        np.log1p(np.minimum(src.lengths, tgt.lengths)),
    )  # fmt: skip
    return np.stack(values, axis=1)


def mean(side: Tokens, values: Float64[np.ndarray, " words"]) -> Float64[np.ndarray, " texts"]:
    """Means over the words of each text; 0 for a text without words."""
    sums = np.bincount(side.owners, values, len(side.lengths))
    return sums / np.maximum(side.lengths, 1)


def _root(side: Tokens, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Scale sums over the words of each pair by the root of their number."""
    return values * np.sqrt(side.lengths)


def ends(
    side: Tokens, values: Float64[np.ndarray, " words"], begin: bool = False
) -> Float64[np.ndarray, " texts"]:
    """The least sum of ``values`` over an end (or a beginning) of each text, at most 0, by the root of its words.

    Values are logarithms of likelihood ratios, so that this is the evidence that an end does not belong there.
    """
    total = np.concatenate([[0.0], np.cumsum(values)])
    least = np.zeros(len(side.lengths))
    rows = side.lengths > 0
    # Of an end: all minus the sum before it; of a beginning: the sum up to its last word.
    before = total[1:] if begin else total[:-1]
    best = np.minimum if begin else np.maximum
    borders = side.starts[:-1][rows]
    if len(borders):
        reached = best.reduceat(before, borders)
        last = total[side.starts[1:][rows]]
        least[rows] = np.minimum(reached - total[borders] if begin else last - reached, 0)
    return least / np.sqrt(np.maximum(side.lengths, 1))


def _foreign(lexicon: Lexicon, tgt: Tokens) -> Float64[np.ndarray, " words"]:
    """How much likelier each target word is on source sides than on target sides, as a logarithm."""
    mine, theirs = (of.of(tgt.ids)[:, 0].astype(np.float64) for of in (lexicon.tgt, lexicon.src))
    sizes = lexicon.sizes
    return np.log((theirs + 0.5) / (sizes[0] + 1)) - np.log((mine + 0.5) / (sizes[1] + 1))


def _times_in(src: Tokens, tgt: Tokens) -> Float64[np.ndarray, " words"]:
    """How often each target word stands in its own source side."""
    keys = [side.ids ^ (side.owners.astype(np.uint64) * np.uint64(0xD6E8FEB86659FD93)) for side in (src, tgt)]
    known, count = np.unique(keys[0], return_counts=True)
    if not len(known):
        return np.zeros(len(keys[1]))
    places = np.minimum(np.searchsorted(known, keys[1]), len(known) - 1)
    return np.where(known[places] == keys[1], count[places], 0).astype(np.float64)


def _copied(src: Tokens, tgt: Tokens) -> Float64[np.ndarray, " pairs"]:
    return mean(tgt, (_times_in(src, tgt) > 0).astype(np.float64))


def _order(
    tgt: Tokens, values: npt.NDArray[np.float64], place: npt.NDArray[np.float64]
) -> Float64[np.ndarray, " pairs"]:
    """Correlation of the places of target words and of what they are linked to, by how sure the links are."""
    weight = np.maximum(values, 0)
    own = (np.arange(len(tgt.ids)) - tgt.starts[tgt.owners]) / np.maximum(tgt.lengths[tgt.owners] - 1, 1)
    num, owners = len(tgt.lengths), tgt.owners
    total = np.maximum(np.bincount(owners, weight, num), 1e-9)
    centred = [x - (np.bincount(owners, weight * x, num) / total)[owners] for x in (own, place)]
    products = [
        np.bincount(owners, weight * centred[i] * centred[j], num) for i, j in ((0, 1), (0, 0), (1, 1))
    ]
    strength = np.sqrt(np.maximum(products[1] * products[2], 0))
    sure = np.sqrt(np.minimum(total, 30) / 30)  # few links say little about an order
    return np.where(strength > 1e-9, products[0] / np.maximum(strength, 1e-9), 0) * sure


def _runs(lexicon: Lexicon, side: int, tokens: Tokens) -> Float64[np.ndarray, " texts"]:
    """How much likelier the words are in this order than in any, as a mean logarithm."""
    runs = (lexicon.src_runs, lexicon.tgt_runs)[side].of(run_keys(tokens))[:, 0].astype(np.float64)
    alone = (lexicon.src, lexicon.tgt)[side].of(tokens.ids)[:, 0].astype(np.float64)
    first = np.zeros(len(tokens.ids), bool)
    first[tokens.starts[:-1][tokens.lengths > 0]] = True
    before = np.concatenate([[0.0], alone])[:-1]
    often = (alone + 0.5) / (lexicon.sizes[side] + 0.5)
    ratio = np.log((runs + _RUN_SMOOTHING * often) / ((before + _RUN_SMOOTHING) * often))
    ratio[first] = 0
    return mean(tokens, ratio)
