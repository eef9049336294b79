"""Words of any language as mixes of the words that a model knows, by the features of a static encoder.

Each piece is read as the mean of its own row and of the mix of its whole word: the rows of the nearest known words in
the static encoder's space. So a word that the vocabulary cuts into rare pieces, or that no text of the training had,
is read as its translation, or as a word that is spelled alike. A known word is nearest to itself and stays about what
it is. Words are put together from the pieces that the model reads: beside a mask or a random piece a word is what is
left of it.

Nothing here is learned. The static encoder is not part of the model file, which names its folder and its digest.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xling.array_types import Bool, Float, Int, UInt8
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.registry import load
from xling.text.files.shards import NUM_SPECIALS
from xling.text.normalize import WORD_START
from xling.text.tokenizers.wordpiece import CONTINUATION, marked

KNOWN_WORDS = "xling.static.known_words"
NAME_BYTES = 48
"""Bytes of a piece that are kept; what a longer piece has beyond them is not read."""
DIGEST_BYTES = 32


class WordFeatures(nn.Module):
    """Ids of a packed batch (N,) -> vectors (N, D).

    Args:
        rows: embeddings of the pieces; their weight stays what the LM head predicts with.
        folder: output of `xling pretrain static`.

    Raises:
        UserError: there is no static encoder.
    """

    names: UInt8[Tensor, "pieces bytes"]
    is_known: Bool[Tensor, " pieces"]
    digest: UInt8[Tensor, " digest"]

    def __init__(self, rows: nn.Embedding, folder: Path) -> None:
        super().__init__()
        load("xling.static.encoder_files:read_shape")(folder)
        self._folder = folder
        self.num_embeddings, self.embedding_dim = rows.weight.shape
        self.padding_idx, self.weight = rows.padding_idx, rows.weight
        self.register_buffer("names", torch.zeros(self.num_embeddings, NAME_BYTES, dtype=torch.uint8))
        self.register_buffer("is_known", torch.zeros(self.num_embeddings, dtype=torch.bool))
        self.register_buffer("digest", torch.zeros(DIGEST_BYTES, dtype=torch.uint8))

    def spell(self, symbols: Sequence[str]) -> None:
        """Take over the pieces of a dictionary, and the digest of the static encoder; all whole words are known.

        Raises:
            UserError: the pieces do not say where words begin, or none is a whole word.
        """
        pieces = symbols[NUM_SPECIALS:]
        if any(name.startswith(CONTINUATION) for name in pieces):
            pieces = [marked(name) for name in pieces]
        elif not any(name.startswith(WORD_START) for name in pieces):
            raise UserError(
                f"model.features={self._folder} with a vocabulary of bytes",
                "a SentencePiece or WordPiece vocabulary",
            )
        self.names.zero_()
        self.is_known.zero_()
        for row, name in enumerate(pieces, NUM_SPECIALS):
            spelled = name.encode()[:NAME_BYTES]
            self.names[row, : len(spelled)] = torch.tensor([*spelled], dtype=torch.uint8)
            self.is_known[row] = name.startswith(WORD_START) and name[1:].isalpha() and len(name) > 2
        self.digest.copy_(self._digest_of_folder())
        self._check_known()

    def know(self, rows: Collection[int]) -> None:
        """Let only words among these rows be known; raises UserError if there is none."""
        kept = torch.zeros_like(self.is_known)
        kept[torch.tensor([*rows], dtype=torch.int64)] = True
        self.is_known &= kept
        self._check_known()

    def _check_known(self) -> None:
        if not self.is_known.any():
            raise UserError(
                f"model.features={self._folder}: no piece of the vocabulary is a whole word to mix others from",
                "a vocabulary with whole words, which freeze_pieces= keeps if it is given",
            )

    def forward(self, ids: Int[Tensor, " tokens"]) -> Float[Tensor, "tokens dim"]:
        """Look up the pieces and mix each with the known words that are nearest to its word."""
        rows = F.embedding(ids, self.weight, self.padding_idx)
        mixed: Tensor = load(f"{KNOWN_WORDS}:mix_words")(self._known_words, ids, rows, self.weight)
        return mixed

    @cached_property
    def _known_words(self) -> Any:
        """The static encoder, which is read at first use.

        Raises:
            UserError: it is not the one of the training.
        """
        if not torch.equal(self.digest.cpu(), self._digest_of_folder()):
            raise UserError(
                f"the static encoder {self._folder} is not the one that the model was trained with",
                "the folder that model.features named in its training",
                "put it back, or train again",
            )
        encoder = load("xling.static.encoder_files:load_encoder")(self._folder)
        return load(f"{KNOWN_WORDS}:KnownWords")(self.names, self.is_known, encoder.without_sketch())

    def _digest_of_folder(self) -> UInt8[Tensor, " digest"]:
        return torch.frombuffer(bytearray.fromhex(manifest.content_digest(self._folder)), dtype=torch.uint8)
