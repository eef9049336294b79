"""Gibbs sampling of word alignments with a lexicon, jumps and fertilities, vectorised over sentences.

One direction: source word ``e_{a_j}`` or NULL produces target word ``f_j``; positions move by jumps whose width
has one distribution; each source word has its own distribution over how many words it produces. All three carry
Dirichlet priors and are integrated out. A sweep visits the target positions from left to right, all sentences of
a batch at once; counts are brought up to date after each batch. Position probabilities are averaged over the
last sweeps, which is what the answer is read from.

Source: the model follows Ostling and Tiedemann 2016 (Bayesian HMM with fertility, collapsed Gibbs sampling) and
Vogel, Ney and Tillmann 1996 (HMM). Drawn with counter-based random numbers, so a rerun repeats it bit for bit.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from xling.array_types import Float32, Float64, Int32, Int64
from xling.core.sampling import rng
from xling.corpora.parallel.wordalign.model1 import PAD_NULL, Batch, Floats, Ints, Lexicon, Longs

_MAX_JUMP = 40
_MAX_FERTILITY = 10
_JUMP_PRIOR = 0.5
_FERTILITY_PRIOR = 0.5


class Sampler:
    """The counts of one direction and the current link of every target word.

    Args:
        lexicon: word pairs and batches of the sentences.
        links: for each batch int32 (J, B), the links to start from, -1 for NULL or padding.
        lexical_prior: Dirichlet concentration of the translation probabilities.
        null_prior: probability that a target word has no source word.
        key: what the random numbers are keyed by.
    """

    def __init__(
        self,
        lexicon: Lexicon,
        links: list[Int32[np.ndarray, "_ _"]],
        lexical_prior: float,
        null_prior: float,
        key: tuple[int | str, ...],
    ) -> None:
        self.lexicon, self.links, self.key = lexicon, links, key
        self.prior, self.null_prior = np.float32(lexical_prior), np.float32(null_prior)
        self.pair_counts = np.zeros(len(lexicon.probabilities), np.float32)
        self.src_counts = np.zeros(lexicon.num_src, np.float32)
        self.fertility_counts = np.full((lexicon.num_src, _MAX_FERTILITY + 1), _FERTILITY_PRIOR, np.float32)
        self.probability_sums = [np.zeros(batch.cells.shape, np.float32) for batch in lexicon.batches]
        for batch, src_positions in zip(lexicon.batches, links, strict=True):
            self._add_counts(batch, src_positions, fertilities(src_positions, batch.src.shape[1]), 1)

    def _add_counts(self, batch: Batch, src_positions: Ints, fertility: Longs, sign: int) -> None:
        """Add or take away the links of a batch from all counts but the jumps'."""
        np.add.at(self.pair_counts, linked_parameters(batch, src_positions), sign)
        np.add.at(self.src_counts, linked_sources(batch, src_positions)[batch.is_word], sign)
        capped_fertility = np.minimum(fertility[:, :-1], _MAX_FERTILITY)
        np.add.at(self.fertility_counts, (batch.src, capped_fertility), sign)

    def jump_weights(self) -> Float64[np.ndarray, " jumps"]:
        """Jump distribution (2 * max + 1,) by the links of all batches."""
        counts = np.full(2 * _MAX_JUMP + 1, _JUMP_PRIOR)
        for src_positions in self.links:
            previous = np.full(src_positions.shape[1], -1, np.int32)
            for row in src_positions:
                word_weights = row >= 0
                width = np.clip(row[word_weights] - previous[word_weights], -_MAX_JUMP, _MAX_JUMP) + _MAX_JUMP
                counts += np.bincount(width, minlength=len(counts))
                previous = np.where(word_weights, row, previous)
        weights: npt.NDArray[np.float64] = counts / counts.sum()
        return weights

    def sweep(self, number: int, averaging: bool) -> None:
        """Draw every link once; ``averaging`` adds the probabilities to the sums."""
        weights = self.jump_weights()
        random = rng(*self.key, number)
        for position, batch in enumerate(self.lexicon.batches):
            src_positions = self.links[position]
            random_numbers = random.random(src_positions.shape, dtype=np.float32)
            fertility = fertilities(src_positions, batch.src.shape[1])
            word_weights, null_weights = self._emissions(batch, src_positions)
            fertility_weights = self._fertility_ratios(batch, fertility)
            self._add_counts(batch, src_positions, fertility, -1)
            # Jump weights (I + 1, I + 1): row = position before from -1, column = position, last column 1 = none.
            length = batch.src.shape[1]
            width = np.arange(length)[None] - np.arange(-1, length)[:, None]
            moves = weights[np.clip(width, -_MAX_JUMP, _MAX_JUMP) + _MAX_JUMP] + 1e-6
            moves /= moves.sum(axis=1, keepdims=True)
            jump_table = np.concatenate([moves, np.ones((length + 1, 1))], axis=1).astype(np.float32)
            total = self.probability_sums[position] if averaging else None
            draw_links(
                src_positions,
                fertility,
                word_weights,
                null_weights,
                fertility_weights,
                jump_table,
                random_numbers,
                total,
            )
            self._add_counts(batch, src_positions, fertility, 1)

    def _emissions(self, batch: Batch, src_positions: Ints) -> tuple[Floats, Floats]:
        """Return weights (J, B, I) and (J, B) of producing each target word, its own present link not counted."""
        prior_mass = np.float32(self.prior * self.lexicon.num_tgt)
        word_weights = (self.pair_counts[batch.cells] + self.prior) / (
            self.src_counts[batch.src] + prior_mass
        )[None]
        null_weights = (self.pair_counts[batch.null_cells] + self.prior) / (self.src_counts[0] + prior_mass)
        pair = self.pair_counts[linked_parameters(batch, src_positions)]
        own_weights = (pair - 1 + self.prior) / (
            self.src_counts[linked_sources(batch, src_positions)] - 1 + prior_mass
        )
        j, b = np.nonzero(src_positions >= 0)
        word_weights[j, b, src_positions[j, b]] = own_weights[j, b]
        word_weights *= np.float32(1 - self.null_prior)
        null_weights = np.where(src_positions >= 0, null_weights, own_weights) * self.null_prior
        # Padding: only NULL is possible, so that nothing else moves.
        word_weights[~batch.is_word] = 0.0
        null_weights[~batch.is_word] = 1.0
        return word_weights, null_weights.astype(np.float32)

    def _fertility_ratios(self, batch: Batch, fertility: Longs) -> Floats:
        """Return weight (B, I, max + 1) of one more link for a source word that has 0, 1, ... max others."""
        counts = self.fertility_counts[batch.src]
        capped_fertility = np.minimum(fertility[:, :-1], _MAX_FERTILITY)[:, :, None]
        np.put_along_axis(counts, capped_fertility, np.take_along_axis(counts, capped_fertility, 2) - 1, 2)
        ratios = np.full_like(counts, 1e-3)
        ratios[:, :, :-1] = counts[:, :, 1:] / counts[:, :, :-1]
        return ratios

    def best(self, num_averaged: int) -> list[Int32[np.ndarray, "_ _"]]:
        """For each batch int32 (J, B): the most probable position, -1 where NULL is."""
        positions = []
        for total in self.probability_sums:
            mean = total / np.float32(num_averaged)
            best = mean.argmax(axis=2).astype(np.int32)
            best[1 - mean.sum(axis=2) > mean.max(axis=2)] = -1
            positions.append(best)
        return positions


