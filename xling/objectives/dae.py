"""Denoising auto-encoding (Lample et al., XNLG): reconstruct a sentence after words were moved, dropped and masked.

Two styles: ``xling`` treats whole words, as UnsupervisedMT's code does; ``xlm`` treats every piece
separately, as the code of XLM, MASS and XNLG does.

Source: Lample et al. 2018, section 2.3; Chi et al. 2020 (XNLG), section 3.2.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from xling.array_types import Bool, Int
from xling.data import noise
from xling.data.packing import Example
from xling.objectives.base import ObjectiveDataset, objective
from xling.objectives.contract_facts import Trial
from xling.objectives.mmlm import word_starts_of
from xling.objectives.seq2seq import Seq2SeqObjective, Text, TextDataset, example
from xling.objectives.settings import DaeConfig


def noisy(
    tokens: Int[np.ndarray, " tokens"],
    word_starts: Bool[np.ndarray, " vocab"],
    cfg: DaeConfig,
    mask_id: int,
    rng: np.random.Generator,
) -> Int[np.ndarray, " noisy"]:
    """Shuffle the sentence, then drop words, then mask words, in the order of XLM's code."""
    if cfg.style == "xlm":
        word_starts = np.ones_like(word_starts)
    tokens = noise.shuffle_words(tokens, noise.words_of(tokens, word_starts), cfg.shuffle, rng)
    tokens = noise.drop_words(tokens, noise.words_of(tokens, word_starts), cfg.drop, rng)
    return noise.blank_words(tokens, noise.words_of(tokens, word_starts), cfg.blank, mask_id, rng)


def max_tokens_of(lengths: Int[np.ndarray, " texts"]) -> Int[np.ndarray, " texts"]:
    """Count the tokens of an example: the sentence with its language token, and the sentence again."""
    return 2 * lengths + 1


@objective("dae")
class Dae(Seq2SeqObjective):
    """The DAE objective: reconstruct a sentence from a noisy copy, which ``add_noise`` makes."""

    trial = Trial(shrinks=True, changes=("context",))
    add_noise: Callable[..., Int[np.ndarray, " noisy"]] = staticmethod(noisy)

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Return the dataset of sentences of a split."""
        cfg, symbols, word_starts = self.cfg, self.symbols, word_starts_of(self.dictionary)

        def build(text: Text) -> Example:
            source = self.add_noise(text.tokens, word_starts, cfg, symbols.mask, text.generator)
            return example(source, text.tokens, text.lang, text.lang, symbols)

        return TextDataset(cfg, data, split, self.langs, self.name, build, max_tokens_of)
