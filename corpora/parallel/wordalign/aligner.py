"""Word alignment of a bitext: our own aligner, or similarities of embeddings.

The embedded aligner starts with EM for IBM model 1 (`xling.corpora.parallel.wordalign.model1`), refines by Gibbs
sampling of an HMM with fertilities (`xling.corpora.parallel.wordalign.gibbs`) in both directions.
`xling.corpora.parallel.wordalign.symmetrise` joins them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from xling.array_types import Int, Int32
from xling.core.errors import UserError
from xling.core.settings import values
from xling.core.settings.values import COUNT, POSITIVE, Range, ranged
from xling.corpora.parallel.wordalign import model1, symmetrise
from xling.corpora.parallel.wordalign.gibbs import Sampler
from xling.corpora.parallel.wordalign.symmetrise import Link

Sentences = Sequence[Sequence[str]]


@dataclass(frozen=True)
class AlignerSettings:
    """Settings of the embedded aligner.

    Attributes:
        em_iterations: EM iterations of model 1, which give the sampler its start.
        sweeps: Gibbs sweeps.
        averaged_sweeps: the last sweeps, whose probabilities are averaged.
        lexical_prior: Dirichlet concentration of the translation probabilities.
        null_prior: probability that a target word has no source word.
        chunk_pairs: pairs that are aligned together; chunks are independent, so memory is bounded.
        max_length: a pair with a longer side, in words, is left unaligned.
        symmetrise: ``grow-diag-final-and``, ``intersection`` or ``union``.
        seed: of the sampler.
    """

    em_iterations: int = ranged(4, COUNT)
    sweeps: int = ranged(40, COUNT)
    averaged_sweeps: int = 16
    lexical_prior: float = ranged(1e-3, POSITIVE)
    null_prior: float = ranged(0.2, Range(above=0, below=1, words="a probability above 0, below 1"))
    chunk_pairs: int = ranged(100_000, COUNT)
    max_length: int = ranged(200, COUNT)
    symmetrise: Literal["grow-diag-final-and", "intersection", "union"] = "grow-diag-final-and"
    seed: int = 1

    def __post_init__(self) -> None:
        """Reject values that are out of range or do not fit together (UserError)."""
        values.check(self, "aligner.")
        if not 1 <= self.averaged_sweeps <= self.sweeps:
            raise UserError(
                f"aligner.averaged_sweeps={self.averaged_sweeps}", f"1 to {self.sweeps}, the sweeps"
            )


def align(src: Sentences, tgt: Sentences, settings: AlignerSettings | None = None) -> list[set[Link]]:
    """Align tokenised sentence pairs with the embedded aligner.

    Args:
        src: words of the source sentences.
        tgt: words of the target sentences, as many.
        settings: None takes the defaults.

    Returns:
        For each pair its links (source position, target position) from 0; empty where a side is empty or
        longer than ``max_length``.
    """
    settings = settings or AlignerSettings()
    assert len(src) == len(tgt), f"{len(src)} source and {len(tgt)} target sentences"
    links: list[set[Link]] = []
    for start in range(0, len(src), settings.chunk_pairs):
        src_words, tgt_words = (side[start : start + settings.chunk_pairs] for side in (src, tgt))
        links += symmetrise_links(
            align_direction(src_words, tgt_words, settings, "forward", start),
            align_direction(tgt_words, src_words, settings, "backward", start),
            settings.symmetrise,
        )
    return links


def symmetrise_links(
    forward: Sequence[Int[np.ndarray, " _"]], backward: Sequence[Int[np.ndarray, " _"]], method: str
) -> list[set[Link]]:
    """Return the links of both directions of each pair as one set, by a method of `symmetrise`."""
    join = symmetrise.METHODS[method]
    return [
        join(
            {(i, j) for j, i in enumerate(f.tolist()) if i >= 0},
            {(i, j) for i, j in enumerate(b.tolist()) if j >= 0},
        )
        for f, b in zip(forward, backward, strict=True)
    ]


def align_direction(
    src: Sentences, tgt: Sentences, settings: AlignerSettings, direction: str, start: int = 0
) -> list[Int32[np.ndarray, " _"]]:
    """For each pair int32 (num_target_words,): the source position of every target word, -1 for NULL.

    Args:
        src: words of the sentences that produce.
        tgt: words of the sentences that are produced.
        settings: of the aligner.
        direction: ``forward`` or ``backward``, a part of the random numbers' key.
        start: number of the first pair in the bitext, likewise.
    """
    src_words, tgt_words = model1.encode(src), model1.encode(tgt)
    shortest = np.minimum(src_words.lengths, tgt_words.lengths)
    longest = np.maximum(src_words.lengths, tgt_words.lengths)
    rows = np.flatnonzero((shortest > 0) & (longest <= settings.max_length))
    flat_links = np.full(len(tgt_words.ids), -1, dtype=np.int32)
    if len(rows):
        lexicon = model1.Lexicon(src_words, tgt_words, rows)
        links = model1.train(lexicon, settings.em_iterations, settings.lexical_prior, settings.null_prior)
        sampler = Sampler(
            lexicon,
            links,
            settings.lexical_prior,
            settings.null_prior,
            (settings.seed, "align", direction, start),
        )
        first_averaged = settings.sweeps - settings.averaged_sweeps
        for number in range(settings.sweeps):
            sampler.sweep(number, averaging=number >= first_averaged)
        for batch, best in zip(lexicon.batches, sampler.best(settings.averaged_sweeps), strict=True):
            places = np.arange(len(best))[:, None] + tgt_words.starts[batch.rows][None]
            flat_links[places[batch.is_word]] = best[batch.is_word]
    return np.split(flat_links, tgt_words.starts[1:-1]) if len(tgt) else []
