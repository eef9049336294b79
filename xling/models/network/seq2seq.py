"""The encoder-decoder on packed batches, registered with fairseq as ``xling_seq2seq``.

The encoder is `xling.models.network.encoder.Encoder`. A decoder layer is a causal encoder layer with attention to the
encoder's states added. Source and target embeddings are one matrix, usually the output projection too.
Sequences are only padded for attention, to the source as to themselves; see `xling.models.network.blocks`.

Source: Vaswani et al. 2017; Conneau & Lample 2019, section 3 (both sides from one pre-trained encoder).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from fairseq.models import register_model
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from xling.array_types import Float, Float32, Int
from xling.models import parts
from xling.models.model_setting import DECODER
from xling.models.network import encoder
from xling.models.network.attention import Attention, SequenceRuns, attend
from xling.models.network.dropout import dropout
from xling.models.network.encoder import (
    EncoderConfig,
    EncoderModel,
    Layer,
    LMHead,
    feed_forward,
    initialise_side,
    make_norm,
    make_positions,
    projections,
    scale_embeddings,
)
from xling.models.network.loss import linear_cross_entropy

CrossSequenceRuns = Sequence[tuple[int, int, int]]
POOLINGS = ("", "max", "mean")


if TYPE_CHECKING:

    class Seq2SeqConfig(EncoderConfig):
        """The configuration of a model with a decoder."""
else:
    Seq2SeqConfig = encoder.fairseq_class("Seq2SeqConfig", EncoderConfig, DECODER)


class PlainHead(nn.Module):
    """Output head: the tied embeddings, or a separate matrix, and a bias, which is fixed at 0 with ``unbiased``."""

    bias: Float[Tensor, " vocab"]

    def __init__(
        self, weight: Float[Tensor, "vocab dim"], unbiased: bool = False, untied: bool = False
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty_like(weight).normal_(std=0.02)) if untied else weight
        zero_bias = torch.zeros(len(weight))
        if unbiased:
            self.register_buffer("bias", zero_bias, persistent=False)
        else:
            self.bias = nn.Parameter(zero_bias)

    def transform(self, hidden: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows dim"]:
        """Return the states unchanged."""
        return hidden

    def logits(self, hidden: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows vocab"]:
        """Compute logits (M, D) -> (M, V)."""
        return F.linear(hidden, self.weight, self.bias)


class DecoderLayer(Layer):
    """A layer that attends to its own past, then to the source."""

    def __init__(self, cfg: Seq2SeqConfig, index: int = 0) -> None:
        super().__init__(cfg, index)
        attention_width = self.out.in_features
        self.cross_query = nn.Linear(cfg.dim, attention_width, cfg.biases)
        self.cross_kv = nn.Linear(cfg.dim, 2 * attention_width, cfg.biases)
        self.cross_out = nn.Linear(attention_width, cfg.dim, cfg.biases)
        self.cross_norm = make_norm(cfg)

    def forward(  # type: ignore[override]
        self,
        x: Float[Tensor, "tokens dim"],
        attend_self: Callable[[Float[Tensor, "tokens 3 heads head_dim"]], Float[Tensor, "tokens inner"]],
        attend_source: Callable[[Float[Tensor, "tokens heads head_dim"]], Float[Tensor, "tokens inner"]],
    ) -> Float[Tensor, "tokens dim"]:
        """Apply one decoder layer, (M, D) -> (M, D).

        Args:
            x: the states of the layer below.
            attend_self: maps queries, keys and values (M, 3, H, C) to the attention output over the past, (M, D).
            attend_source: maps queries (M, H, C) to the attention output over the source, (M, D).
        """
        x, query = _after_self_attention(self, x, attend_self(projections(self, x)))
        return _after_cross_attention(self, x, attend_source(query))

    def memory(
        self, states: Float[Tensor, "tokens dim"]
    ) -> tuple[Float[Tensor, "tokens {self.heads} head_dim"], Float[Tensor, "tokens {self.heads} head_dim"]]:
        """Return keys and values of encoder states (N, D), each (N, H, C)."""
        key, value = self.cross_kv(states).view(len(states), 2, self.heads, -1).unbind(1)
        return key, value


def _after_self_attention(layer: DecoderLayer, x: Tensor, attended: Tensor) -> tuple[Tensor, Tensor]:
    """Map a layer's input and its self-attention output, both (M, D), to states and queries (M, H, C)."""
    x = x + dropout(layer.out(attended), layer.out_dropout, layer.training)
    x = x if layer.pre_norm else layer.attn_norm(x)
    query: Tensor = layer.cross_query(layer.cross_norm(x) if layer.pre_norm else x)
    return x, query.view(len(x), layer.heads, -1)


