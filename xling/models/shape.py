"""Settings of a model: the only place that defines the name, type, default and range of each.

A setting can also be defined in a separate file, see `xling.models.parts`. A recipe reads `ModelConfig`
without torch. The classes for fairseq and the model files are derived from it
(`xling.models.network.encoder.EncoderConfig`, `xling.models.network.seq2seq.Seq2SeqConfig`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, field, fields, make_dataclass
from typing import TYPE_CHECKING, Any, Literal

from xling.core.errors import UserError
from xling.core.settings import values
from xling.core.settings.values import COUNT, POSITIVE, SHARE, Range
from xling.models import parts
from xling.models.model_setting import DECODER, ENCODER, Side, setting
from xling.models.parts import PARTS

GLOBAL_ATTENTION = "global"
_PATTERN = re.compile(r"local:(\d+)/global:(\d+)")


def windows_of(attention: str, layers: int) -> list[int]:
    """Return how many tokens each layer sees to either side, 0 for all.

    Args:
        attention: ``global``, or ``local:W/global:K``: every K-th layer from the first sees all, the others W
            / 2 tokens to either side.
        layers: number of layers of the model.

    Raises:
        UserError: it is neither.

    Example:
        >>> windows_of("local:128/global:3", 4)
        [0, 64, 64, 0]
    """
    if attention == GLOBAL_ATTENTION:
        return [0] * layers
    match = _PATTERN.fullmatch(attention)
    width, every = (int(n) for n in match.groups()) if match else (0, 0)
    if width < 2 or width % 2 or every < 1:
        raise UserError(
            f"model.attention={attention}",
            "global, or local:W/global:K with an even W, for example local:128/global:3",
        )
    return [width // 2 if layer % every else 0 for layer in range(layers)]


def _width(none: str) -> Range:
    return Range(least=0, words=f"a width from 1, or 0 for {none}")


@dataclass(frozen=True)
class _Settings:
    """Shape of the model; the defaults are tiny.

    XLM-R base is layers=12, dim=768, heads=12, ffn_dim=3072, max_positions=512. T5 and mT5 differ by
    ``norm``, ``embedding_norm``, ``biases``, ``positions``, ``ffn`` and ``head_dim``.

    Attributes:
        layers: layers of the encoder.
        dim: size of a hidden state.
        heads: attention heads.
        ffn_dim: inner size of a feed-forward block.
        dropout, attention_dropout: dropout probabilities in training, of hidden states and of attention
            weights.
        max_positions: longest sequence in tokens.
        pre_norm: norms come before the blocks and at the end, instead of after the blocks.
        lang_embeddings: add a vector of its language to each token.
        segment_embeddings: add one of two vectors to each token, for the first or the second text (BERT);
            only without a decoder.
        precision: precision of the working weights, see `xling.models.network.encoder.working_dtype`.
        decoder_layers: layers of the decoder, 0 for as many as ``layers``; this and the next four only with a
            decoder.
        plain_head: the decoder's states are multiplied directly with the embeddings (mBART) instead of
            passing the dense layer of the encoder's LM head, which a decoder that starts from a pre-trained
            encoder needs.
        unbiased_head: no bias in the plain head, as in stock fairseq.
        untied_head: the plain head has its own matrix (T5 1.1, mT5).
        source_lang: a source ends with the token of its language; T5's do not.
        lang_first: a source begins with that token instead, and the decoder reads ``</s> [lang] y`` and predicts
            ``[lang] y </s>`` (mBART-50, M2M-100, NLLB), not ``[lang] y``.
        checkpoint_activations: keep only the input of each layer and recompute the rest in the backward pass.
        lang_adapter: width of an adapter in every layer, 0 for none, see `xling.models.network.adapters`; only
            without a decoder, like ``invertible``.
        invertible: an adapter on the word vectors.
        scale_embeddings: multiply word vectors by the square root of ``dim`` (Vaswani et al. 2017, section
            3.4).
        norm_eps: epsilon that norms add to the variance, 1e-12 in BERT.
        norm: ``rms`` neither centres nor shifts (T5), ``unshifted`` only centres (ModernBERT).
        embedding_norm: a norm on the embeddings.
        biases: biases in the matrices of layers.
        positions: a learnt vector for each position, a fixed one of sines and cosines (M2M-100), biases by
            distance (T5, see `xling.models.network.positions.RelativeBiases`), or rotation of queries and keys (see
            `xling.models.network.rope`). A decoder of a rotary encoder has learnt vectors.
        layer_biases: every layer has its own biases of ``positions=relative`` (umT5), else all share one set.
        ffn: activation between the two matrices of a feed-forward block, or of its gate (mT5, T5 1.1;
            ``geglu`` in ModernBERT, ``swiglu``).
        head_dim: size of a head, 0 for ``dim / heads``.
        attention: attention of the encoder: ``global``, or ``local:W/global:K``, see
            `windows_of`.
        local_theta, global_theta: bases of ``positions=rope`` in layers with a window and in the others.
        qk_norm: norms on every query and key (Dehghani et al. 2023).
        first_norm: a norm before the attention of the first layer; ModernBERT has none.
        head_biases: biases in the dense layer and the norm of the LM head.
        attention_out_dropout: dropout after the attention; -1 means the value of ``dropout``.
        init: initialisation of fresh weights; ``megatron`` divides the weights of residual outputs by the
            square root of twice the layers.
    """

    layers: int = setting(4, COUNT)
    dim: int = setting(256, COUNT)
    heads: int = setting(4, COUNT, same=True)
    ffn_dim: int = setting(1024, COUNT)
    dropout: float = setting(0.1, SHARE, own=True)
    attention_dropout: float = setting(0.0, SHARE, own=True)
    max_positions: int = setting(512, COUNT)
    pre_norm: bool = setting(False, same=True)
    lang_embeddings: bool = setting(False)
    segment_embeddings: bool = setting(False, only=ENCODER)
    precision: Literal["auto", "fp32", "bf16"] = setting("auto", own=True)
    decoder_layers: int = setting(
        0, Range(least=0, words="a number from 1, or 0 for as many as layers"), only=DECODER
    )
    plain_head: bool = setting(False, only=DECODER, same=True)
    unbiased_head: bool = setting(False, only=DECODER)
    checkpoint_activations: bool = setting(False, own=True)
    lang_adapter: int = setting(0, _width("none"), only=ENCODER)
    invertible: bool = setting(False, only=ENCODER)
    scale_embeddings: bool = setting(False, same=True)
    norm_eps: float = setting(1e-5, POSITIVE, same=True)
    norm: Literal["layer", "rms", "unshifted"] = setting("layer", same=True)
    embedding_norm: bool = setting(True, same=True)
    biases: bool = setting(True, same=True)
    positions: Literal["learnt", "sinusoidal", "relative", "rope"] = setting("learnt", same=True)
    layer_biases: bool = setting(False, same=True)
    ffn: Literal["gelu", "relu", "gated_gelu", "geglu", "swiglu"] = setting("gelu", same=True)
    head_dim: int = setting(0, _width("dim / heads"))
    untied_head: bool = setting(False, only=DECODER, same=True)
    source_lang: bool = setting(True, only=DECODER, same=True)
    lang_first: bool = setting(False, only=DECODER, same=True)
    attention: str = setting(GLOBAL_ATTENTION, same=True)
    local_theta: float = setting(10_000.0, POSITIVE)
    global_theta: float = setting(160_000.0, POSITIVE)
    qk_norm: bool = setting(False, same=True)
    first_norm: bool = setting(True, same=True)
    head_biases: bool = setting(True, same=True)
    attention_out_dropout: float = setting(
        -1.0, Range(least=-1, below=1, words="a share from 0, below 1, or -1 for dropout"), own=True
    )
    init: Literal["bert", "megatron"] = setting("bert", own=True)

    def __post_init__(self) -> None:
        """Reject settings without a valid model.

        Raises:
            UserError: a setting out of its range, or two that do not fit together.
        """
        values.check(self, "model.")
        if not self.head_dim and self.dim % self.heads:
            raise UserError(f"model.dim={self.dim} with model.heads={self.heads}", "a multiple of the heads")
        for name in ("unbiased_head", "untied_head"):
            if getattr(self, name) and not self.plain_head:
                raise UserError(f"model.{name}=true with model.plain_head=false", "both, or neither")
        if self.lang_first and not self.source_lang:
            raise UserError("model.lang_first=true with model.source_lang=false", "model.source_lang=true")
        if self.layer_biases and self.positions != "relative":
            raise UserError(f"model.layer_biases=true with model.positions={self.positions}", "relative")
        if self.positions == "sinusoidal" and self.dim % 2:
            raise UserError(f"model.positions=sinusoidal with model.dim={self.dim}", "an even width")
        windowed = any(windows_of(self.attention, self.layers))
        if windowed and self.positions == "relative":
            raise UserError(
                f"model.attention={self.attention} with model.positions=relative", "rope or learnt"
            )
        if self.positions == "rope" and (self.head_dim or self.dim // self.heads) % 2:
            raise UserError(f"model.positions=rope with heads of {self.dim // self.heads}", "an even width")
        if self.invertible and self.dim % 2:
            raise UserError(f"model.invertible with model.dim={self.dim}", "an even width")
        parts.check(self)


def _with_parts(told: str) -> str:
    """The docstring of the settings, with the sentence of every part."""
    return (
        told.rstrip()
        + "".join(f"\n        {name}: {part.__doc__}" for name, part in PARTS.items())
        + "\n    "
    )


if TYPE_CHECKING:
    ModelConfig = _Settings
else:
    ModelConfig = make_dataclass(
        "ModelConfig",
        [(name, type(part.setting.default), part.setting) for name, part in PARTS.items()],
        bases=(_Settings,),
        namespace={"__module__": __name__, "__doc__": _with_parts(_Settings.__doc__ or "")},
        frozen=True,
    )


@dataclass(frozen=True)
class Shape(ModelConfig):
    """Configuration that a model file records: the settings of a recipe and those that fine-tuning adds.

    Attributes:
        task_adapter: width of a second adapter in every layer, 0 for none.
    """

    task_adapter: int = setting(0, _width("none"), only=ENCODER)


def names(
    cls: Any = Shape, *, only: Iterable[Side | None] = (None, ENCODER, DECODER), **wanted: bool
) -> list[str]:
    """Return the names of the settings of ``cls`` that belong to the sides ``only`` and match the other facts."""
    sides = (*only,)
    return [
        item.name
        for item in fields(cls)
        if item.metadata["only"] in sides and all(item.metadata[k] == v for k, v in wanted.items())
    ]


def plain(only: Iterable[Side | None]) -> list[tuple[str, type, Field[Any]]]:
    """Return name, plain type and default of the settings of the sides ``only``, for classes without choices."""
    taken = names(only=only)
    return [
        (item.name, type(item.default), field(default=item.default))
        for item in fields(Shape)
        if item.name in taken
    ]


def wrong_side(values: Mapping[str, Any], only: Side) -> str | None:
    """Return the first setting that only applies to the other side and is not at its default."""
    return next(
        (name for name in names(ModelConfig, only=[only]) if values[name] != getattr(DEFAULT, name)), None
    )


DEFAULT = ModelConfig()
GONE = frozenset({"compile"})
"""Settings in model files of earlier versions that changed nothing of what a model computes."""
