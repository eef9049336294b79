"""How common each word is among the texts that are tagged together, as a feature of a tagger.

A word that opens hundreds of texts of one file is a mark of its source ("REDIRECT", "Photo:", a byline), not the
first word of hundreds of names. A tagger that learned from English rows without such marks cannot know the mark of
another language by its spelling, but its frequency shows it. Only the words of the texts are read, no tags.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from xling.array_types import Float, Float32
from xling.core.sampling import rng

NUM_FREQUENCY_FEATURES = 3
MIN_TEXTS = 50
"""With fewer texts a share says little: all features are zero."""
MIN_SHARE = 0.002
MARKED_SHARE = 0.1
"""Share of the texts that `draw_marks` draws."""
MARK_SHARE_RANGE = 0.02, 0.8
"""Range of the shares that a mark pretends to have; uniform in the logarithm."""


def frequency_features(texts: Sequence[Sequence[str]]) -> list[Float32[Tensor, "words features"]]:
    """Return three features of each word, (num_words, 3) per text.

    These are: 1 if the shares are known; the share of the other texts that contain the word; the share of the other
    texts that open with it, if it opens this one. Shares are on a logarithmic scale from 0 at `MIN_SHARE` to 1. They
    are lower bounds, two standard errors of the count below it: in 100 texts a word that is in two is not common yet.
    """
    if len(texts) < MIN_TEXTS:
        return [torch.zeros(len(words), NUM_FREQUENCY_FEATURES) for words in texts]
    texts_with_word = Counter(word for words in texts for word in set(words))
    texts_opened_by = Counter(words[0] for words in texts if words)
    features = []
    for words in texts:
        shares = np.zeros((len(words), NUM_FREQUENCY_FEATURES), np.float32)
        shares[:, 0] = 1
        shares[:, 1] = [texts_with_word[word] - 1 for word in words]
        shares[:1, 2] = [texts_opened_by[word] - 1 for word in words[:1]]
        lower_bounds = shares[:, 1:] - 2 * np.sqrt(shares[:, 1:])
        shares[:, 1:] = _log_scale(lower_bounds / (len(texts) - 1))
        features.append(torch.from_numpy(shares))
    return features


def draw_marks(
    texts: Sequence[Sequence[str]], seed: int
) -> dict[int, tuple[str, Float32[Tensor, "1 features"]]]:
    """Return for a tenth of the texts, by index, a word to put before it and features as if it were common.

    The word is drawn from the words of all texts, so that only its features tell that it is a mark. Empty with fewer
    than `MIN_TEXTS` texts.
    """
    if len(texts) < MIN_TEXTS:
        return {}
    generator, mark_of_text = rng("static marks", seed), {}
    vocabulary = sorted({word for words in texts for word in words})
    for index in np.flatnonzero(generator.random(len(texts)) < MARKED_SHARE).tolist():
        share = np.exp(generator.uniform(*np.log(MARK_SHARE_RANGE)))
        features = [1.0, *_log_scale(np.array([share, share])).tolist()]
        mark_of_text[index] = vocabulary[generator.integers(len(vocabulary))], torch.tensor([features])
    return mark_of_text


def clear_opening_feature(features: Float32[Tensor, "words features"]) -> Float32[Tensor, "words features"]:
    """Return `frequency_features` of the same words behind another word: none of them opens the text."""
    return features * torch.tensor([1.0, 1.0, 0.0])


def _log_scale(shares: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Return 0 at `MIN_SHARE` or less, 1 at 1, the logarithm between."""
    return 1 - np.log(np.clip(shares, MIN_SHARE, 1)) / np.log(MIN_SHARE)