def _after_cross_attention(layer: DecoderLayer, x: Tensor, attended: Tensor) -> Tensor:
    """Map states and cross-attention output, both (M, D), to the layer's output (M, D)."""
    x = x + dropout(layer.cross_out(attended), layer.dropout, layer.training)
    x = x if layer.pre_norm else layer.cross_norm(x)
    change = feed_forward(layer, layer.ffn_norm(x) if layer.pre_norm else x)
    x = x + dropout(change, layer.dropout, layer.training)
    return x if layer.pre_norm else layer.ffn_norm(x)


class Decoder(nn.Module):
    """Positions, layers and head; the word vectors are the encoder's.

    Args:
        num_langs: number of language embeddings, 0 for none.
    """

    def __init__(self, cfg: Seq2SeqConfig, weight: Float[Tensor, "vocab dim"], num_langs: int = 0) -> None:
        super().__init__()
        self.cfg = cfg
        self.positions, self.relative = make_positions(cfg, causal=True)
        self.langs = nn.Embedding(num_langs, cfg.dim) if num_langs else None
        self.norm = make_norm(cfg, cfg.embedding_norm)
        self.layers = nn.ModuleList(DecoderLayer(cfg, i) for i in range(cfg.decoder_layers or cfg.layers))
        self.final_norm = make_norm(cfg, cfg.pre_norm)
        initialise_side(self, cfg)
        self.head: LMHead | PlainHead = (
            PlainHead(weight, cfg.unbiased_head, cfg.untied_head)
            if cfg.plain_head
            else LMHead(cfg.dim, weight, cfg.norm_eps, biases=cfg.head_biases)
        )
        parts.attach(self)

    def embed(
        self,
        words: Float[Tensor, "tokens dim"],
        positions: Int[Tensor, " tokens"],
        langs: Int[Tensor, " tokens"] | None,
    ) -> Float[Tensor, "tokens dim"]:
        """Return the input of the first layer, (M, D), from word vectors (M, D)."""
        x = scale_embeddings(words, self.cfg)
        x = x if self.positions is None else x + self.positions(positions)
        if self.langs is not None:
            assert langs is not None, "the model has language embeddings but the batch names no languages"
            x = x + self.langs(langs)
        return dropout(self.norm(x), self.cfg.dropout, self.training)

    def forward(
        self,
        words: Float[Tensor, "tokens dim"],
        memory: Float[Tensor, "sources dim"],
        positions: Int[Tensor, " tokens"],
        langs: Int[Tensor, " tokens"] | None,
        runs: SequenceRuns,
        cross: CrossSequenceRuns,
    ) -> Float[Tensor, "tokens dim"]:
        """Compute the states of every target position.

        Args:
            words: word vectors of the tokens read, (M, D).
            memory: states of the sources, (N, D).
            positions, langs: (M,) int64.
            runs, cross: see `xling.data.packing.pack_seq2seq`.

        Returns:
            (M, D).
        """
        drop = self.cfg.attention_dropout if self.training else 0.0
        self_attention = Attention(runs, causal=True, drop=drop)
        cross_attention = Attention([run[:2] for run in cross], drop=drop, keys=[run[::2] for run in cross])
        self_attention_by_layer = [self_attention] * len(self.layers)
        if self.relative is not None:
            self_attention_by_layer = self.relative.by_layer(self_attention, len(self.layers), words.device)
        x = self.embed(words, positions, langs)
        recompute = self.cfg.checkpoint_activations and self.training and torch.is_grad_enabled()
        for layer, layer_attention in zip(self.layers, self_attention_by_layer, strict=True):
            assert isinstance(layer, DecoderLayer)
            layer_inputs = (
                x,
                partial(_attend_self, attention=layer_attention),
                partial(_attend_source, layer=layer, memory=memory, attention=cross_attention),
            )
            x = checkpoint(layer, *layer_inputs, use_reentrant=False) if recompute else layer(*layer_inputs)
        out: Tensor = self.final_norm(x)
        return out


def _attend_self(
    qkv: Float[Tensor, "tokens 3 heads size"], attention: Attention
) -> Float[Tensor, "tokens inner"]:
    """Map queries, keys and values (M, 3, H, C) to the attention output over the past (M, H * C)."""
    query, key, value = qkv.unbind(1)
    return attend(query, key, value, attention)


