"""Adapter for encoders of transformers, for fine-tuning, evaluation and vectors, not for pre-training.

The states are computed by the code of transformers. This module packs and unpacks texts and orders the rows
of the embeddings as ours. transformers is imported only when such a model is created.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from xling.array_types import Float, Int
from xling.core.commands import inputs
from xling.core.errors import UserError
from xling.models.network.attention import Attention, SequenceRuns
from xling.models.network.encoder import EncoderConfig

SETTINGS_KEY = "transformers"  # key of the ``config.json`` in a model file
SIZE_NAMES = {
    "layers": ("num_hidden_layers", "n_layers"),
    "dim": ("hidden_size", "dim", "emb_dim"),
    "heads": ("num_attention_heads", "n_heads"),
    "ffn_dim": ("intermediate_size", "hidden_dim"),
    "max_positions": ("max_position_embeddings",),
}
"""Our names of sizes, each with its names in the configurations of transformers."""
DROPOUT_SETTINGS = ("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout")


def make_body(settings: Mapping[str, Any], dropout: float | None = None) -> Any:
    """Create the bare model of transformers that a ``config.json`` describes, with fresh weights.

    Raises:
        UserError: transformers is not installed, or does not know the model.
    """
    try:
        from transformers import AutoConfig, AutoModel
    except ImportError:
        raise inputs.missing_package_error("transformers", "this model", "hub") from None
    body_settings = dict(settings)
    if dropout is not None:
        body_settings |= {name: dropout for name in DROPOUT_SETTINGS if name in body_settings}
    try:
        config = AutoConfig.for_model(body_settings.pop("model_type"), **body_settings)
        return AutoModel.from_config(config, dtype=torch.float32)  # whatever type the file's weights are in
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"transformers cannot build an encoder from its settings: {error}", fix="copy config.json again"
        ) from None


def read_shape(settings: Mapping[str, Any]) -> EncoderConfig:
    """Return the sizes of a model under our names.

    Raises:
        UserError: its settings lack one of them.
    """
    if "emb_dim" in settings:  # XLM
        settings = {**settings, "hidden_dim": 4 * settings["emb_dim"]}
    sizes: dict[str, Any] = {
        ours: next((settings[n] for n in theirs if n in settings), None)
        for ours, theirs in SIZE_NAMES.items()
    }
    if missing := [name for name, value in sizes.items() if not isinstance(value, int)]:
        raise UserError(
            f"config.json of {settings.get('model_type')} does not say {', '.join(missing)}",
            fix="copy it again",
        )
    return EncoderConfig(**sizes)


class TransformersEncoder(nn.Module):
    """An encoder of transformers on packed batches.

    Args:
        settings: its ``config.json``.
        vocab_size: rows of the embeddings in our order.
        dropout: dropout of its layers in training; None for its own.
    """

    segments = relative = invertible = None

    def __init__(self, settings: Mapping[str, Any], vocab_size: int, dropout: float | None = None) -> None:
        super().__init__()
        self.settings, self.cfg = dict(settings), read_shape(settings)
        self.body = make_body(settings, dropout)
        body_embeddings = self.body.get_input_embeddings()
        self.tokens = nn.Embedding(vocab_size, body_embeddings.weight.shape[1])
        self.body.set_input_embeddings(self.tokens)
        position_table = next(
            (m for n, m in self.body.named_modules() if n.endswith("position_embeddings")), None
        )
        padding = getattr(position_table, "padding_idx", None)
        if padding is not None:  # RoBERTa's positions start after that of the padding
            self.cfg = replace(self.cfg, max_positions=self.cfg.max_positions - padding - 1)
        self._has_segments = int(settings.get("type_vocab_size") or 0) > 1
        self.cfg = replace(self.cfg, lang_embeddings=self.langs is not None)

    @property
    def langs(self) -> nn.Embedding | None:
        """The language embeddings, which some models of XLM have."""
        return getattr(self.body, "lang_embeddings", None)

    @property
    def layers(self) -> range:
        """Indices of the layers of the imported model."""
        return range(self.cfg.layers)

    def forward(
        self,
        src_tokens: Int[Tensor, " tokens"],
        positions: Int[Tensor, " tokens"],
        runs: SequenceRuns,
        langs: Int[Tensor, " tokens"] | None = None,
        layer: int | None = None,
        segments: Int[Tensor, " tokens"] | None = None,
        **_: Any,
    ) -> Float[Tensor, "tokens dim"]:
        """Compute hidden states (N, D) of a packed batch; see `xling.models.network.encoder.Encoder.forward`."""
        words = self.tokens(src_tokens)
        return self.contextualise(words, positions, Attention(runs), langs, layer, segments)

    def contextualise(
        self,
        embeddings: Float[Tensor, "tokens dim"],
        positions: Int[Tensor, " tokens"],
        attention: Attention,
        langs: Int[Tensor, " tokens"] | None = None,
        layer: int | None = None,
        segments: Int[Tensor, " tokens"] | None = None,
    ) -> Float[Tensor, "tokens dim"]:
        """Compute hidden states (N, D) of word vectors (N, D).

        Positions are handled by the model itself.
        """
        output, is_real = self._run(embeddings, attention, langs, segments, layer is not None)
        states: Tensor = output.last_hidden_state if layer is None else output.hidden_states[layer]
        return states[is_real]

    def layer_states(
        self,
        embeddings: Float[Tensor, "tokens dim"],
        positions: Int[Tensor, " tokens"],
        attention: Attention,
        langs: Int[Tensor, " tokens"] | None = None,
        segments: Int[Tensor, " tokens"] | None = None,
    ) -> list[Float[Tensor, "tokens dim"]]:
        """Return the hidden states after 0, 1, ... and all layers, layers + 1 times (N, D)."""
        output, is_real = self._run(embeddings, attention, langs, segments, True)
        return [states[is_real] for states in output.hidden_states]

    def _run(
        self,
        embeddings: Float[Tensor, "tokens dim"],
        attention: Attention,
        langs: Int[Tensor, " tokens"] | None,
        segments: Int[Tensor, " tokens"] | None,
        all_layers: bool,
    ) -> tuple[Any, Tensor]:
        """Return the output for sequences padded to (B, length, D), and which places (B, length) are real."""
        lengths = [length for count, length in attention.runs for _ in range(count)]
        padded = nn.utils.rnn.pad_sequence(list(embeddings.split(lengths)), batch_first=True)
        sizes = torch.tensor(lengths, device=embeddings.device)
        is_real = torch.arange(padded.shape[1], device=embeddings.device) < sizes[:, None]
        of_tokens = {
            "token_type_ids": segments if self._has_segments else None,
            "langs": None if self.langs is None else langs,
        }
        output = self.body(
            inputs_embeds=padded,
            attention_mask=is_real.long(),
            output_hidden_states=all_layers,
            **{
                name: nn.utils.rnn.pad_sequence(list(values.split(lengths)), batch_first=True)
                for name, values in of_tokens.items()
                if values is not None
            },
        )
        return output, is_real


class TransformersModel(nn.Module):
    """Model without an LM head that wraps an encoder of transformers where our pre-trained models are expected."""

    def __init__(self, settings: Mapping[str, Any], vocab_size: int, dropout: float | None = None) -> None:
        super().__init__()
        self.encoder = TransformersEncoder(settings, vocab_size, dropout)
        self.cfg = self.encoder.cfg
