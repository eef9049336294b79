"""The encoder: BERT / XLM-R shapes on packed batches, registered with fairseq as ``xling_encoder``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from fairseq.dataclass import FairseqDataclass
from fairseq.models import BaseFairseqModel, register_model
from torch import Tensor, nn
from torch.nn.attention.varlen import varlen_attn
from torch.utils.checkpoint import checkpoint

from xling.models import adapters
from xling.models.dropout import dropout
from xling.models.loss import linear_cross_entropy

Runs = Sequence[tuple[int, int]]
PAD = 1
COMPILER = "inductor"


@dataclass
class EncoderConfig(FairseqDataclass):
    """Shape of the encoder; the defaults are tiny.

    XLM-R base is layers=12, dim=768, heads=12, ffn_dim=3072, max_positions=512. ``checkpoint_activations`` keeps only
    the input of each layer and computes the rest again in the backward pass; ``compile`` compiles what is between two
    attentions. ``lang_adapter`` and ``task_adapter`` are the widths of adapters in every layer, 0 for none, and
    ``invertible`` asks for one on the word vectors; see `xling.models.adapters`. ``segment_embeddings`` adds one of two
    vectors to a token, of the first text or of the second (BERT). ``scale_embeddings`` multiplies
    word vectors by the square root of ``dim`` (Vaswani et al. 2017, section 3.4; mBART); ``norm_eps`` is what layer
    norms add to the variance, 1e-12 in BERT.
    """

    layers: int = 4
    dim: int = 256
    heads: int = 4
    ffn_dim: int = 1024
    dropout: float = 0.1
    attention_dropout: float = 0.0
    max_positions: int = 512
    pre_norm: bool = False
    lang_embeddings: bool = False
    segment_embeddings: bool = False
    precision: str = "auto"
    checkpoint_activations: bool = False
    compile: bool = False
    lang_adapter: int = 0
    task_adapter: int = 0
    invertible: bool = False
    scale_embeddings: bool = False
    norm_eps: float = 1e-5


@dataclass(frozen=True)
class Attention:
    """Which tokens see which, within each sequence of a packed batch.

    Attributes:
        runs: (number of sequences, length) in order; they cover the N tokens.
        causal: a token sees itself and those before it.
        sees: (N,) int64 or None for all; token i sees token j of its sequence when ``sees[i] == shows[j]``, and
            always itself.
        shows: (N,) int64 or None.
        drop: probability of dropping an attention weight; above 0 there is no fused kernel on a CPU.
    """

    runs: Runs
    causal: bool = False
    sees: Tensor | None = None
    shows: Tensor | None = None
    drop: float = 0.0
    _starts: Tensor | None = field(default=None, init=False, repr=False, compare=False)

    @cached_property
    def longest(self) -> int:
        """Tokens of the longest sequence."""
        return max((length for _, length in self.runs), default=0)

    def starts(self, device: torch.device) -> Tensor:
        """Where sequences begin and the last one ends, int32 (sequences + 1,)."""
        if self._starts is None:
            lengths = np.repeat([length for _, length in self.runs], [count for count, _ in self.runs])
            ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
            object.__setattr__(self, "_starts", torch.from_numpy(ends).to(device))
        assert self._starts is not None
        return self._starts

    def mask(self, start: int, count: int, length: int) -> Tensor | None:
        """Bool (count, 1, length, length), True where row sees column; None when all do."""
        if self.sees is None or self.shows is None:
            return None
        end = start + count * length
        sees, shows = (x[start:end].view(count, 1, length) for x in (self.sees, self.shows))
        itself = torch.eye(length, dtype=torch.bool, device=sees.device)
        return (sees[..., None] == shows[..., None, :]) | itself


def attend(query: Tensor, key: Tensor, value: Tensor, how: Attention) -> Tensor:
    """Self-attention within each sequence of a packed batch.

    Args:
        query, key, value: (N, H, C), packed as ``how.runs`` says.
        how: who sees whom.

    Returns:
        (N, H * C).
    """
    if is_unpadded(query, how):
        causal = (-1, 0) if how.causal else (-1, -1)
        starts, longest = how.starts(query.device), how.longest
        attended = varlen_attn(query, key, value, starts, starts, longest, longest, window_size=causal)
        assert isinstance(attended, Tensor)
        return attended.flatten(1)
    outputs, start = [], 0
    for count, length in how.runs:
        end = start + count * length
        q, k, v = (
            x[start:end].view(count, length, x.shape[1], x.shape[2]).transpose(1, 2)
            for x in (query, key, value)
        )
        out = attend_dense(q, k, v, how.mask(start, count, length), how.drop, how.causal)
        outputs.append(out.transpose(1, 2).reshape(end - start, -1))
        start = end
    assert start == len(query), f"runs cover {start} of {len(query)} tokens"
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


def attend_dense(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, drop: float = 0.0, causal: bool = False
) -> Tensor:
    """Attention (B, H, T, C) of queries over keys and values (B, H, S, C) by the kernel that is fast here."""
    on_cpu_in_bf16 = q.dtype == torch.bfloat16 and q.device.type == "cpu"
    kernel = _products if on_cpu_in_bf16 else F.scaled_dot_product_attention
    return kernel(q, k, v, mask, drop, causal)


def is_unpadded(query: Any, how: Attention) -> bool:
    """Whether flash attention takes the packed batch (N, H, C) as it is, all lengths at once.

    Its kernels run on a GPU in 16 bits, with heads of at most 256 in multiples of 8, without a mask other than the
    causal one and without dropout. Everything else goes run by run.
    """
    fits = (
        query.dtype in (torch.bfloat16, torch.float16) and query.shape[-1] % 8 == 0 and query.shape[-1] <= 256
    )
    return bool(query.is_cuda and fits and how.sees is None and how.drop == 0)


def _products(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, drop: float, causal: bool) -> Tensor:
    """Attention as two matrix products: on a CPU in bfloat16 torch's fused kernel took two to three times as long
    (forward and backward, lengths 64 to 256), since its inner loops do not reach the bfloat16 instructions.
    """  # noqa: D205
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return dropout(torch.softmax(scores, -1), drop, drop > 0) @ v


class Layer(nn.Module):
    """One transformer layer on packed tokens (N, D)."""

    def __init__(self, cfg: EncoderConfig) -> None:
        super().__init__()
        self.heads, self.dropout, self.pre_norm = cfg.heads, cfg.dropout, cfg.pre_norm
        self.compiled = cfg.compile
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim)
        self.out = nn.Linear(cfg.dim, cfg.dim)
        self.attn_norm = nn.LayerNorm(cfg.dim, cfg.norm_eps)
        self.up = nn.Linear(cfg.dim, cfg.ffn_dim)
        self.down = nn.Linear(cfg.ffn_dim, cfg.dim)
        self.ffn_norm = nn.LayerNorm(cfg.dim, cfg.norm_eps)
        self.adapters = nn.ModuleDict()

    def forward(self, x: Tensor, how: Attention) -> Tensor:
        """(N, D) -> (N, D)."""
        before, after = _compiled() if self.compiled else (projections, _after_attention)
        qkv = before(self, x)
        return after(self, x, attend(qkv[:, 0], qkv[:, 1], qkv[:, 2], how))


def projections(layer: Layer, x: Tensor) -> Tensor:
    """(N, D) -> queries, keys and values (N, 3, H, C)."""
    qkv: Tensor = layer.qkv(layer.attn_norm(x) if layer.pre_norm else x)
    return qkv.view(len(x), 3, layer.heads, -1)


def _after_attention(layer: Layer, x: Tensor, attended: Tensor) -> Tensor:
    """The layer's input and what was attended to, both (N, D), -> its output (N, D)."""
    x = x + dropout(layer.out(attended), layer.dropout, layer.training)
    x = x if layer.pre_norm else layer.attn_norm(x)
    hidden = layer.up(layer.ffn_norm(x) if layer.pre_norm else x)
    made = dropout(layer.down(F.gelu(hidden)), layer.dropout, layer.training)
    for adapter in layer.adapters.values():
        made = made + adapter(x + made if layer.pre_norm else layer.ffn_norm(x + made))
    x = x + made
    return x if layer.pre_norm else layer.ffn_norm(x)


