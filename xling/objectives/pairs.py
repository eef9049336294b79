"""Aligned sentences as a dataset: the part that every objective on parallel text shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from corpora.binarize import split_pair
from xling.core.errors import UserError, unknown
from xling.core.sampling import rng
from xling.data import mixer, shards
from xling.data.packing import Example
from xling.objectives.base import ObjectiveDataset, TaskConfig


@dataclass
class PairConfig(TaskConfig):
    """Settings of objectives on parallel text; ``pairs`` is comma-separated (empty: all that are there)."""

    pairs: str = ""


@dataclass(frozen=True)
class Pair:
    """Two aligned sentences, each ending in ``</s>``.

    Attributes:
        src: int64 (src_length,).
        tgt: int64 (tgt_length,).
        src_lang: index into the task's languages.
        tgt_lang: likewise.
    """

    src: np.ndarray
    tgt: np.ndarray
    src_lang: int
    tgt_lang: int


Side = tuple[int, shards.Shard, np.ndarray]
BuildExample = Callable[[Pair, np.random.Generator], Example]


class PairDataset(ObjectiveDataset):
    """Pairs of many language pairs mixed by alpha; the sides change places at random.

    Args:
        cfg: settings.
        data: binarised directory.
        split: ``train`` or ``valid``.
        langs: languages of the task.
        name: of the objective, part of the key of its randomness.
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
        self._cfg, self._split, self._name = cfg, split, name
        self._build, self._overhead = build, overhead
        self._sides = self.open_pairs(data, langs)
        self._room = self.room(cfg.tokens_per_sample)
        self._lengths = {
            pair: sum(np.minimum(shard.sizes, self._room).astype(np.int64) for _, shard, _ in sides)
            + self.added(pair)
            for pair, sides in self._sides.items()
        }
        super().__init__(cfg.seed)

    def open_pairs(self, data: Path, langs: list[str]) -> dict[str, list[Side]]:
        """The two sides of each pair."""
        return {
            pair: [self.side(data, pair, lang, langs) for lang in split_pair(pair)]
            for pair in pairs_of(self._cfg, data, langs)
        }

    def epoch_counts(self, items: dict[str, int], tokens: dict[str, int]) -> dict[str, int]:
        """Pairs of each kind in an epoch."""
        return mixer.epoch_counts(items, tokens, self._cfg.alpha)

    def room(self, tokens_per_sample: int) -> int:
        """Longest side, in tokens."""
        return (tokens_per_sample - self._overhead) // 2

    def added(self, pair: str) -> int:
        """Tokens that the objective adds to those of both sides."""
        return self._overhead

    def turned(self, pair: str, generator: np.random.Generator) -> bool:
        """Whether the sides of an example change places."""
        return bool(generator.random() < 0.5)

    def side(self, data: Path, pair: str, lang: str, langs: list[str]) -> Side:
        """Index of the language, sentences, and where each begins."""
        shard = shards.open_shard(data / pair / f"{self._split}.{pair}.{lang}")
        return langs.index(lang), shard, shard.starts()

    def set_epoch(self, epoch: int) -> None:
        """Draw the pairs of an epoch."""
        self.epoch = epoch if self._split == "train" else 0
        items = {pair: len(lengths) for pair, lengths in self._lengths.items()}
        if self._split == "train":
            tokens = {pair: int(lengths.sum()) for pair, lengths in self._lengths.items()}
            counts = self.epoch_counts(items, tokens)
            self._draw = mixer.draw_epoch(items, counts, self._cfg.seed, epoch)
        else:
            langs = np.repeat(np.arange(len(items)), list(items.values())).astype(np.int16)
            self._draw = mixer.Draw(langs, np.concatenate([np.arange(n) for n in items.values()]))
        self._sizes = np.zeros(len(self._draw.items), dtype=np.int64)
        for index, lengths in enumerate(self._lengths.values()):
            where = self._draw.langs == index
            self._sizes[where] = lengths[self._draw.items[where]]

    @property
    def sizes(self) -> np.ndarray:
        """Tokens of both sides and what the objective adds."""
        return self._sizes

    def mixture(self) -> dict[str, tuple[int, int]]:
        """By pair, both sides together, with what the objective adds."""
        drawn = np.bincount(self._draw.langs, self._sizes, len(self._lengths))
        return {
            pair: (int(lengths.sum()), int(n))
            for (pair, lengths), n in zip(self._lengths.items(), drawn, strict=True)
        }

    def pair(self, index: int, generator: np.random.Generator) -> Pair:
        """The two sentences at ``index``, in random order, each cut to half the room with ``</s>`` kept."""
        name, sides = list(self._sides.items())[int(self._draw.langs[index])]
        if self.turned(name, generator):
            sides = sides[::-1]
        cut = []
        for _, shard, starts in sides:
            item = int(self._draw.items[index])
            tokens = shard.tokens[starts[item] : starts[item] + shard.sizes[item]].astype(np.int64)
            if len(tokens) > self._room:
                tokens = np.concatenate([tokens[: self._room - 1], tokens[-1:]])
            cut.append(tokens)
        return Pair(cut[0], cut[1], sides[0][0], sides[1][0])

    def __getitem__(self, index: int) -> Example:
        generator = rng(self._cfg.seed, self.epoch, index, self._name, self._split)
        made = self._build(self.pair(index, generator), generator)
        return made | {"id": np.array([index])}


def pairs_of(cfg: Any, data: Path, langs: list[str]) -> list[str]:
    """The pairs an objective uses: those named, or all of the task's languages.

    Raises:
        UserError: no parallel shards, a pair that is not there, or there only the other way round.
    """
    there = shards.pairs_in(data)
    if not there:
        raise UserError(
            f"no parallel shards in {data}", "SRC-TGT/train.SRC-TGT.{SRC,TGT}.bin", "binarize with pairs."
        )
    named = [pair for pair in cfg.pairs.split(",") if pair]
    for pair in named:
        if pair not in there:
            swapped = "-".join(reversed(split_pair(pair)))
            error = unknown(f"pair in {data}:", pair, there)
            raise UserError(error.given, error.valid, f"use {swapped}") if swapped in there else error
    chosen = [pair for pair in named or there if set(split_pair(pair)) <= set(langs)]
    if not chosen:
        raise UserError(
            f"no pair in {data} of the languages {', '.join(langs)}", ", ".join(there), "set langs="
        )
    return chosen
