"""py3langid's identifier, which walks its automaton over all bytes of a text at once.

The automaton of Aho and Corasick (1975) is in the state of the longest n-gram, or beginning of one, that ends at a
byte. So its state depends on no more bytes than the longest n-gram has. Every byte can be the end of a walk of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from py3langid.langid import MODEL_FILE, LanguageIdentifier

_NUM_BYTES = 256


class ArrayIdentifier(LanguageIdentifier):
    """An identifier of py3langid whose walk is computed in arrays."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._table = self.nb_ptc.astype(np.float32)  # else each answer converts the rows that it needs
        self._next_states = np.frombuffer(self.tk_nextmove, dtype=np.uint32)
        rows = np.array(self.tk_row, dtype=np.int32) * _NUM_BYTES
        self._next_row = rows[self._next_states]
        self._outputs = np.array(self.tk_output, dtype=np.int32)
        self._depth = self._longest_path()

    def _longest_path(self) -> int:
        """Return the most bytes that a state depends on: those to the last row that is reached, and one more."""
        next_rows, depth = self._next_row.reshape(-1, _NUM_BYTES), 0
        is_known, reached = np.zeros(len(next_rows), dtype=bool), np.array([self.tk_row[0]])
        while len(reached):
            is_known[reached] = True
            is_next = np.zeros(len(next_rows), dtype=bool)
            is_next[next_rows[reached] // _NUM_BYTES] = True
            reached = np.flatnonzero(is_next & ~is_known)
            depth += 1
        return depth

    def _raw_score(self, text: bytes) -> Any:
        """Return the scores of the classes, as py3langid's loop over bytes does, to the last bit."""
        codes = np.frombuffer(text, dtype=np.uint8)
        rows: NDArray[np.int32] = np.full(len(codes), self.tk_row[0] * _NUM_BYTES, dtype=np.int32)
        for back in range(min(self._depth, len(codes)) - 1, 0, -1):
            rows[back:] = self._next_row[rows[back:] + codes[: len(codes) - back]]
        outputs = self._outputs[self._next_states[rows + codes]]
        values, first, counts = np.unique(outputs[outputs >= 0], return_index=True, return_counts=True)
        if not len(values):
            return super()._raw_score(text)
        order = np.argsort(first)  # of the first occurrence: sums depend on it
        return self._sparse_score(
            dict(zip(values[order].tolist(), counts[order].tolist(), strict=True)), self._table
        )

    def best(self, text: str, max_langs: int) -> list[tuple[str, float]]:
        """Return the first ``max_langs`` labels of `rank` with their scores."""
        scores = self._decide(text)
        ranked = dict[str, float]()
        for place in np.argsort(-scores, kind="stable").tolist():
            ranked.setdefault(self.nb_classes[place], float(scores[place]))
            if len(ranked) == max_langs:
                break
        return list(ranked.items())


def load() -> ArrayIdentifier:
    """Return the model that py3langid ships with, which answers with probabilities."""
    return ArrayIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
