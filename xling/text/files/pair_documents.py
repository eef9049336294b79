"""Documents of parallel shards: where each begins among the pairs, and blocks of neighbouring pairs of one document.

``SPLIT.SRC-TGT.documents.npy`` lies beside the two sides: the number of the first pair of every document, int64.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from xling.array_types import Int64
from xling.core.errors import UserError
from xling.text.files.shards import Shard


def path_of(data: Path, pair: str, split: str) -> Path:
    """Return the file of the documents of a pair."""
    return data / pair / f"{split}.{pair}.documents.npy"


def read(data: Path, pair: str, split: str) -> Int64[np.ndarray, " documents"]:
    """Return the number of the first pair of every document.

    Raises:
        UserError: the pairs were binarised without documents.
    """
    path = path_of(data, pair, split)
    if not path.is_file():
        raise UserError(
            f"join=true, and {data} does not say which pairs of {pair} are one document",
            "pairs that were binarised with documents=true",
            "xling binarize documents=true, with a line that is blank on both sides between documents",
        )
    firsts: np.ndarray = np.load(path, allow_pickle=False)
    return firsts


def joined(sides: list[Shard], firsts: Int64[np.ndarray, " documents"], room: int) -> list[Shard]:
    """Return shards whose items are blocks: as many neighbouring pairs of a document as fit into ``room`` on each side.

    The tokens are those of ``sides``, each sentence with its ``</s>``. A longer pair is a block of its own.

    Args:
        firsts: the first pair of every document.
    """
    lengths = np.stack([side.sizes.astype(np.int64) for side in sides])
    if not lengths.size:
        return sides
    begins, begins_document = list[int](), np.zeros(lengths.shape[1], dtype=bool)
    begins_document[firsts] = True
    used = np.zeros(len(sides), dtype=np.int64)
    for number, begins_here in enumerate(begins_document.tolist()):
        if number == 0 or begins_here or (used + lengths[:, number] > room).any():
            begins.append(number)
            used[:] = 0
        used += lengths[:, number]
    blocks = np.array(begins, dtype=np.int64)
    return [
        Shard(side.tokens, np.add.reduceat(own, blocks).astype(np.int32), side.pointers[blocks])
        for side, own in zip(sides, lengths, strict=True)
    ]
