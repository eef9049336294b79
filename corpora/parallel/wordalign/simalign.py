"""Word alignment from a similarity matrix of embeddings: SimAlign's argmax and itermax.

Source: Jalili Sabet et al. 2020, sections 2.1 (argmax) and 2.2 (itermax).
"""

from __future__ import annotations

import numpy as np

from xling.array_types import Float, Float64
from xling.corpora.parallel.wordalign.symmetrise import Link


def cosine(
    src: Float[np.ndarray, "src dim"], tgt: Float[np.ndarray, "tgt dim"]
) -> Float64[np.ndarray, "src tgt"]:
    """Cosine of every source and target word vector, (num_src, dim) and (num_tgt, dim) -> (num_src, num_tgt)."""
    left, right = (m / np.maximum(np.linalg.norm(m, axis=1, keepdims=True), 1e-9) for m in (src, tgt))
    return np.asarray(left @ right.T, dtype=np.float64)


def argmax(similarity: Float[np.ndarray, "src tgt"]) -> set[Link]:
    """Return links that are the best of their row and of their column; the first of equal ones counts."""
    if not similarity.size:
        return set()
    of_row, of_column = similarity.argmax(axis=1), similarity.argmax(axis=0)
    return {(i, int(j)) for i, j in enumerate(of_row) if of_column[j] == i}


def itermax(
    similarity: Float[np.ndarray, "src tgt"], num_iterations: int = 2, discount: float = 0.9
) -> set[Link]:
    """Repeat `argmax` on what is left, so that words can have several links.

    After an iteration, similarities between two linked words are set to 0 and those between a linked and a free
    word are multiplied by ``discount``.

    Args:
        similarity: (num_src, num_tgt), in [-1, 1]; mapped to [0, 1], since the discount must lower.
        num_iterations: the paper takes 2.
        discount: the paper's alpha, 0.9.
    """
    similarities = (np.asarray(similarity, dtype=np.float64) + 1) / 2
    links: set[Link] = set()
    for _ in range(num_iterations):
        row_done = np.zeros(similarities.shape[0], bool)
        column_done = np.zeros(similarities.shape[1], bool)
        for i, j in links:
            row_done[i] = column_done[j] = True
        num_done = row_done[:, None].astype(int) + column_done[None]
        weight = np.where(num_done == 2, 0.0, np.where(num_done == 1, discount, 1.0))
        weighted = similarities * weight
        links |= {(i, j) for i, j in argmax(weighted) if weighted[i, j] > 0}
    return links
