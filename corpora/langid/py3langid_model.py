"""py3langid's identifier, which walks its automaton over all bytes of some texts at once.

The automaton of Aho and Corasick (1975) is in the state of the longest n-gram, or beginning of one, that ends at a
byte. So its state depends on no more bytes than the longest n-gram has. Every byte can be the end of a walk of its own.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from xling.corpora.langid.ngrams import largest

_NUM_BYTES = 256


class ArrayIdentifier(LanguageIdentifier):
    """An identifier of py3langid whose walk is computed in arrays."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._table = self.nb_ptc.astype(np.float32)  # else each answer converts the rows that it needs
        self._next_states = np.frombuffer(self.tk_nextmove, dtype=np.uint32)
        rows = np.array(self.tk_row, dtype=np.int32)
        self._next_row = (rows * _NUM_BYTES)[self._next_states]
        self._outputs = np.array(self.tk_output, dtype=np.int32)
        # A state depends on so many bytes: those to the last row that is reached, and one more.
        next_states, self._depth = self._next_states.reshape(-1, _NUM_BYTES), 0
        is_known, reached = np.zeros(len(next_states), dtype=bool), rows[:1]
        while len(reached):
            is_known[reached] = True
            is_next = np.zeros(len(rows), dtype=bool)
            is_next[next_states[reached]] = True
            reached = np.unique(rows[is_next])
            reached = reached[~is_known[reached]]
            self._depth += 1

    def _raw_scores(self, texts: Sequence[bytes]) -> NDArray[np.float32]:
        """Return the scores of the classes for each text, as py3langid's loop over bytes does, to the last bit."""
        # The output of the state behind each byte of the texts, one after the other; -1 for none.
        codes = np.frombuffer(b"".join(texts), dtype=np.uint8)
        lengths = np.array([len(text) for text in texts], dtype=np.int64)
        places = np.arange(len(codes)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        root = np.int32(self.tk_row[0] * _NUM_BYTES)
        rows: NDArray[np.int32] = np.full(len(codes), root, dtype=np.int32)
        for back in range(min(self._depth, int(lengths.max())) - 1, 0, -1):
            following = self._next_row[rows[back:] + codes[: len(codes) - back]]
            rows[back:] = np.where(places[back:] >= back, following, root)
        outputs = self._outputs[self._next_states[rows + codes]]
        owners = np.repeat(np.arange(len(texts)), [len(text) for text in texts])[outputs >= 0]
        keys = owners * len(self._table) + outputs[outputs >= 0]
        unique_keys, first, counts = np.unique(keys, return_index=True, return_counts=True)
        order = np.argsort(first)  # of the first occurrence: sums depend on it
        features = unique_keys[order] % len(self._table)
        weights = np.log1p(counts[order].astype(np.float32))
        ends = np.searchsorted(owners[first[order]], np.arange(len(texts) + 1))
        scores = np.zeros((len(texts), len(self.nb_classes)), dtype=np.float32)
        for i, (start, end) in enumerate(itertools.pairwise(ends.tolist())):
            if start < end:
                scores[i] = weights[start:end] @ self._table[features[start:end]] + self.nb_pc
        return scores

    def best(self, texts: Sequence[str], max_langs: int) -> list[list[tuple[str, float]]]:
        """Return the first ``max_langs`` labels of `rank` with their scores, of each text."""
        encoded = [self._encode(text) for text in texts]
        scores = self._raw_scores(encoded)
        scores *= np.array([1.0 / math.sqrt(len(text) or 1) for text in encoded], dtype=np.float32)[:, None]
        np.exp(scores - scores.max(axis=1, keepdims=True), out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        for first, again in self._alias_pairs:
            scores[:, first] += scores[:, again]
            scores[:, again] = 0.0
        # A label that stands there again is taken once.
        num = max_langs + len(self._alias_pairs)
        places = largest(scores, min(num, len(self.nb_classes)))
        answers = []
        for row, values in zip(
            places.tolist(), np.take_along_axis(scores, places, axis=1).tolist(), strict=True
        ):
            ranked = dict[str, float]()
            for place, value in zip(row, values, strict=True):
                ranked.setdefault(self.nb_classes[place], value)
            answers.append(list(ranked.items())[:max_langs])
        return answers


def load() -> ArrayIdentifier:
    """Return the model that py3langid ships with, which answers with probabilities."""
    return ArrayIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
