"""Cross-lingual masked LM (Unicoder): masked LM over documents whose sentences alternate between two languages.

A document is a run of neighbouring pairs of the parallel text. One side is taken of the first pair, the
other side of the second, and so on. The side that comes first is drawn again every epoch.

Source: Huang et al. 2019, section 3.2.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from xling.array_types import Int, Integer
from xling.core.languages import split_pair
from xling.core.sampling import rng
from xling.data import mixer
from xling.data.masking import MaskRule
from xling.data.packing import Example
from xling.objectives.base import BOS, ObjectiveDataset, objective
from xling.objectives.contract_facts import Trial
from xling.objectives.dataset import DrawnDataset
from xling.objectives.mmlm import MaskedObjective, example, rule_of
from xling.text.files import shards


def alternate(
    sides: list[list[Int[np.ndarray, " _"]]], langs: tuple[int, int], first: int
) -> tuple[Int[np.ndarray, " length"], Int[np.ndarray, " length"]]:
    """Return tokens and languages of sentences taken from the two sides in turn, with ``<s>`` in front.

    Args:
        sides: the sentences of each of the two sides, in order.
        langs: language of each side.
        first: side of the first sentence.
    """
    taken = [sides[(first + i) % 2][i] for i in range(len(sides[0]))]
    spread = [np.full(len(tokens), langs[(first + i) % 2]) for i, tokens in enumerate(taken)]
    return np.concatenate([[BOS], *taken]), np.concatenate([spread[0][:1], *spread])


def document_starts(sizes: Integer[np.ndarray, "pairs 2"], room: int) -> Int[np.ndarray, " borders"]:
    """Return the first pair of each document and, last, the number of pairs.

    Args:
        sizes: tokens of each pair on either side, (num_pairs, 2).
        room: maximum tokens of a document, counting the longer side of each pair.
    """
    longest = np.minimum(sizes.max(1), room)
    starts, used = [0], 0
    for index, size in enumerate(longest.tolist()):
        if used + size > room:
            starts.append(index)
            used = 0
        used += size
    return np.array([*starts, len(sizes)])


def alternating_lengths(
    sizes: Integer[np.ndarray, "2 pairs"], starts: Int[np.ndarray, " borders"]
) -> Int[np.ndarray, "2 borders-1"]:
    """Return the tokens of each document when side 0 begins it and when side 1 does, (2, num_documents).

    Args:
        sizes: tokens of each pair's sides, (2, num_pairs).
        starts: first pair of each document and the number of pairs, as `document_starts` gives them.
    """
    numbers = np.arange(sizes.shape[1])
    sums = np.zeros((2, len(numbers) + 1), dtype=np.int64)
    for parity in range(2):
        np.cumsum(sizes[(numbers + parity) % 2, numbers], out=sums[parity, 1:])
    whole = sums[:, starts[1:]] - sums[:, starts[:-1]]
    # Side 0 comes first in a document whose pair number is even under parity 0, odd under parity 1.
    flip = starts[:-1] % 2
    return np.stack([np.where(flip == 0, whole[0], whole[1]), np.where(flip == 0, whole[1], whole[0])])


class AlternatingDataset(DrawnDataset):
    """Dataset of documents of alternating sentences from every pair, mixed by alpha."""

    def __init__(self, cfg: Any, data: Path, split: str, langs: list[str], rule: MaskRule) -> None:
        self._rule, self._room = rule, cfg.tokens_per_sample - 1
        self._drawn_sides: tuple[tuple[int | str, ...], np.ndarray] = ((), np.zeros(0))
        self._pairs: dict[str, tuple[list[shards.Shard], list[np.ndarray], np.ndarray, tuple[int, int]]] = {}
        for pair in shards.select_pairs(cfg.pairs, data, langs):
            names = split_pair(pair)
            two = [shards.open_shard(data / pair / f"{split}.{pair}.{lang}") for lang in names]
            starts = document_starts(np.stack([shard.sizes for shard in two], 1), self._room)
            self._pairs[pair] = (
                two,
                [shard.starts() for shard in two],
                starts,
                (langs.index(names[0]), langs.index(names[1])),
            )
        num_items = {pair: len(starts) - 1 for pair, (_, _, starts, _) in self._pairs.items()}
        self._by_side = [
            alternating_lengths(
                np.stack([np.minimum(shard.sizes, self._room) for shard in two]).astype(np.int64), starts
            )
            for two, _, starts, _ in self._pairs.values()
        ]
        num_tokens = {pair: int(two[0].sizes.sum()) for pair, (two, _, _, _) in self._pairs.items()}
        super().__init__(cfg, split, "xmlm", num_items, num_tokens)

    def tokens_of(self, draw: mixer.Draw) -> Integer[np.ndarray, " draws"]:
        """Return the tokens of each document by the side that begins it, which is drawn here."""
        by_side = [draw.of_items(lengths[side] for lengths in self._by_side) for side in (0, 1)]
        return np.where(self._first_sides(draw) == 0, *by_side)

    def _first_sides(self, draw: mixer.Draw) -> Int[np.ndarray, " draws"]:
        key: tuple[int | str, ...] = (
            self.seed,
            "first side",
            self.epoch,
            *([draw.number] if draw.number else []),
        )
        if self._drawn_sides[0] != key:
            self._drawn_sides = (key, rng(*key).integers(0, 2, len(draw.items)))
        return self._drawn_sides[1]

    def example_tokens(self, num: Integer[np.ndarray, " draws"]) -> Integer[np.ndarray, " draws"]:
        """Count the tokens including ``<s>``."""
        return num + 1

    def mixture(self) -> dict[str, tuple[int, int]]:
        """Return the mixture by pair.

        The tokens available are those of both sides, of which an epoch uses one per pair.
        """
        there = [sum(shard.tokens.size for shard in two) for two, _, _, _ in self._pairs.values()]
        drawn = super().mixture().values()
        return {pair: (n, taken) for pair, n, (_, taken) in zip(self._pairs, there, drawn, strict=True)}

    def _document(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        number, at = self.locate(index)
        draw = self.window(number).draw
        two, offsets, starts, langs = list(self._pairs.values())[int(draw.langs[at])]
        item = int(draw.items[at])
        numbers = range(int(starts[item]), int(starts[item + 1]))
        sides = [
            [
                shard.tokens[begin[n] : begin[n] + min(shard.sizes[n], self._room)].astype(np.int64)
                for n in numbers
            ]
            for shard, begin in zip(two, offsets, strict=True)
        ]
        return alternate(sides, langs, int(self._first_sides(draw)[at]))

    def __getitem__(self, index: int) -> Example:
        tokens, langs = self._document(index)
        built = example(tokens, self._rule, self.generator(index))
        return built | {"id": np.array([index]), "langs": langs, "target_langs": langs[built["chosen"]]}


@objective("xmlm")
class Xmlm(MaskedObjective):
    """The XMLM objective: masked LM on documents that change language at every sentence."""

    trial = Trial(changes=("context",), ignores=("own token",))

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Return the dataset of documents of a split."""
        return AlternatingDataset(self.cfg, data, split, self.langs, rule_of(self.cfg, self.dictionary))
