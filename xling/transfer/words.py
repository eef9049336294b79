"""Word and sentence vectors of our encoders, for `xling.text.encoders`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from xling.array_types import Float32
from xling.models.files import model_weights
from xling.models.network.encoder import working_dtype
from xling.static.encoder_files import is_static_encoder
from xling.text import vocab
from xling.transfer.backend import EncoderBackend, check_layer, each_states, text_ends
from xling.transfer.encode import BOS, EOS, encode_words
from xling.transfer.static_system import StaticBackend


class CheckpointEncoder:
    """An encoder of `xling pretrain`, deep or static, with the interface of `xling.text.encoders`."""

    def __init__(self, ckpt: Path) -> None:
        self._ckpt = ckpt
        self._static_backend = StaticBackend(ckpt, "encoder") if is_static_encoder(ckpt) else None
        self._backend = self._static_backend or EncoderBackend(ckpt, "encoder")

    def embed(
        self, texts: Sequence[str], lang: str, layer: int, pooling: str
    ) -> Float32[np.ndarray, "texts dim"]:
        """Compute sentence vectors; see `EncoderBackend.embed`."""
        return self._backend.embed(texts, lang, layer, pooling)

    def word_vectors(
        self, sentences: Sequence[Sequence[str]], lang: str, layer: int = -1
    ) -> list[Float32[np.ndarray, "_ dim"]]:
        """Compute word vectors; see `word_vectors`. Those of a static encoder are the same in every layer."""
        if self._static_backend:
            with torch.inference_mode():
                return [self._static_backend.encoder.word_vectors(words).numpy() for words in sentences]
        return word_vectors(self._ckpt, sentences, lang, layer)


def word_vectors(
    ckpt: Path, sentences: Sequence[Sequence[str]], lang: str, layer: int = -1, random_init: bool = False
) -> list[Float32[np.ndarray, "_ dim"]]:
    """Compute contextual word vectors: the mean of each word's sub-word states.

    Args:
        layer: number of layers, 0 for the input embeddings, -1 for the last.
        random_init: take fresh weights of the same shape: the control.

    Returns:
        For each sentence float32 (num_words, dim); zeros for words beyond the model's positions.

    Raises:
        UserError: a layer that the model does not have.
    """
    torch.manual_seed(1)
    model, langs = model_weights.load_model(ckpt, random_init=random_init)
    model = model.to(working_dtype("fp32")).eval()
    processor = vocab.load_processor(ckpt)
    check_layer(model, layer)
    lang_index = model_weights.language_index(model, langs, lang, ckpt)
    ends = text_ends(ckpt, lang)
    tokens, word_of_piece = zip(
        *(_split_to_pieces(processor, words, model.encoder.cfg.max_positions, ends) for words in sentences),
        strict=True,
    )
    vectors = [np.zeros((len(words), model.cfg.dim), dtype=np.float32) for words in sentences]
    with torch.inference_mode():
        for index, states in each_states(model, tokens, lang_index, layer):
            words_of_states = np.array(word_of_piece[index], dtype=np.int64)
            np.add.at(
                vectors[index], words_of_states, states[len(ends[0]) : len(states) - len(ends[1])].numpy()
            )
            vectors[index] /= np.bincount(words_of_states, minlength=len(vectors[index])).clip(1)[:, None]
    return vectors


def _split_to_pieces(
    processor: object,
    words: Sequence[str],
    max_positions: int,
    ends: tuple[list[int], list[int]] = ([BOS], [EOS]),
) -> tuple[list[int], list[int]]:
    """Return the sub-tokens of a sentence with the specials at its ends, and the word index of each one inside."""
    tokens, word_of_piece = [*ends[0]], []  # type: tuple[list[int], list[int]]
    for number, word_pieces in enumerate(encode_words(processor, words)):
        if len(tokens) + len(word_pieces) + len(ends[1]) > max_positions:
            break
        tokens += word_pieces
        word_of_piece += [number] * len(word_pieces)
    return [*tokens, *ends[1]], word_of_piece
