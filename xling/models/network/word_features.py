"""Vectors of a static encoder for whole words, mapped and added to the rows of their pieces.

A word that the vocabulary cuts into rare pieces, or that no text of the training had, still has the features of its
spelling, which it shares with related words of other languages. The map starts at zero, so a model begins as it is
without features. Words are put together from the pieces that the model reads: behind a mask or after random
replacement a word is what is left of it.

The static encoder is not part of the model file, which names its folder and its digest.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xling.array_types import Float, Float32, Int
from xling.core.commands.stage_type import load
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.text.normalize import WORD_START
from xling.text.tokenizers.wordpiece import CONTINUATION, marked
from xling.text.words.of_pieces import PieceWords

FIRST_PIECE = 4
NAME_BYTES = 48
"""Bytes of a piece that are kept; what a longer piece has beyond them is not read."""
DIGEST_BYTES = 32
VECTOR_LENGTH = 4.0
"""Length of a word's vector: longer ones let the map learn sooner than the other weights."""
MAX_WORDS = 200_000
"""Words whose vectors are kept in memory; all are forgotten when there are more."""


class WordFeatures(nn.Module):
    """Ids of a packed batch (N,) -> vectors (N, D): the row of each piece and the mapped vector of its word.

    Args:
        rows: embeddings of the pieces; their weight stays what the LM head predicts with.
        folder: output of `xling pretrain static`.
    """

    names: Tensor
    digest: Tensor

    def __init__(self, rows: nn.Embedding, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self.num_embeddings, self.embedding_dim = rows.weight.shape
        self.padding_idx, self.weight = rows.padding_idx, rows.weight
        self.register_buffer("names", torch.zeros(self.num_embeddings, NAME_BYTES, dtype=torch.uint8))
        self.register_buffer("digest", torch.zeros(DIGEST_BYTES, dtype=torch.uint8))
        dim = load("xling.static.encoder_files:read_shape")(folder).dim
        self.map = nn.Linear(dim, self.embedding_dim, bias=False)
        nn.init.zeros_(self.map.weight)
        self._known: dict[str, Tensor] = {}

    def spell(self, symbols: Sequence[str]) -> None:
        """Take over the pieces of a dictionary, and the digest of the static encoder.

        Raises:
            UserError: the pieces do not say where words begin.
        """
        pieces = symbols[FIRST_PIECE:]
        if any(name.startswith(CONTINUATION) for name in pieces):
            pieces = [marked(name) for name in pieces]
        elif not any(name.startswith(WORD_START) for name in pieces):
            raise UserError(
                f"model.features={self._folder} with a vocabulary of bytes",
                "a SentencePiece or WordPiece vocabulary",
            )
        for row, name in enumerate(pieces, FIRST_PIECE):
            spelled = name.encode()[:NAME_BYTES]
            self.names[row, : len(spelled)] = torch.frombuffer(bytearray(spelled), dtype=torch.uint8)
        self.digest.copy_(self._digest_of_folder())

    def forward(self, ids: Int[Tensor, " tokens"]) -> Float[Tensor, "tokens dim"]:
        """Look up the pieces and add the features of their words."""
        words, word_of = self._words.find(ids.cpu().numpy())
        rows = F.embedding(ids, self.weight, self.padding_idx)
        number_of = {word: number for number, word in enumerate(dict.fromkeys(words))}
        features = self.map(self._vectors_of([*number_of]).to(self.map.weight))
        features = F.pad(features, (0, 0, 0, 1))  # the last row is for symbols
        numbers = np.array([*(number_of[word] for word in words), len(number_of)])
        return rows + features[torch.from_numpy(numbers[word_of]).to(ids.device)]

    def _vectors_of(self, words: Sequence[str]) -> Float32[Tensor, "words static_dim"]:
        """Return the static vectors of distinct words, each of length `VECTOR_LENGTH`, zeros for no feature."""
        if len(self._known) > MAX_WORDS:
            self._known.clear()
        if missing := [word for word in words if word not in self._known]:
            vectors = F.normalize(self._encoder.word_vectors(missing), eps=1e-6) * VECTOR_LENGTH
            self._known.update(zip(missing, vectors, strict=True))
        return torch.stack([self._known[word] for word in words]) if words else torch.zeros(0, self.map.in_features)

    @cached_property
    def _words(self) -> PieceWords:
        names = [bytes(row).rstrip(b"\0").decode(errors="ignore") for row in self.names.cpu().numpy()]
        return PieceWords(names, FIRST_PIECE)

    @cached_property
    def _encoder(self) -> Any:
        if not torch.equal(self.digest.cpu(), self._digest_of_folder()):
            raise UserError(
                f"the static encoder {self._folder} is not the one that the model was trained with",
                "the folder that model.features named in its training",
                "put it back, or train again",
            )
        return load("xling.static.encoder_files:load_encoder")(self._folder)

    def _digest_of_folder(self) -> Tensor:
        return torch.frombuffer(bytearray.fromhex(manifest.content_digest(self._folder)), dtype=torch.uint8)
