"""Datasets of aligned sentences, shared by all objectives on parallel text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from xling.array_types import Int, Integer
from xling.core.languages import split_pair
from xling.data import mixer
from xling.data.packing import Example
from xling.objectives.base_settings import PairConfig as PairConfig
from xling.objectives.dataset import DrawnDataset
from xling.text.files import shards


@dataclass(frozen=True)
class Pair:
    """Two aligned sentences, each ending in ``</s>``.

    Attributes:
        src: int64 (src_length,).
        tgt: int64 (tgt_length,).
        src_lang: index into the task's languages.
        tgt_lang: likewise.
    """

    src: Int[np.ndarray, " src_length"]
    tgt: Int[np.ndarray, " tgt_length"]
    src_lang: int
    tgt_lang: int


Side = tuple[int, shards.Shard]
READ_AT_ONCE = 1 << 22  # lengths that are added up at a time
BuildExample = Callable[[Pair, np.random.Generator], Example]


class PairDataset(DrawnDataset):
    """Dataset of sentence pairs of many language pairs mixed by alpha; the sides are swapped at random.

    Args:
        name: name of the objective, part of its random key.
        build: makes the example of one pair.
        overhead: tokens that ``build`` adds to the two sentences.
    """

    def __init__(
        self,
        cfg: Any,
        data: Path,
        split: str,
        langs: list[str],
        name: str,
        build: BuildExample,
        overhead: int,
    ) -> None:
        self._cfg, self._split = cfg, split
        self._build, self._overhead = build, overhead
        self._sides = self.open_pairs(data, langs)
        self._numbered = list(self._sides.items())
        self._room = self.room(cfg.tokens_per_sample)
        num_items = {pair: len(sides[0][1].sizes) for pair, sides in self._sides.items()}
        num_tokens = {
            pair: sum(
                int(self.lengths(pair, slice(first, first + READ_AT_ONCE)).sum())
                for first in range(0, num, READ_AT_ONCE)
            )
            for pair, num in num_items.items()
        }
        super().__init__(cfg, split, name, num_items, num_tokens)

    def open_pairs(self, data: Path, langs: list[str]) -> dict[str, list[Side]]:
        """Open the two sides of each pair."""
        return {
            pair: [self.side(data, pair, lang, langs) for lang in split_pair(pair)]
            for pair in shards.select_pairs(self._cfg.pairs, data, langs)
        }

    def room(self, tokens_per_sample: int) -> int:
        """Return the longest side, in tokens."""
        return (tokens_per_sample - self._overhead) // 2

    def num_added_tokens(self, pair: str) -> int:
        """Return the tokens that the objective adds to those of both sides."""
        return self._overhead

    def is_swapped(self, pair: str, generator: np.random.Generator) -> bool:
        """Decide whether the sides of an example are swapped."""
        return bool(generator.random() < 0.5)

    def lengths(self, pair: str, items: slice | Int[np.ndarray, " items"]) -> Integer[np.ndarray, " items"]:
        """Return the tokens of some items of a pair with what the objective adds, int64 (num_items,)."""
        sides = [
            np.minimum(shard.sizes[items], self._room).astype(np.int64) for _, shard in self._sides[pair]
        ]
        lengths: np.ndarray = sides[0] + sides[1] + self.num_added_tokens(pair)
        return lengths

    def side(self, data: Path, pair: str, lang: str, langs: list[str]) -> Side:
        """Return the language index and the sentences."""
        return langs.index(lang), shards.open_shard(data / pair / f"{self._split}.{pair}.{lang}")

    def tokens_of(self, draw: mixer.Draw) -> Integer[np.ndarray, " draws"]:
        """Count the tokens of both sides and those that the objective adds."""
        return draw.by_item(partial(self.lengths, pair) for pair in self._sides)

    def pair(self, index: int, generator: np.random.Generator) -> Pair:
        """Return the two sentences at ``index``, in random order, each cut to half the room with ``</s>`` kept."""
        which, item = self.drawn(index)
        name, sides = self._numbered[which]
        if self.is_swapped(name, generator):
            sides = sides[::-1]
        cut = []
        for _, shard in sides:
            start = shard.start(item)
            tokens = shard.tokens[start : start + int(shard.sizes[item])].astype(np.int64)
            if len(tokens) > self._room:
                tokens = np.concatenate([tokens[: self._room - 1], tokens[-1:]])
            cut.append(tokens)
        return Pair(cut[0], cut[1], sides[0][0], sides[1][0])

    def __getitem__(self, index: int) -> Example:
        generator = self.generator(index)
        built = self._build(self.pair(index, generator), generator)
        return built | {"id": np.array([index])}