@cache
def _compiled() -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """The two halves of a layer, compiled for any number of tokens.

    Attention stays outside: its blocks are other ones in every batch, and each would be compiled anew.
    """
    both = (
        torch.compile(half, fullgraph=True, dynamic=True, backend=COMPILER)
        for half in (projections, _after_attention)
    )
    return next(both), next(both)


class Encoder(nn.Module):
    """Embeddings and layers on packed batches.

    Args:
        cfg: the shape.
        vocab_size: number of token ids.
        num_langs: number of language embeddings, 0 for none.
    """

    def __init__(self, cfg: EncoderConfig, vocab_size: int, num_langs: int = 0) -> None:
        super().__init__()
        assert cfg.dim % cfg.heads == 0, f"dim {cfg.dim} is no multiple of {cfg.heads} heads"
        self.cfg = cfg
        self.tokens = nn.Embedding(vocab_size, cfg.dim, padding_idx=PAD)
        self.positions = nn.Embedding(cfg.max_positions, cfg.dim)
        self.langs = nn.Embedding(num_langs, cfg.dim) if num_langs else None
        self.segments = nn.Embedding(2, cfg.dim) if cfg.segment_embeddings else None
        self.norm = nn.LayerNorm(cfg.dim, cfg.norm_eps)
        self.layers = nn.ModuleList(Layer(cfg) for _ in range(cfg.layers))
        self.final_norm = nn.LayerNorm(cfg.dim, cfg.norm_eps) if cfg.pre_norm else nn.Identity()
        self.apply(initialise)
        self.invertible = adapters.Invertible(cfg.dim) if cfg.invertible else None
        adapters.add(self, adapters.LANG, cfg.lang_adapter)
        adapters.add(self, adapters.TASK, cfg.task_adapter)

    def forward(
        self, src_tokens: Tensor, positions: Tensor, runs: Runs, langs: Tensor | None = None,
        causal: bool = False, sees: Tensor | None = None, shows: Tensor | None = None, layer: int | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Hidden states of a packed batch.

        Args:
            src_tokens: (N,) int64.
            positions: (N,) int64, from 0 in each sequence.
            runs, causal, sees, shows: see `Attention`.
            langs: (N,) int64 language indices, where the model has language embeddings.
            layer: return the states after this many layers instead of all.
            segments: (N,) int64, 0 in the first text and 1 in the second, for a model with segment embeddings; None
                where there is one text only.

        Returns:
            (N, D).
        """
        how = Attention(runs, causal, sees, shows, self.cfg.attention_dropout if self.training else 0.0)
        return self.contextualise(self.tokens(src_tokens), positions, how, langs, layer, segments)

    def contextualise(
        self,
        words: Tensor,
        positions: Tensor,
        how: Attention,
        langs: Tensor | None = None,
        layer: int | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """Hidden states (N, D) of word vectors ``words`` (N, D); the other arguments as in `forward`."""
        for x in self.states(words, positions, how, langs, layer, segments):  # noqa: B007 - the last one counts
            pass
        out: Tensor = self.final_norm(x)
        return out

    def states(
        self,
        words: Tensor,
        positions: Tensor,
        how: Attention,
        langs: Tensor | None = None,
        layer: int | None = None,
        segments: Tensor | None = None,
    ) -> Iterator[Tensor]:
        """What the first layer reads and then what each layer makes, (N, D), before the final norm."""
        x = scaled(words, self.cfg) + self.positions(positions)
        if self.langs is not None:
            assert langs is not None, "the model has language embeddings but the batch names no languages"
            x = x + self.langs(langs)
        if self.segments is not None:
            x = x + (self.segments.weight[0] if segments is None else self.segments(segments))
        x = dropout(self.norm(x), self.cfg.dropout, self.training)
        x = x if self.invertible is None else self.invertible(x)
        yield x
        again = self.cfg.checkpoint_activations and self.training and torch.is_grad_enabled()
        for block in self.layers[:layer]:
            # Dropout draws from torch's state, which is put back for the second time.
            x = checkpoint(block, x, how, use_reentrant=False) if again else block(x, how)
            yield x


def scaled(words: Tensor, cfg: EncoderConfig) -> Tensor:
    """Word vectors as they are added to the positions."""
    return words * math.sqrt(cfg.dim) if cfg.scale_embeddings else words


class LMHead(nn.Module):
    """Dense, gelu, layer norm, then the tied embeddings: RoBERTa's head.

    Args:
        dim: of the states.
        weight: the embedding matrix, (V, D).
        eps: of the layer norm.
        invertible: of the encoder, undone before the embeddings; it stays the encoder's own.
    """

    _invertible: adapters.Invertible | None

    def __init__(
        self, dim: int, weight: Tensor, eps: float = 1e-5, invertible: adapters.Invertible | None = None
    ) -> None:
        super().__init__()
        self.__dict__["_invertible"] = invertible  # not registered: its weights are in the model once
        self.dense = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim, eps)
        self.weight = weight
        self.bias = nn.Parameter(torch.zeros(len(weight)))
        self.dense.apply(initialise)

    def transform(self, hidden: Tensor) -> Tensor:
        """(M, D) -> (M, D), what the tied embeddings are multiplied with."""
        out: Tensor = self.norm(F.gelu(self.dense(hidden)))
        return out if self._invertible is None else self._invertible.inverse(out)

    def loss(self, hidden: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Sum and rows of the cross-entropy of ``target`` (M,) given ``hidden`` (M, D)."""
        return linear_cross_entropy(self.transform(hidden), self.weight, self.bias, target)

    def logits(self, hidden: Tensor) -> Tensor:
        """(M, D) -> (M, V); for inspection and export, training uses `loss`."""
        return F.linear(self.transform(hidden), self.weight, self.bias)


@register_model("xling_encoder", dataclass=EncoderConfig)
class EncoderModel(BaseFairseqModel):  # type: ignore[misc]
    """An encoder with its LM head, as fairseq's Trainer sees it."""

    def __init__(self, cfg: EncoderConfig, vocab_size: int, num_langs: int = 0) -> None:
        super().__init__()
        self.cfg = cfg
        self.encoder = Encoder(cfg, vocab_size, num_langs)
        words, invertible = self.encoder.tokens.weight, self.encoder.invertible
        self.lm_head = LMHead(cfg.dim, words, cfg.norm_eps, invertible)
        self.extras = nn.ModuleDict()

    @classmethod
    def build_model(cls, cfg: EncoderConfig, task: Any) -> EncoderModel:
        """Build the model for a task that has a ``dictionary`` and ``langs``."""
        model = cls(cfg, len(task.dictionary), len(task.langs) if cfg.lang_embeddings else 0)
        return model.to(working_dtype(cfg.precision))

    def forward(self, src_tokens: Tensor, positions: Tensor, runs: Runs, **kwargs: Any) -> Tensor:
        """Hidden states (N, D); see `Encoder.forward`."""
        out: Tensor = self.encoder(src_tokens, positions, runs, **kwargs)
        return out

    def max_positions(self) -> int:
        """Longest sequence, in tokens."""
        return int(self.cfg.max_positions)


def working_dtype(precision: str) -> torch.dtype:
    """The type of the working weights: ``fp32``, ``bf16``, or ``auto`` by what the machine multiplies fast.

    bf16 is taken on a GPU that has it and on a CPU with AMX or AVX512-BF16 instructions.
    """
    assert precision in ("auto", "fp32", "bf16"), f"precision {precision!r}: auto, fp32 or bf16"
    if precision != "auto":
        return torch.bfloat16 if precision == "bf16" else torch.float32
    if torch.cuda.is_available():
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
    fast = torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()
    return torch.bfloat16 if fast else torch.float32


def initialise(module: nn.Module) -> None:
    """BERT's normal(0, .02); embeddings alike, padding zero."""
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.02)
        nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
        if module.padding_idx is not None:
            nn.init.zeros_(module.weight[module.padding_idx])


def num_parameters(model: nn.Module) -> int:
    """Number of parameters, tied ones once."""
    return sum(math.prod(p.shape) for p in model.parameters())
