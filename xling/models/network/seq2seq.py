"""The encoder-decoder on packed batches, registered with fairseq as ``xling_seq2seq``.

The encoder is `xling.models.network.encoder.Encoder`. A decoder layer is a causal encoder layer with attention to the
encoder's states added. Source and target embeddings are one matrix, usually the output projection too.
Sequences are only padded for attention, to the source as to themselves; see `xling.models.network.blocks`.

Source: Vaswani et al. 2017; Conneau & Lample 2019, section 3 (both sides from one pre-trained encoder).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from fairseq.models import register_model
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from xling.models import parts
from xling.models.network import encoder
from xling.models.network.attention import Attention, Runs, Told, attend, attend_told
from xling.models.network.dropout import dropout
from xling.models.network.encoder import (
    EncoderConfig,
    EncoderModel,
    Layer,
    LMHead,
    feed_forward,
    initialise_all,
    make_norm,
    make_positions,
    projections,
    scaled,
)
from xling.models.network.loss import linear_cross_entropy
from xling.models.setting import DECODER

if TYPE_CHECKING:
    from jaxtyping import Float, Float32, Int

CrossRuns = Sequence[tuple[int, int, int]]
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
        zeros = torch.zeros(len(weight))
        if unbiased:
            self.register_buffer("bias", zeros, persistent=False)
        else:
            self.bias = nn.Parameter(zeros)

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
        inner = self.out.in_features
        self.cross_query = nn.Linear(cfg.dim, inner, cfg.biases)
        self.cross_kv = nn.Linear(cfg.dim, 2 * inner, cfg.biases)
        self.cross_out = nn.Linear(inner, cfg.dim, cfg.biases)
        self.cross_norm = make_norm(cfg)

    def forward(  # type: ignore[override]
        self,
        x: Float[Tensor, "tokens dim"],
        to_self: Callable[[Float[Tensor, "tokens 3 heads head_dim"]], Float[Tensor, "tokens inner"]],
        to_source: Callable[[Float[Tensor, "tokens heads head_dim"]], Float[Tensor, "tokens inner"]],
    ) -> Float[Tensor, "tokens dim"]:
        """Apply one decoder layer, (M, D) -> (M, D).

        Args:
            x: the states of the layer below.
            to_self: maps queries, keys and values (M, 3, H, C) to the attention output over the past, (M, D).
            to_source: maps queries (M, H, C) to the attention output over the source, (M, D).
        """
        if self.compiled and isinstance(to_self, ToSelf) and isinstance(to_source, ToSource):
            hows = to_self.how, to_source.how
            told = [how.told(x, self.width) for how in hows]
            rules = [(how.drop, how.causal, how.window) for how in hows]
            compiled: Tensor = _compiled()(self, x, to_source.memory, *told, *rules)
            return compiled
        x, query = _between(self, x, to_self(projections(self, x)))
        return _after(self, x, to_source(query))

    def memory(
        self, states: Float[Tensor, "tokens dim"]
    ) -> tuple[Float[Tensor, "tokens {self.heads} head_dim"], Float[Tensor, "tokens {self.heads} head_dim"]]:
        """Return keys and values of encoder states (N, D), each (N, H, C)."""
        key, value = self.cross_kv(states).view(len(states), 2, self.heads, -1).unbind(1)
        return key, value


def _between(layer: DecoderLayer, x: Tensor, attended: Tensor) -> tuple[Tensor, Tensor]:
    """Map a layer's input and its self-attention output, both (M, D), to states and queries (M, H, C)."""
    x = x + dropout(layer.out(attended), layer.out_dropout, layer.training)
    x = x if layer.pre_norm else layer.attn_norm(x)
    query: Tensor = layer.cross_query(layer.cross_norm(x) if layer.pre_norm else x)
    return x, query.view(len(x), layer.heads, -1)


def _after(layer: DecoderLayer, x: Tensor, attended: Tensor) -> Tensor:
    """Map states and cross-attention output, both (M, D), to the layer's output (M, D)."""
    x = x + dropout(layer.cross_out(attended), layer.dropout, layer.training)
    x = x if layer.pre_norm else layer.cross_norm(x)
    change = feed_forward(layer, layer.ffn_norm(x) if layer.pre_norm else x)
    x = x + dropout(change, layer.dropout, layer.training)
    return x if layer.pre_norm else layer.ffn_norm(x)


class ToSelf(NamedTuple):
    """Attention of packed targets over their past."""

    how: Attention

    def __call__(self, qkv: Float[Tensor, "tokens 3 heads size"]) -> Float[Tensor, "tokens inner"]:
        """Map queries, keys and values (M, 3, H, C) to the attention output (M, H * C)."""
        query, key, value = qkv.unbind(1)
        return attend(query, key, value, self.how)


class ToSource(NamedTuple):
    """Attention of packed targets over the states of packed sources, ``memory`` (N, D)."""

    how: Attention
    layer: DecoderLayer
    memory: Float[Tensor, "sources dim"]

    def __call__(self, query: Float[Tensor, "tokens heads size"]) -> Float[Tensor, "tokens inner"]:
        """Map queries (M, H, C) to the attention output (M, H * C)."""
        return attend(query, *self.layer.memory(self.memory), self.how)


