"""The encoder: BERT / XLM-R shapes on packed batches, registered with fairseq as ``xling_encoder``."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import make_dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from fairseq.dataclass import FairseqDataclass
from fairseq.models import BaseFairseqModel, register_model
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from xling.array_types import Float, Float32, Int
from xling.core.machine import has_fast_bfloat16
from xling.models import parts
from xling.models.model_setting import ENCODER, Side
from xling.models.network import adapters
from xling.models.network.attention import Attention, SequenceRuns, attend
from xling.models.network.dropout import dropout
from xling.models.network.loss import linear_cross_entropy
from xling.models.network.padded import causal_states
from xling.models.network.positions import RelativeBiases, SinusoidalPositions
from xling.models.network.rope import Rotation, angle_dtype, rotate, rotation_angles
from xling.models.shape import GLOBAL_ATTENTION, Shape, plain, windows_of

PAD = 1
NORM_LAYERS: dict[str, Callable[..., nn.Module]] = {
    "layer": nn.LayerNorm,
    "rms": nn.RMSNorm,
    "unshifted": partial(nn.LayerNorm, bias=False),
}
POSITION_KINDS = ("learnt", "sinusoidal", "relative", "rope")
INIT_KINDS = ("bert", "megatron")
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "relu": F.relu,
    "gated_gelu": partial(F.gelu, approximate="tanh"),
    "geglu": F.gelu,
    "swiglu": F.silu,
}
GATED_FFNS = ("gated_gelu", "geglu", "swiglu")
"""Activations between the two matrices of a feed-forward block, or of its gate."""


def fairseq_class(name: str, base: type, *sides: Side | None) -> Any:
    """Build the dataclass for fairseq and model files.

    ``base`` and the settings of `Shape` of the sides ``sides``.
    """
    namespace = {"__module__": __name__, "__doc__": Shape.__doc__}
    return make_dataclass(name, plain(sides), bases=(base,), namespace=namespace)


if TYPE_CHECKING:
    EncoderConfig = Shape
else:
    EncoderConfig = fairseq_class("EncoderConfig", FairseqDataclass, None, ENCODER)


def make_norm(cfg: EncoderConfig, is_used: bool = True) -> nn.Module:
    """Create the norm layer of a model, or an identity if it is not wanted."""
    assert cfg.norm in NORM_LAYERS, f"norm {cfg.norm!r}: {', '.join(NORM_LAYERS)}"
    return NORM_LAYERS[cfg.norm](cfg.dim, cfg.norm_eps) if is_used else nn.Identity()


class Layer(nn.Module):
    """One transformer layer on packed tokens (N, D)."""

    def __init__(self, cfg: EncoderConfig, index: int = 0) -> None:
        super().__init__()
        assert cfg.ffn in ACTIVATIONS, f"ffn {cfg.ffn!r}: {', '.join(ACTIVATIONS)}"
        self.heads, self.dropout, self.pre_norm = cfg.heads, cfg.dropout, cfg.pre_norm
        self.out_dropout = cfg.dropout if cfg.attention_out_dropout < 0 else cfg.attention_out_dropout
        self.ffn = cfg.ffn
        width = cfg.head_dim or cfg.dim // cfg.heads
        inner = cfg.heads * width
        self.qkv = nn.Linear(cfg.dim, 3 * inner, cfg.biases)
        self.out = nn.Linear(inner, cfg.dim, cfg.biases)
        self.attn_norm = make_norm(cfg, cfg.first_norm or index > 0)
        norms = (nn.RMSNorm(width, cfg.norm_eps) for _ in range(2))
        self.qk_norms = nn.ModuleList(norms) if cfg.qk_norm else None
        self.up = nn.Linear(cfg.dim, (1 + is_gated(cfg.ffn)) * cfg.ffn_dim, cfg.biases)
        self.down = nn.Linear(cfg.ffn_dim, cfg.dim, cfg.biases)
        self.ffn_norm = make_norm(cfg)
        self.adapters = nn.ModuleDict()

    def forward(self, x: Float[Tensor, "tokens dim"], attention: Attention) -> Float[Tensor, "tokens dim"]:
        """Map (N, D) -> (N, D)."""
        query, key, value = projections(self, x, attention.turn).unbind(1)
        return after_attention(self, x, attend(query, key, value, attention))

    def project(self, x: Float[Tensor, "tokens dim"]) -> Float[Tensor, "tokens 3 heads head_dim"]:
        """Return `projections` of (N, D); in a sharded model the layer gathers its weights for them."""
        return projections(self, x).clone()  # FSDP2 warns of views


def projections(
    layer: Layer, x: Float[Tensor, "tokens dim"], rotation: Rotation | None = None
) -> Float[Tensor, "tokens 3 {layer.heads} head_dim"]:
    """Project (N, D) to queries, keys and values (N, 3, H, C); the first two are normed and rotated if set."""
    flat: Tensor = layer.qkv(layer.attn_norm(x) if layer.pre_norm else x)
    qkv = flat.view(len(x), 3, layer.heads, -1)
    if rotation is None and layer.qk_norms is None:
        return qkv
    query_key, value = qkv.split([2, 1], 1)
    if layer.qk_norms is not None:
        query_key = torch.stack(
            [norm(side) for norm, side in zip(layer.qk_norms, query_key.unbind(1), strict=True)], 1
        )
    query_key = query_key if rotation is None else rotate(query_key, rotation)
    return torch.cat([query_key, value], 1)


def is_gated(ffn: str) -> bool:
    """Return whether half of the up-projection is a gate for the other half."""
    return ffn in GATED_FFNS


def feed_forward(layer: Layer, x: Float[Tensor, "tokens dim"]) -> Float[Tensor, "tokens dim"]:
    """Map (N, D) -> (N, D); in a gated layer the first half of ``up`` is the gate (Shazeer 2020, equation 6)."""
    hidden = layer.up(x)
    if is_gated(layer.ffn):
        gate, hidden = hidden.chunk(2, -1)
        hidden = ACTIVATIONS[layer.ffn](gate) * hidden
    else:
        hidden = ACTIVATIONS[layer.ffn](hidden)
    out: Tensor = layer.down(hidden)
    return out


def after_attention(
    layer: Layer, x: Float[Tensor, "tokens dim"], attended: Float[Tensor, "tokens inner"]
) -> Float[Tensor, "tokens dim"]:
    """Compute the layer's output from its input and the attention output, all (N, D)."""
    x = x + dropout(layer.out(attended), layer.out_dropout, layer.training)
    x = x if layer.pre_norm else layer.attn_norm(x)
    change = feed_forward(layer, layer.ffn_norm(x) if layer.pre_norm else x)
    change = dropout(change, layer.dropout, layer.training)
    for adapter in layer.adapters.values():
        change = change + adapter(x + change if layer.pre_norm else layer.ffn_norm(x + change))
    x = x + change
    return x if layer.pre_norm else layer.ffn_norm(x)