def draw_links(
    src_positions: Int32[np.ndarray, "tgt batch"],
    fertility: Int64[np.ndarray, "batch slots"],
    word_weights: Float32[np.ndarray, "tgt batch src"],
    null_weights: Float32[np.ndarray, "tgt batch"],
    fertility_weights: Float32[np.ndarray, "batch src fertilities"],
    jump_table: Float32[np.ndarray, " src+1 src+1"],
    random_numbers: Float32[np.ndarray, "tgt batch"],
    probability_sums: Float32[np.ndarray, "tgt batch src"] | None,
) -> None:
    """Draw the links of a batch from left to right, in place.

    Args:
        src_positions: (J, B), present links; overwritten.
        fertility: (B, I + 1), links per source word, the last column takes NULL; overwritten.
        word_weights: (J, B, I), emission weights.
        null_weights: (J, B), emission weights of NULL.
        fertility_weights: (B, I, max + 1), fertility weights.
        jump_table: (I + 1, I + 1), jump weights from position -1, 0, ... to 0, ..., I - 1 and "no next word".
        random_numbers: (J, B), numbers in [0, 1).
        probability_sums: (J, B, I), where probabilities are added, or None.
    """
    num_tgt, num_rows, num_src = word_weights.shape
    rows = np.arange(num_rows)
    next_position = np.full(src_positions.shape, num_src, np.int32)
    for j in range(num_tgt - 2, -1, -1):
        next_position[j] = np.where(src_positions[j + 1] >= 0, src_positions[j + 1], next_position[j + 1])
    jumps_to_word = np.ascontiguousarray(jump_table[1:].T)
    flat_ratio = fertility_weights.ravel()
    base = np.arange(num_rows * num_src).reshape(num_rows, num_src) * fertility_weights.shape[2]
    previous = np.zeros(num_rows, np.int64)
    for j in range(num_tgt):
        fertility[rows, src_positions[j]] -= 1
        weight = word_weights[j] * jump_table[previous, :-1]
        weight *= jumps_to_word[next_position[j]]
        weight *= flat_ratio[base + np.minimum(fertility[:, :-1], _MAX_FERTILITY)]
        cumulated = np.cumsum(weight, axis=1)
        total_weight = cumulated[:, -1] + null_weights[j] * jump_table[previous, next_position[j]]
        drawn = (cumulated <= (random_numbers[j] * total_weight)[:, None]).sum(axis=1)
        drawn[drawn == num_src] = -1
        if probability_sums is not None:
            probability_sums[j] += weight / total_weight[:, None]
        src_positions[j] = drawn
        fertility[rows, drawn] += 1
        previous = np.where(drawn >= 0, drawn + 1, previous)


def fertilities(
    src_positions: Int32[np.ndarray, "tgt batch"], num_src: int
) -> Int64[np.ndarray, " batch {num_src}+1"]:
    """Return links per source position (B, I + 1); the last column counts NULL and padding."""
    counts = np.zeros((src_positions.shape[1], num_src + 1), np.int64)
    np.add.at(counts, (np.arange(src_positions.shape[1])[None], src_positions), 1)
    return counts


def linked_parameters(
    batch: Batch, src_positions: Int32[np.ndarray, "tgt batch"]
) -> Int32[np.ndarray, "tgt batch"]:
    """Return parameter number (J, B) of each present link."""
    word_weights = np.take_along_axis(batch.cells, np.maximum(src_positions, 0)[:, :, None], axis=2)[:, :, 0]
    return np.where((src_positions >= 0) | (batch.null_cells == PAD_NULL), word_weights, batch.null_cells)


def linked_sources(
    batch: Batch, src_positions: Int32[np.ndarray, "tgt batch"]
) -> Int32[np.ndarray, "tgt batch"]:
    """Return source word id (J, B) of each present link, 0 for NULL."""
    rows = np.arange(src_positions.shape[1])[None]
    return np.where(src_positions >= 0, batch.src[rows, np.maximum(src_positions, 0)], 0).astype(np.int32)
