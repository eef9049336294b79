"""Language sampling with shares proportional to n^alpha, and counter-based random generators."""

import hashlib
import operator
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence


def alpha_shares(sizes: Mapping[str, int], alpha: float) -> dict[str, float]:
    """Compute the sampling shares ``n_l ** alpha / sum``, which sum to 1.

    Args:
        sizes: amount of text per language, in tokens (XLM-R) or sentences (XLM).
        alpha: 1 keeps the natural shares, 0 makes them equal; XLM-R used .3, mBERT .7.

    Source: Conneau & Lample 2019, section 3.1; Conneau et al. 2020, section 3.
    """
    weights = {lang: float(n) ** alpha if n > 0 else 0.0 for lang, n in sizes.items()}
    total = sum(weights.values())
    assert total > 0, "no language has any text"
    return {lang: weight / total for lang, weight in weights.items()}


def realised_alpha(sizes: Mapping[str, int], drawn: Mapping[str, int]) -> float:
    """Estimate alpha by least squares of log(drawn) over log(size); nan with fewer than two sizes."""
    langs = [lang for lang in sizes if sizes[lang] > 0 and drawn.get(lang, 0) > 0]
    log_sizes = np.log([sizes[lang] for lang in langs])
    log_drawn = np.log([drawn[lang] for lang in langs])
    if len(langs) < 2 or np.ptp(log_sizes) == 0:
        return float("nan")
    return float(np.polyfit(log_sizes, log_drawn, 1)[0])


class _PhiloxKey(ISeedSequence):
    """A fixed Philox key. ``Philox(key=...)`` gives the same state, but first gathers entropy and discards it."""

    def __init__(self, digest: bytes) -> None:
        self._state_words = np.frombuffer(digest, dtype=np.uint64)

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
        """Return the two words that Philox asks for."""
        assert (n_words, dtype) == (2, np.uint64), f"Philox asks for {n_words} words of {dtype}"
        return self._state_words


def rng(*key: int | str) -> np.random.Generator:
    """Return a generator that depends only on ``key``, not on order, workers or restarts.

    Example:
        >>> int(rng(1, "mask", 7).integers(100)) == int(rng(1, "mask", 7).integers(100))
        True
    """
    # The text form of numpy scalars differs from Python's and between numpy releases.
    key_parts = tuple([str(part) if isinstance(part, str) else operator.index(part) for part in key])
    digest = hashlib.blake2b(repr(key_parts).encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(_PhiloxKey(digest)))  # type: ignore[arg-type] # numpy's stub is narrower