class Encoder(nn.Module):
    """Embeddings and layers on packed batches.

    Args:
        num_langs: number of language embeddings, 0 for none.
    """

    def __init__(self, cfg: EncoderConfig, vocab_size: int, num_langs: int = 0) -> None:
        super().__init__()
        assert cfg.head_dim or cfg.dim % cfg.heads == 0, (
            f"dim {cfg.dim} is not a multiple of {cfg.heads} heads"
        )
        self.cfg = cfg
        self.tokens = nn.Embedding(vocab_size, cfg.dim, padding_idx=PAD)
        self.positions, self.relative = make_positions(cfg)
        self.langs = nn.Embedding(num_langs, cfg.dim) if num_langs else None
        self.segments = nn.Embedding(2, cfg.dim) if cfg.segment_embeddings else None
        self.norm = make_norm(cfg, cfg.embedding_norm)
        self.layers = nn.ModuleList(Layer(cfg, index) for index in range(cfg.layers))
        self.final_norm = make_norm(cfg, cfg.pre_norm)
        initialise_side(self, cfg)
        self.invertible = adapters.InvertibleAdapter(cfg.dim) if cfg.invertible else None
        self.inputs = nn.ModuleList()  # of parts: (x, positions, langs) -> x, before the embeddings' norm
        if cfg.lang_adapter:
            adapters.add_adapter(self, adapters.LANG_ADAPTER, cfg.lang_adapter)
        if cfg.task_adapter:
            adapters.add_adapter(self, adapters.TASK_ADAPTER, cfg.task_adapter)
        parts.attach(self)

    def forward(
        self,
        src_tokens: Int[Tensor, " tokens"],
        positions: Int[Tensor, " tokens"],
        runs: SequenceRuns,
        langs: Int[Tensor, " tokens"] | None = None,
        causal: bool = False,
        sees: Int[Tensor, " tokens"] | None = None,
        shows: Int[Tensor, " tokens"] | None = None,
        layer: int | None = None,
        segments: Int[Tensor, " tokens"] | None = None,
    ) -> Float[Tensor, "tokens dim"]:
        """Compute the hidden states of a packed batch.

        Args:
            src_tokens: (N,) int64.
            positions: (N,) int64, from 0 in each sequence.
            runs, causal, sees, shows: see `Attention`.
            langs: (N,) int64 language indices, if the model has language embeddings.
            layer: return the states after this many layers instead of all.
            segments: (N,) int64, 0 in the first text and 1 in the second, for a model with segment
                embeddings; None if there is only one text.

        Returns:
            (N, D).
        """
        attention = Attention(runs, causal, sees, shows, self.cfg.attention_dropout if self.training else 0.0)
        return self.contextualise(self.tokens(src_tokens), positions, attention, langs, layer, segments)

    def contextualise(
        self,
        words: Float[Tensor, "tokens dim"],
        positions: Int[Tensor, " tokens"],
        attention: Attention,
        langs: Int[Tensor, " tokens"] | None = None,
        layer: int | None = None,
        segments: Int[Tensor, " tokens"] | None = None,
    ) -> Float[Tensor, "tokens dim"]:
        """Compute hidden states (N, D) of word vectors ``words`` (N, D); the other arguments as in `forward`."""
        (last_states,) = deque(self.states(words, positions, attention, langs, layer, segments), maxlen=1)
        out: Tensor = self.final_norm(last_states)
        return out

    def layer_states(
        self,
        embeddings: Float[Tensor, "tokens dim"],
        positions: Int[Tensor, " tokens"],
        attention: Attention,
        langs: Int[Tensor, " tokens"] | None = None,
        segments: Int[Tensor, " tokens"] | None = None,
    ) -> list[Float[Tensor, "tokens dim"]]:
        """Return what `contextualise` gives after 0, 1, ... and all layers, layers + 1 times (N, D)."""
        each = self.states(embeddings, positions, attention, langs, segments=segments)
        return [self.final_norm(states) for states in each]

    def states(
        self,
        embeddings: Float[Tensor, "tokens dim"],
        positions: Int[Tensor, " tokens"],
        attention: Attention,
        langs: Int[Tensor, " tokens"] | None = None,
        layer: int | None = None,
        segments: Int[Tensor, " tokens"] | None = None,
    ) -> Iterator[Float[Tensor, "tokens dim"]]:
        """Yield the input of the first layer and then the output of each layer, (N, D), before the final norm."""
        x = scale_embeddings(embeddings, self.cfg)
        x = x if self.positions is None else x + self.positions(positions)
        if self.langs is not None:
            assert langs is not None, "the model has language embeddings but the batch names no languages"
            x = x + self.langs(langs)
        if self.segments is not None:
            x = x + (self.segments.weight[0] if segments is None else self.segments(segments))
        for change in self.inputs:
            x = change(x, positions, langs)
        x = dropout(self.norm(x), self.cfg.dropout, self.training)
        x = x if self.invertible is None else self.invertible(x)
        yield x
        attention_by_layer = self.by_layer(attention, positions, x)
        recompute = self.cfg.checkpoint_activations and self.training and torch.is_grad_enabled()
        for block, layer_attention in zip(self.layers[:layer], attention_by_layer, strict=False):
            # Dropout uses torch's random state, which is restored for the second pass.
            x = (
                checkpoint(block, x, layer_attention, use_reentrant=False)
                if recompute
                else block(x, layer_attention)
            )
            yield x

    def by_layer(
        self, attention: Attention, positions: Int[Tensor, " tokens"], x: Float[Tensor, "tokens dim"]
    ) -> list[Attention]:
        """Return the attention of each layer, with its window and its position biases or angles."""
        if self.relative is not None:
            return self.relative.by_layer(attention, self.cfg.layers, x.device)
        layer_windows = windows_of(self.cfg.attention, self.cfg.layers)
        attention_of_window, width = {}, self.cfg.head_dim or self.cfg.dim // self.cfg.heads
        for window in dict.fromkeys(layer_windows):
            theta = self.cfg.local_theta if window else self.cfg.global_theta
            is_rotary = self.cfg.positions == "rope"
            turn = rotation_angles(positions, width, theta, angle_dtype(x)) if is_rotary else None
            attention_of_window[window] = replace(attention, window=window, turn=turn)
        return [attention_of_window[window] for window in layer_windows]


