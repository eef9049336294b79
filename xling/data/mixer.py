"""Order of items from several languages: n^alpha sampling measured in tokens, keyed by (seed, epoch, index)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from xling.core.sampling import alpha_shares, rng

if TYPE_CHECKING:
    from jaxtyping import Int, Integer


@dataclass(frozen=True)
class Draw:
    """The items drawn in one epoch.

    Attributes:
        langs: index of the language of each draw, int16 of shape (num_draws,).
        items: item of that language, int64 of shape (num_draws,).
    """

    langs: Int[np.ndarray, " draws"]
    items: Int[np.ndarray, " draws"]

    def of_items(self, values: Iterable[Integer[np.ndarray, " items"]]) -> Int[np.ndarray, " draws"]:
        """Return a value per draw, int64 (num_draws,), given the values of each language's items."""
        drawn = np.zeros(len(self.items), dtype=np.int64)
        for index, of_lang in enumerate(values):
            where = self.langs == index
            drawn[where] = of_lang[self.items[where]]
        return drawn


def epoch_counts(num_items: Mapping[str, int], num_tokens: Mapping[str, int], alpha: float) -> dict[str, int]:
    """Return how many items of each language an epoch holds; their total equals the number of items in the data.

    Shares are in tokens: a language with short items gets more of them.
    """
    return counts_of(alpha_shares(num_tokens, alpha), num_items, num_tokens)


def counts_of(
    shares: Mapping[str, float], num_items: Mapping[str, int], num_tokens: Mapping[str, int]
) -> dict[str, int]:
    """Return how many items of each kind an epoch holds for given shares in tokens."""
    total = sum(num_tokens.values())
    mean = {lang: num_tokens[lang] / max(num_items[lang], 1) for lang in num_items}
    return {lang: max(1, round(shares[lang] * total / mean[lang])) for lang in num_items if num_items[lang]}


def every_item(num_items: Mapping[str, int]) -> Draw:
    """Draw each item of each language once, in order."""
    langs = np.repeat(np.arange(len(num_items), dtype=np.int16), list(num_items.values()))
    return Draw(langs, np.concatenate([np.arange(n) for n in num_items.values()]))


def draw_epoch(num_items: Mapping[str, int], counts: Mapping[str, int], seed: int, epoch: int) -> Draw:
    """Draw the items of epoch ``epoch`` (from 1); each language continues its own endless permutation.

    A language's pass over its items ends before the next one starts, across epochs too: after k draws each of
    its n items was drawn k // n or k // n + 1 times.
    """
    langs, items = [], []
    for index, (lang, n) in enumerate(num_items.items()):
        if not counts.get(lang):
            continue
        first, count = (epoch - 1) * counts[lang], counts[lang]
        passes = range(first // n, (first + count - 1) // n + 1)
        stream = np.concatenate([rng(seed, "order", lang, number).permutation(n) for number in passes])
        begin = first - passes.start * n
        items.append(stream[begin : begin + count])
        langs.append(np.full(count, index, dtype=np.int16))
    order = rng(seed, "mix", epoch).permutation(sum(map(len, items)))
    return Draw(np.concatenate(langs)[order], np.concatenate(items)[order])
