"""Vectors of words in one space of all languages: those of a static encoder, read without torch.

They equal `xling.static.vectors.StaticEncoder.words`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from xling.array_types import Float32
from xling.core.errors import UserError
from xling.text.words.features import READABLE_VERSIONS, hash_features, split_tokens

FILES = ("static.json", "static.safetensors")


def word_vectors(folder: Path, words: Sequence[str]) -> Float32[np.ndarray, "words dim"]:
    """Return the mean vector of each word's features, float32 (num_words, dim), not normalised; zeros without features.

    Args:
        folder: output of ``xling pretrain static``.

    Raises:
        UserError: a file is missing or damaged, or the features are of another version.
    """
    try:
        version = json.loads((folder / FILES[0]).read_text(encoding="utf-8")).get("features", 1)
        table = load_file(folder / FILES[1])["table"]
        if not np.isfinite(table).all():
            raise ValueError("its table has values that are not finite (NaN or infinite)")
    except (OSError, ValueError, KeyError, AttributeError, SafetensorError) as error:
        raise UserError(
            f"encoder={folder}: {type(error).__name__} {error}",
            "an output of xling pretrain static",
            "run it again",
        ) from None
    if version not in READABLE_VERSIONS:
        raise UserError(
            f"encoder={folder} uses version {version} of the word features",
            f"version {' or '.join(map(str, READABLE_VERSIONS))}",
            "run xling corpus nway and xling pretrain static again",
        )
    vectors = np.zeros((len(words), table.shape[1]), dtype=np.float32)
    for i, word in enumerate(words):
        tokens = split_tokens(word, version)
        if rows := [h % len(table) for token in tokens for h in hash_features(token, version).tolist()]:
            vectors[i] = table[rows].astype(np.float32).mean(0)
    return vectors