def make_positions(
    cfg: EncoderConfig, causal: bool = False
) -> tuple[nn.Module | None, RelativeBiases | None]:
    """Create the position vectors of a side of a model, or its relative biases, or neither.

    A decoder does not use rotary positions: with ``rope`` in the encoder it has learnt position embeddings.
    """
    assert cfg.positions in POSITION_KINDS, f"positions {cfg.positions!r}: {', '.join(POSITION_KINDS)}"
    if cfg.positions == "relative":
        assert cfg.attention == GLOBAL_ATTENTION, "relative positions need attention over the whole sequence"
        layers = (getattr(cfg, "decoder_layers", 0) if causal else 0) or cfg.layers
        return None, RelativeBiases(cfg.heads, causal, layers if cfg.layer_biases else 1)
    if cfg.positions == "rope" and not causal:
        return None, None
    if cfg.positions == "sinusoidal":
        return SinusoidalPositions(cfg.max_positions, cfg.dim), None
    return nn.Embedding(cfg.max_positions, cfg.dim), None


def scale_embeddings(words: Float[Tensor, "tokens dim"], cfg: EncoderConfig) -> Float[Tensor, "tokens dim"]:
    """Scale word vectors, if set, before positions are added."""
    return words * math.sqrt(cfg.dim) if cfg.scale_embeddings else words


