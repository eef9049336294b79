"""Alternating language modelling (ALM): masked LM on code-switched sentences made from parallel text.

Streams of three kinds are cut into blocks as in masked LM: the switched sentences, and both unchanged sides
of the pair. Their shares of the tokens are 80 / 10 / 10. The pairs of an epoch are sampled by n^alpha.

Source: Yang et al. 2020. Our choice: a token has the language it is written in, not the language of its
sentence.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from xling.array_types import Int, Integer
from xling.core.languages import split_pair
from xling.core.sampling import alpha_shares
from xling.data import mixer
from xling.objectives.base import objective
from xling.objectives.mmlm import BlockDataset, Mmlm
from xling.text.files import shards


class SwitchedDataset(BlockDataset):
    """Blocks of switched and plain sentences of language pairs."""

    def open_streams(self, data: Path) -> dict[str, Integer[np.ndarray, " _"]]:
        """Open three streams of each pair, in the order switched, first side, second side."""
        streams = {}
        self._sides: list[np.ndarray | None] = []
        self._pair_langs: list[tuple[int, int]] = []
        for pair in shards.select_switched_pairs(self._cfg.pairs, data, self._langs):
            prefix = data / pair / f"{self._split}.{pair}.switched"
            first, second = split_pair(pair)
            streams[f"{pair}.switched"] = shards.open_shard(prefix).tokens
            self._sides += [shards.open_shard(prefix.with_name(f"{prefix.name}-sides")).tokens, None, None]
            for lang in (first, second):
                streams[f"{pair}.{lang}"] = shards.open_shard(
                    data / pair / f"{self._split}.{pair}.{lang}"
                ).tokens
            self._pair_langs.append((self._langs.index(first), self._langs.index(second)))
        return streams

    def epoch_counts(self) -> dict[str, int]:
        """Return how many blocks an epoch takes from each stream.

        Each pair has its share by alpha, divided 80 / 10 / 10 among its streams.
        """
        names, switched = list(self._streams), self._cfg.switched
        triples = [names[i : i + 3] for i in range(0, len(names), 3)]
        of_pairs = {triple[0]: sum(self.num_tokens_of[name] for name in triple) for triple in triples}
        plain = (1 - switched) / 2
        shares = {
            name: share * part
            for (_, share), triple in zip(
                alpha_shares(of_pairs, self._cfg.alpha).items(), triples, strict=True
            )
            for name, part in zip(triple, (switched, plain, plain), strict=True)
        }
        counts = mixer.counts_of(shares, self.num_items_of, self.num_tokens_of)
        return {name: num for name, num in counts.items() if shares[name]}

    def langs_of(self, stream: int, start: int, num: int) -> Int[np.ndarray, " {num}"]:
        """Return the language of each token."""
        langs = np.array(self._pair_langs[stream // 3])
        sides = self._sides[stream]
        if sides is None:
            return np.full(num, langs[stream % 3 - 1])
        return langs[sides[start : start + num].astype(np.int64)]


@objective("alm")
class Alm(Mmlm):
    """The ALM objective: masked LM on code-switched text."""

    blocks = SwitchedDataset
    key = "alm"
