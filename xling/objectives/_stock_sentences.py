"""The data set of `fairseq-generate` and `fairseq-interactive`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from fairseq.data import LanguagePairDataset

from xling.objectives.dataset import NO_LIMIT, batches_of

if TYPE_CHECKING:
    from jaxtyping import Int


class Sentences(LanguagePairDataset):  # type: ignore[misc]
    """Sentences to translate, right-padded, in batches that hold all of them.

    Cause: fairseq's own batches leave out the last sentences where they are no multiple of 8.
    """

    def __init__(self, *sides: Any) -> None:
        super().__init__(*sides, left_pad_source=False, left_pad_target=False, shuffle=False)

    def batch_by_size(
        self,
        indices: Int[np.ndarray, " examples"],
        max_tokens: int | None = None,
        max_sentences: int | None = None,
        required_batch_size_multiple: int = 1,
    ) -> list[Int[np.ndarray, " _"]]:
        """Return batches of at most ``max_tokens`` real tokens and ``max_sentences``, in the given order."""
        sizes = np.array([self.num_tokens(int(index)) for index in indices], dtype=np.int64)
        return batches_of(sizes, np.asarray(indices), max_tokens or NO_LIMIT, max_sentences or NO_LIMIT)