class LMHead(nn.Module):
    """RoBERTa's LM head: dense layer, gelu, layer norm, then the tied embeddings.

    Args:
        biases: whether the dense layer and the norm have biases; the output always has one.
        invertible: invertible adapter of the encoder, undone before the embeddings; the encoder owns it.
    """

    _invertible: adapters.InvertibleAdapter | None

    def __init__(
        self,
        dim: int,
        weight: Float[Tensor, " vocab {dim}"],
        eps: float = 1e-5,
        invertible: adapters.InvertibleAdapter | None = None,
        biases: bool = True,
    ) -> None:
        super().__init__()
        self.__dict__["_invertible"] = (
            invertible  # not registered, since its weights already belong to the encoder
        )
        self.dense = nn.Linear(dim, dim, biases)
        self.norm = nn.LayerNorm(dim, eps, bias=biases)
        self.weight = weight
        self.bias = nn.Parameter(torch.zeros(len(weight)))
        self.dense.apply(initialise_module)

    @property
    def is_untrained(self) -> bool:
        """Whether this is the identity that an import gives a model without an LM head."""
        weight = self.dense.weight
        return bool((weight == torch.eye(len(weight)).to(weight)).all() and (self.norm.weight == 1).all())

    def transform(self, hidden: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows dim"]:
        """Map (M, D) -> (M, D), the input of the tied embeddings."""
        out: Tensor = self.norm(F.gelu(self.dense(hidden)))
        return out if self._invertible is None else self._invertible.inverse(out)

    def loss(
        self, hidden: Float[Tensor, "rows dim"], target: Int[Tensor, " rows"]
    ) -> tuple[Float32[Tensor, ""], Float32[Tensor, " rows"]]:
        """Return sum and rows of the cross-entropy of ``target`` (M,) given ``hidden`` (M, D)."""
        return linear_cross_entropy(self.transform(hidden), self.weight, self.bias, target)

    def logits(self, hidden: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows vocab"]:
        """Compute logits (M, D) -> (M, V) for inspection and export; training uses `loss`."""
        return F.linear(self.transform(hidden), self.weight, self.bias)


@register_model("xling_encoder", dataclass=EncoderConfig)
class EncoderModel(BaseFairseqModel):  # type: ignore[misc]
    """An encoder with its LM head, in the form that fairseq's Trainer expects."""

    def __init__(self, cfg: EncoderConfig, vocab_size: int, num_langs: int = 0) -> None:
        super().__init__()
        self.cfg = cfg
        self.encoder = Encoder(cfg, vocab_size, num_langs)
        words, invertible = self.encoder.tokens.weight, self.encoder.invertible
        self.lm_head = LMHead(cfg.dim, words, cfg.norm_eps, invertible, cfg.head_biases)
        self.extras = nn.ModuleDict()

    @classmethod
    def build_model(cls, cfg: EncoderConfig, task: Any) -> EncoderModel:
        """Build the model for a task that has a ``dictionary`` and ``langs``."""
        model = cls(cfg, len(task.dictionary), len(task.langs) if cfg.lang_embeddings else 0)
        if spell := getattr(model.encoder.tokens, "spell", None):  # see `parts.Part`
            spell(task.dictionary.symbols)
        return model.to(working_dtype(cfg.precision))

    def forward(self, src_tokens: Int[Tensor, " *tokens"], *args: Any, **kwargs: Any) -> Any:
        """Compute hidden states (N, D), see `Encoder.forward`; with ``src_lengths`` see `causal_states`."""
        if "src_lengths" in kwargs:
            return causal_states(self.encoder, src_tokens, **kwargs)
        return self.encoder(src_tokens, *args, **kwargs)

    def get_normalized_probs(
        self, net_output: Any, log_probs: bool, sample: Any = None
    ) -> Float[Tensor, "batch longest vocab"]:
        """Return the probabilities of every next token, as fairseq's scorer asks for them, (B, L, V)."""
        states = net_output[0]
        logits = self.lm_head.logits(states.flatten(0, 1)).float().unflatten(0, states.shape[:2])
        return torch.log_softmax(logits, -1) if log_probs else torch.softmax(logits, -1)

    def max_positions(self) -> int:
        """Return the longest sequence, in tokens."""
        return int(self.cfg.max_positions)


def working_dtype(precision: str) -> torch.dtype:
    """Return the dtype of the working weights, see `choose_dtype`."""
    return choose_dtype(precision)[0]


def choose_dtype(precision: str) -> tuple[torch.dtype, str]:
    """Resolve ``fp32``, ``bf16``, or ``auto`` to a dtype, with the reason for the choice.

    ``auto`` chooses bf16 on a GPU that supports it and on a CPU with AMX or AVX512-BF16 instructions;
    emulation is slow.
    """
    assert precision in ("auto", "fp32", "bf16"), f"precision {precision!r}: auto, fp32 or bf16"
    if precision != "auto":
        return torch.bfloat16 if precision == "bf16" else torch.float32, f"model.precision={precision}"
    is_fast, reason = has_fast_bfloat16(torch)
    return torch.bfloat16 if is_fast else torch.float32, reason


def initialise_module(module: nn.Module) -> None:
    """Initialise weights and embeddings as BERT does, normal(0, .02), with zeros for padding."""
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
        if module.padding_idx is not None:
            nn.init.zeros_(module.weight[module.padding_idx])


def initialise_side(side: Encoder | Any, cfg: EncoderConfig) -> None:
    """Initialise an encoder or a decoder by ``cfg.init``.

    Source: Shoeybi et al. 2019, section 5 (output projections by the depth).
    """
    assert cfg.init in INIT_KINDS, f"init {cfg.init!r}: {', '.join(INIT_KINDS)}"
    side.apply(initialise_module)
    if cfg.init == "megatron":
        for layer in side.layers:
            for name in ("out", "down", "cross_out"):
                if (part := getattr(layer, name, None)) is not None:
                    nn.init.normal_(part.weight, std=0.02 / math.sqrt(2 * len(side.layers)))


def num_parameters(model: nn.Module) -> int:
    """Count the parameters of a model, tied ones once."""
    return sum(math.prod(p.shape) for p in model.parameters())
