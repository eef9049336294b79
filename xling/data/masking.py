"""Choosing and corrupting tokens for masked language modelling; pure functions on arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xling.core.errors import UserError


@dataclass(frozen=True)
class MaskRule:
    """What becomes of the chosen positions.

    Attributes:
        prob: share of the maskable positions that are chosen.
        leave: share of the chosen that keep their token (BERT: .1).
        random: share of the chosen that get a random piece (BERT: .1); the rest become ``<mask>``.
        mask_id: id of ``<mask>``.
        first_piece: random pieces are drawn from ``first_piece <= id < end_piece``.
        end_piece: see ``first_piece``.
    """

    prob: float
    leave: float
    random: float
    mask_id: int
    first_piece: int
    end_piece: int

    def __post_init__(self) -> None:
        for name, share in (
            ("mask_prob", self.prob),
            ("leave_unmasked_prob", self.leave),
            ("random_token_prob", self.random),
        ):
            if not 0 <= share <= 1:
                raise UserError(f"{name}={share}", "a share from 0 to 1")
        if self.leave + self.random > 1:
            raise UserError(
                f"leave_unmasked_prob={self.leave} and random_token_prob={self.random}", "at most 1 in all"
            )


def choose_positions(maskable: np.ndarray, prob: float, rng: np.random.Generator) -> np.ndarray:
    """Positions to predict: a share ``prob`` of the maskable ones, rounded up or down at random, at least one.

    Args:
        maskable: bool of shape (num_tokens,), False at special tokens.
        prob: share, 0 to 1.
        rng: source of randomness.

    Returns:
        Sorted positions, int64 of shape (num_chosen,); empty only when nothing is maskable.

    Source: RoBERTa as in fairseq's MaskTokensDataset (an exact share, not independent coins).
    """
    candidates = np.flatnonzero(maskable)
    if not len(candidates):
        return candidates
    count = min(max(1, int(prob * len(candidates) + rng.random())), len(candidates))
    return np.sort(rng.permutation(candidates)[:count])


def corrupt(tokens: np.ndarray, chosen: np.ndarray, rule: MaskRule, rng: np.random.Generator) -> np.ndarray:
    """A copy of ``tokens`` whose chosen positions are masked, replaced or kept.

    Args:
        tokens: integers of shape (num_tokens,).
        chosen: positions, int64 of shape (num_chosen,).
        rule: shares and ids.
        rng: source of randomness.

    Source: Devlin et al. 2019, section 3.1 (80 / 10 / 10).
    """
    corrupted = tokens.copy()
    fate = rng.random(len(chosen))
    pieces = rng.integers(rule.first_piece, rule.end_piece, len(chosen))
    replaced = (fate >= rule.leave) & (fate < rule.leave + rule.random)
    masked = fate >= rule.leave + rule.random
    corrupted[chosen[masked]] = rule.mask_id
    corrupted[chosen[replaced]] = pieces[replaced]
    return corrupted