def whole(
    layer: DecoderLayer,
    x: Float[Tensor, "tokens dim"],
    memory: Float[Tensor, "sources dim"],
    told: Told,
    told_of_source: Told,
    rule: tuple[float, bool, int],
    rule_of_source: tuple[float, bool, int],
) -> Float[Tensor, "tokens dim"]:
    """Map (M, D) -> (M, D) as ``layer`` does; what is told as for `xling.models.network.attention.attend_told`."""
    query, key, value = projections(layer, x).unbind(1)
    x, query = _between(layer, x, attend_told(query, key, value, told, rule))
    return _after(layer, x, attend_told(query, *layer.memory(memory), told_of_source, rule_of_source))


@cache
def _compiled() -> Callable[..., Any]:
    """Return `whole`, compiled for any number of tokens and sequences."""
    return encoder.compiled(whole)


class Decoder(nn.Module):
    """Positions, layers and head; the word vectors are the encoder's.

    Args:
        cfg: the shape.
        weight: the embedding matrix, (V, D).
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
        initialise_all(self, cfg)
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
        x = scaled(words, self.cfg)
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
        runs: Runs,
        cross: CrossRuns,
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
        own = Attention(runs, causal=True, drop=drop)
        other = Attention([run[:2] for run in cross], drop=drop, keys=[run[::2] for run in cross])
        owns = [own] * len(self.layers)
        if self.relative is not None:
            owns = self.relative.by_layer(own, len(self.layers), words.device)
        x = self.embed(words, positions, langs)
        again = self.cfg.checkpoint_activations and self.training and torch.is_grad_enabled()
        for layer, seen in zip(self.layers, owns, strict=True):
            assert isinstance(layer, DecoderLayer)
            given = (x, ToSelf(seen), ToSource(other, layer, memory))
            x = checkpoint(layer, *given, use_reentrant=False) if again else layer(*given)
        out: Tensor = self.final_norm(x)
        return out


@register_model("xling_seq2seq", dataclass=Seq2SeqConfig)
class Seq2SeqModel(EncoderModel):
    """An encoder with its LM head, and a decoder, in the form that fairseq's Trainer expects."""

    cfg: Seq2SeqConfig

    def __init__(self, cfg: Seq2SeqConfig, vocab_size: int, num_langs: int = 0) -> None:
        super().__init__(cfg, vocab_size, num_langs)
        self.decoder = Decoder(cfg, self.encoder.tokens.weight, num_langs)

    def forward(
        self,
        src_tokens: Int[Tensor, " tokens"],
        positions: Int[Tensor, " tokens"],
        runs: Runs,
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
            self.encoder.tokens(decoder["tokens"]),
            memory,
            decoder["positions"],
            decoder["langs"],
            decoder["runs"],
            cross,
        )
        return out

    def loss(
        self, states: Float[Tensor, "rows dim"], target: Int[Tensor, " rows"], smoothing: float = 0.0
    ) -> tuple[Float32[Tensor, ""], Float32[Tensor, " rows"]]:
        """Return sum (with label smoothing) and rows (without) of the cross-entropy of ``target`` (M,)."""
        head = self.decoder.head
        return linear_cross_entropy(head.transform(states), head.weight, head.bias, target, smoothing)


def pool(states: Float[Tensor, "tokens dim"], runs: Runs, how: str) -> Float[Tensor, "batch dim"]:
    """Pool each sequence of a packed batch to one vector over its tokens, excluding the first and the last.

    Args:
        states: (N, D).
        runs: runs of the batch.
        how: ``max`` or ``mean``.

    Returns:
        (B, D).
    """
    assert how in POOLINGS[1:], f"pooling {how!r}: max or mean"
    vectors, start = [], 0
    for count, length in runs:
        block = states[start : start + count * length].unflatten(0, (count, length))
        inner = block[:, 1:-1] if length > 2 else block
        vectors.append(inner.max(1).values if how == "max" else inner.mean(1))
        start += count * length
    return torch.cat(vectors)


@torch.no_grad()
def start_decoder(model: Seq2SeqModel) -> None:
    """Initialise the decoder with the encoder's current weights, layer by layer.

    Cross-attention keeps its fresh ones.

    Source: Conneau & Lample 2019, section 5.2.
    """
    encoder, decoder = model.encoder, model.decoder
    for name in ("positions", "langs", "norm", "final_norm"):
        if (part := getattr(encoder, name)) is not None:
            getattr(decoder, name).load_state_dict(part.state_dict())
    for below, layer in zip(encoder.layers, decoder.layers, strict=False):
        layer.load_state_dict(below.state_dict(), strict=False)
    if isinstance(decoder.head.bias, nn.Parameter):
        decoder.head.bias.copy_(model.lm_head.bias)
    if isinstance(decoder.head, LMHead):
        decoder.head.load_state_dict(model.lm_head.state_dict())