def _attend_source(
    query: Float[Tensor, "tokens heads size"],
    layer: DecoderLayer,
    memory: Float[Tensor, "sources dim"],
    attention: Attention,
) -> Float[Tensor, "tokens inner"]:
    """Map queries (M, H, C) to the attention output over the states of the sources (M, H * C)."""
    return attend(query, *layer.memory(memory), attention)


@register_model("xling_seq2seq", dataclass=Seq2SeqConfig)
class Seq2SeqModel(EncoderModel):
    """An encoder with its LM head, and a decoder, in the form that fairseq's Trainer expects."""

    cfg: Seq2SeqConfig

    def __init__(self, cfg: Seq2SeqConfig, vocab_size: int, num_langs: int = 0) -> None:
        super().__init__(cfg, vocab_size, num_langs)
        self.decoder = Decoder(cfg, self.encoder.tokens.weight, num_langs)
        parts.connect(self)

    def forward(
        self,
        src_tokens: Int[Tensor, " tokens"],
        positions: Int[Tensor, " tokens"],
        runs: SequenceRuns,
        decoder: dict[str, Any] | None = None,
        pooling: str = "",
        **kwargs: Any,
    ) -> Float[Tensor, "_ dim"]:
        """Compute states of the encoder (N, D), or with ``decoder`` those of the decoder (M, D).

        Args:
            src_tokens, positions, runs: and ``kwargs``: see `xling.models.network.encoder.Encoder.forward`.
            decoder: the target side of a batch, see `xling.data.packing.pack_seq2seq`.
            pooling: let the decoder see one vector of each source only, see `pool`.
        """
        memory = self.encoder(src_tokens, positions, runs, **kwargs)
        if decoder is None:
            return memory
        cross = decoder["cross"]
        if pooling:
            memory, cross = pool(memory, runs, pooling), [(count, tgt, 1) for count, tgt, _ in cross]
        elif "seen" in decoder:
            memory = memory[decoder["seen"]]
        out: Tensor = self.decoder(
            self.read(decoder["tokens"]),
            memory,
            decoder["positions"],
            decoder["langs"],
            decoder["runs"],
            cross,
        )
        return out

    def read(self, tokens: Int[Tensor, " tokens"]) -> Float[Tensor, "tokens dim"]:
        """Return the word vectors (M, D) of tokens that the decoder reads, (M,)."""
        own = getattr(self.decoder, "words", None)  # of `xling.models.parts.decoder_embeddings`
        out: Tensor = (self.encoder.tokens if own is None else own)(tokens)
        return out

    def loss(
        self, states: Float[Tensor, "rows dim"], target: Int[Tensor, " rows"], smoothing: float = 0.0
    ) -> tuple[Float32[Tensor, ""], Float32[Tensor, " rows"]]:
        """Return sum (with label smoothing) and rows (without) of the cross-entropy of ``target`` (M,)."""
        head = self.decoder.head
        return linear_cross_entropy(head.transform(states), head.weight, head.bias, target, smoothing)


def pool(states: Float[Tensor, "tokens dim"], runs: SequenceRuns, pooling: str) -> Float[Tensor, "batch dim"]:
    """Pool each sequence of a packed batch to one vector over its tokens, excluding the first and the last.

    Args:
        pooling: ``max`` or ``mean``.

    Returns:
        (B, D).
    """
    assert pooling in POOLINGS[1:], f"pooling {pooling!r}: max or mean"
    vectors, start = [], 0
    for count, length in runs:
        block = states[start : start + count * length].unflatten(0, (count, length))
        inside = block[:, 1:-1] if length > 2 else block
        vectors.append(inside.max(1).values if pooling == "max" else inside.mean(1))
        start += count * length
    return torch.cat(vectors)


@torch.no_grad()
def initialise_decoder(model: Seq2SeqModel) -> None:
    """Initialise the decoder with the encoder's current weights, layer by layer.

    Cross-attention keeps its fresh ones.

    Source: Conneau & Lample 2019, section 5.2.
    """
    encoder, decoder = model.encoder, model.decoder
    for name in ("positions", "langs", "norm", "final_norm"):
        if (part := getattr(encoder, name)) is not None:
            getattr(decoder, name).load_state_dict(part.state_dict())
    for encoder_layer, layer in zip(encoder.layers, decoder.layers, strict=False):
        layer.load_state_dict(encoder_layer.state_dict(), strict=False)
    if (own := getattr(decoder, "words", None)) is not None:
        own.weight.copy_(encoder.tokens.weight)
    if isinstance(decoder.head.bias, nn.Parameter):
        decoder.head.bias.copy_(model.lm_head.bias)
    if isinstance(decoder.head, LMHead):
        decoder.head.load_state_dict(model.lm_head.state_dict())
