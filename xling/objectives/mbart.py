"""Multilingual denoising (mBART).

Reconstruct several sentences of a document with masked spans and permuted sentences.

Spans of Poisson(3.5) words, 35 % of all words, are each replaced by one ``<mask>``; the sentences are
permuted. The other kinds of BART's noise are available with a default share of 0.

Two styles:

- ``xling``: spans never touch, so that 35 % of the words are removed, and no ``</s>`` is masked.
- ``fairseq``, the noise and the sequences of the code that trained mBART: spans may overlap and treat
  ``</s>`` as a word, the source is ``<s> x </s> [lang]``, the decoder reads ``[lang] <s> x </s>`` and
  predicts ``<s> x </s> [lang]``.

Source: Liu et al. 2020, section 2.2; Lewis et al. 2020, section 2.2; ``DenoisingDataset`` of fairseq.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from xling.array_types import Bool, Int
from xling.data import noise
from xling.data.packing import Example
from xling.objectives.base import BOS, EOS, ObjectiveDataset, objective
from xling.objectives.dae import Dae, max_tokens_of
from xling.objectives.mmlm import word_starts_of
from xling.objectives.seq2seq import Text, TextDataset, example
from xling.objectives.settings import MbartConfig


def noisy(
    tokens: Int[np.ndarray, " tokens"],
    word_starts: Bool[np.ndarray, " vocab"],
    cfg: MbartConfig,
    mask_id: int,
    rng: np.random.Generator,
) -> Int[np.ndarray, " noisy"]:
    """Permute the sentences of a text, infill spans, then apply the other noise that is set."""
    if cfg.permute_sentences:
        tokens = noise.permute_sentences(tokens, cfg.permute_sentences, rng)
    if cfg.infill:
        words = noise.words_of(tokens, word_starts)
        tokens = noise.infill(tokens, words, cfg.infill, cfg.span_mean, mask_id, rng)
    if cfg.mask:
        tokens = noise.mask_tokens(tokens, cfg.mask, mask_id, rng)
    if cfg.delete:
        tokens = noise.delete_tokens(tokens, cfg.delete, rng)
    if cfg.rotate:
        tokens = noise.rotate(tokens, cfg.rotate, rng)
    return tokens


def fairseq_noisy(
    tokens: Int[np.ndarray, " tokens"],
    word_starts: Bool[np.ndarray, " vocab"],
    cfg: MbartConfig,
    mask_id: int,
    rng: np.random.Generator,
) -> Int[np.ndarray, " noisy"]:
    """Apply fairseq's noise to a text with ``<s>`` in front and without its final language token."""
    moved = noise.permute_sentences(tokens, cfg.permute_sentences, rng)
    whole = np.concatenate([[BOS], moved, [EOS]])
    begins = noise.fairseq_word_begins(whole, word_starts)
    return noise.infill_overlapping(whole, begins, cfg.infill, cfg.span_mean, mask_id, rng)[:-1]


@objective("mbart")
class Mbart(Dae):
    """The mBART objective: reconstruct a text from a noisy copy."""

    add_noise = staticmethod(noisy)

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Return the dataset of joined sentences of a split."""
        if self.cfg.style != "fairseq":
            return super().dataset(data, split)
        cfg, symbols, word_starts = self.cfg, self.symbols, word_starts_of(self.dictionary)

        def as_fairseq(text: Text) -> Example:
            source = fairseq_noisy(text.tokens, word_starts, cfg, symbols.mask, text.generator)
            target = np.concatenate([[BOS], text.tokens, [symbols.lang(text.lang)]])
            return example(source, target, text.lang, text.lang, symbols)

        def tokens_of(lengths: Int[np.ndarray, " texts"]) -> Int[np.ndarray, " texts"]:
            return max_tokens_of(lengths) + 3

        room = cfg.tokens_per_sample - 2
        return TextDataset(cfg, data, split, self.langs, self.name, as_fairseq, tokens_of, room)
