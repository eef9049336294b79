"""Names of the weights elsewhere: of XLM-R, BERT and T5 in transformers, of RoBERTa in fairseq, of mBART in both.

All are the encoder of BERT with another name on each part, one projection each for query, key and value where
ours is a single one, and position tables that start at another row; mBART and T5 have a decoder of the same parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from xling.core.errors import UserError
from xling.models.shape import Shape, names

if TYPE_CHECKING:
    from jaxtyping import Float, Float32, Shaped

Take = Callable[[str], Tensor]


@dataclass(frozen=True)
class Layout:
    """Where each part of an encoder or a decoder stands.

    Attributes:
        tokens, positions, norm: of the embeddings; the last two empty where there are none.
        layer: prefix of layer ``{}``.
        query, key, value, out, attn_norm, up, down, ffn_norm: within a layer; ``up`` may be several, the gate first.
        cross: of the attention to the source, the same names as ours; empty in an encoder.
        final_norm: behind the layers, where norms stand before the blocks.
        dense, head_norm, bias: of the LM head, empty where there is none.
        types: segment embeddings, empty where there are none.
        relative: biases of relative positions, empty where there are none.
        first_position: row of the position table that position 0 reads.
        kinds: of the weights of a part.
    """

    tokens: str
    positions: str
    norm: str
    layer: str
    query: str
    key: str
    value: str
    out: str
    attn_norm: str
    up: str | tuple[str, ...]
    down: str
    ffn_norm: str
    cross: Mapping[str, str] = field(default_factory=dict)
    final_norm: str = ""
    dense: str = ""
    head_norm: str = ""
    bias: str = ""
    types: str = ""
    relative: str = ""
    first_position: int = 0
    kinds: tuple[str, ...] = ("weight", "bias")

    def parts(self) -> dict[str, tuple[str, ...]]:
        """Our parts of a layer, each with those of theirs that it is put together from."""
        up = (self.up,) if isinstance(self.up, str) else self.up
        made = {"qkv": (self.query, self.key, self.value), "out": (self.out,), "attn_norm": (self.attn_norm,)}
        made |= {"up": up, "down": (self.down,), "ffn_norm": (self.ffn_norm,)}
        cross = dict(self.cross)
        if cross:
            made["cross_kv"] = cross.pop("cross_key"), cross.pop("cross_value")
        return made | {name: (theirs,) for name, theirs in cross.items()}


_HF_LAYER: dict[str, Any] = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "out": "attention.output.dense",
    "attn_norm": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "ffn_norm": "output.LayerNorm",
}
_FAIRSEQ_LAYER: dict[str, Any] = {
    "query": "self_attn.q_proj",
    "key": "self_attn.k_proj",
    "value": "self_attn.v_proj",
    "out": "self_attn.out_proj",
    "attn_norm": "self_attn_layer_norm",
    "up": "fc1",
    "down": "fc2",
    "ffn_norm": "final_layer_norm",
}
XLMR = Layout(
    tokens="roberta.embeddings.word_embeddings",
    positions="roberta.embeddings.position_embeddings",
    norm="roberta.embeddings.LayerNorm",
    types="roberta.embeddings.token_type_embeddings",
    layer="roberta.encoder.layer.{}.",
    dense="lm_head.dense",
    head_norm="lm_head.layer_norm",
    bias="lm_head.bias",
    first_position=2,
    **_HF_LAYER,
)
BERT = Layout(
    tokens="bert.embeddings.word_embeddings",
    positions="bert.embeddings.position_embeddings",
    norm="bert.embeddings.LayerNorm",
    types="bert.embeddings.token_type_embeddings",
    layer="bert.encoder.layer.{}.",
    dense="cls.predictions.transform.dense",
    head_norm="cls.predictions.transform.LayerNorm",
    bias="cls.predictions.bias",
    **_HF_LAYER,
)
FAIRSEQ = Layout(
    tokens="encoder.sentence_encoder.embed_tokens",
    positions="encoder.sentence_encoder.embed_positions",
    norm="encoder.sentence_encoder.layernorm_embedding",
    layer="encoder.sentence_encoder.layers.{}.",
    dense="encoder.lm_head.dense",
    head_norm="encoder.lm_head.layer_norm",
    bias="encoder.lm_head.bias",
    first_position=2,
    **_FAIRSEQ_LAYER,
)


def _mbart(side: str, **more: Any) -> Layout:
    return Layout(
        tokens=f"{side}.embed_tokens",
        positions=f"{side}.embed_positions",
        norm=f"{side}.layernorm_embedding",
        layer=f"{side}.layers.{{}}.",
        final_norm=f"{side}.layer_norm",
        first_position=2,
        **_FAIRSEQ_LAYER,
        **more,
    )


_CROSS = {
    "cross_query": "encoder_attn.q_proj",
    "cross_key": "encoder_attn.k_proj",
    "cross_value": "encoder_attn.v_proj",
    "cross_out": "encoder_attn.out_proj",
    "cross_norm": "encoder_attn_layer_norm",
}
MBART = {"encoder": _mbart("encoder"), "decoder": _mbart("decoder", cross=_CROSS)}
"""The two sides of mBART in fairseq; transformers has the same names behind ``model.``."""


def t5(gated: bool) -> dict[str, Layout]:
    """The two sides of T5 and mT5 in transformers."""
    cross = {
        name: f"1.EncDecAttention.{theirs}"
        for name, theirs in zip(("cross_query", "cross_key", "cross_value", "cross_out"), "qkvo", strict=True)
    }
    made = {}
    for side, last in (("encoder", 1), ("decoder", 2)):
        dense = f"{last}.DenseReluDense."
        made[side] = Layout(
            tokens="shared",
            positions="",
            norm="",
            layer=f"{side}.block.{{}}.layer.",
            query="0.SelfAttention.q",
            key="0.SelfAttention.k",
            value="0.SelfAttention.v",
            out="0.SelfAttention.o",
            attn_norm="0.layer_norm",
            up=(f"{dense}wi_0", f"{dense}wi_1") if gated else f"{dense}wi",
            down=f"{dense}wo",
            ffn_norm=f"{last}.layer_norm",
            cross=cross | {"cross_norm": "1.layer_norm"} if side == "decoder" else {},
            final_norm=f"{side}.final_layer_norm",
            relative=f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias",
            kinds=("weight",),
        )
    return made


SEGMENTS = "encoder.segments.weight"
CLASSIC = frozenset({
    "layers", "dim", "heads", "ffn_dim", "max_positions", "norm_eps", "pre_norm", "decoder_layers", "plain_head",
    "unbiased_head", "untied_head", "source_lang", "lang_embeddings", "segment_embeddings", "scale_embeddings",
    "lang_adapter", "task_adapter", "invertible",
})  # fmt: skip
"""Settings that the exports to XLM-R, mBART and fairseq write or refuse in words of their own."""


def unusual(
    shape: Any, spoken: frozenset[str] = CLASSIC, wanted: Mapping[str, Any] | None = None
) -> list[str]:
    """What a model has that a format cannot say, by the names of our settings.

    Args:
        shape: settings of the model, see `xling.models.shape.Shape`.
        spoken: settings that the format has, whatever their value. A setting that is added later is in no format.
        wanted: values that the format means; of the others it means our defaults.
    """
    usual = asdict(Shape()) | dict(wanted or {})
    return [
        f"model.{name}={str(getattr(shape, name)).lower()}"
        for name in names(own=False)
        if name not in spoken and getattr(shape, name, usual[name]) != usual[name]
    ]


def num_layers(state: Mapping[str, Shaped[Tensor, " ..."]], side: str = "encoder") -> int:
    """Layers of a side in a state of ours."""
    return 1 + max(
        (int(name.split(".")[2]) for name in state if name.startswith(f"{side}.layers.")), default=-1
    )


def outwards(
    state: Mapping[str, Shaped[Tensor, " ..."]], layout: Layout
) -> dict[str, Float32[Tensor, " ..."]]:
    """The weights of an encoder of ours, and of its LM head, under the names of ``layout``.

    Args:
        state: names as in `xling.models.encoder.EncoderModel`; the LM head may be missing.
        layout: whose names.

    Returns:
        Contiguous float32 tensors; segment embeddings, where the layout has them and the model has not, are one row
        of zeros.
    """
    made = {f"{layout.tokens}.weight": state["encoder.tokens.weight"]} | trunk(state, "encoder", layout)
    if layout.types:
        positions = state["encoder.positions.weight"]
        none = positions.new_zeros(1, positions.shape[1])
        made[f"{layout.types}.weight"] = state.get(SEGMENTS, none)
    if "lm_head.bias" in state:
        for kind in layout.kinds:
            made[f"{layout.dense}.{kind}"] = state[f"lm_head.dense.{kind}"]
            made[f"{layout.head_norm}.{kind}"] = state[f"lm_head.norm.{kind}"]
        made[layout.bias] = state["lm_head.bias"]
    return plain(made)


def plain(state: Mapping[str, Shaped[Tensor, " ..."]]) -> dict[str, Float32[Tensor, " ..."]]:
    """Each tensor as float32 with memory of its own."""
    return {name: tensor.detach().float().contiguous().clone() for name, tensor in state.items()}


def trunk(
    state: Mapping[str, Shaped[Tensor, " ..."]], side: str, layout: Layout
) -> dict[str, Shaped[Tensor, " ..."]]:
    """Positions, norms and layers of a side of ours under the names of ``layout``."""
    made = {}
    if layout.positions:
        positions = state[f"{side}.positions.weight"]
        before = positions.new_zeros(layout.first_position, positions.shape[1])
        made[f"{layout.positions}.weight"] = torch.cat([before, positions])
    if layout.relative:
        made[f"{layout.relative}.weight"] = state[f"{side}.relative.table.weight"]
    for kind in layout.kinds:
        if layout.norm:
            made[f"{layout.norm}.{kind}"] = state[f"{side}.norm.{kind}"]
        if layout.final_norm:
            made[f"{layout.final_norm}.{kind}"] = state[f"{side}.final_norm.{kind}"]
        for index in range(num_layers(state, side)):
            here, there = f"{side}.layers.{index}.", layout.layer.format(index)
            for name, theirs in layout.parts().items():
                pieces = state[f"{here}{name}.{kind}"].chunk(len(theirs))
                made |= {f"{there}{n}.{kind}": piece for n, piece in zip(theirs, pieces, strict=True)}
    return made


def inwards(
    state: Mapping[str, Shaped[Tensor, " ..."]], layout: Layout, what: str
) -> dict[str, Float32[Tensor, " ..."]]:
    """The weights of ``layout`` under our names, float32.

    A single segment embedding becomes part of the positions, for every token has it. A missing LM head is made of the
    identity: without training its scores mean nothing, the encoder is whole.

    Raises:
        UserError: a weight that the layout has is missing; ``what`` names the checkpoint.
    """
    take = taker(state, layout, what)
    made = {"encoder.tokens.weight": take(f"{layout.tokens}.weight").clone()}
    made |= read_trunk(state, take, "encoder", layout)
    if layout.types and f"{layout.types}.weight" in state:
        types = take(f"{layout.types}.weight")
        if len(types) == 1:
            made["encoder.positions.weight"] += types
        else:
            made[SEGMENTS] = types.clone()
    if layout.bias not in state:
        return made | no_head(made["encoder.tokens.weight"])
    for kind in layout.kinds:
        made[f"lm_head.dense.{kind}"] = take(f"{layout.dense}.{kind}")
        made[f"lm_head.norm.{kind}"] = take(f"{layout.head_norm}.{kind}")
    return made | {"lm_head.bias": take(layout.bias)}


def no_head(tokens: Float[Tensor, "vocab dim"]) -> dict[str, Float[Tensor, " ..."]]:
    """An LM head over the embeddings (V, D) where a model has none: the identity, without training."""
    size, width = tokens.shape
    made = {"lm_head.bias": torch.zeros(size)}
    made |= {"lm_head.dense.weight": torch.eye(width), "lm_head.dense.bias": torch.zeros(width)}
    return made | {"lm_head.norm.weight": torch.ones(width), "lm_head.norm.bias": torch.zeros(width)}


def taker(state: Mapping[str, Shaped[Tensor, " ..."]], layout: Layout, what: str) -> Take:
    """A function that gives the weights of ``state`` by name, float32, and refuses to go without one."""

    def take(name: str) -> Tensor:
        if name not in state:
            raise UserError(
                f"{what} has no weight {name}",
                f"all weights of a model with {layout.tokens}",
                "check that this is a language model of that type, and the whole of it",
            )
        return state[name].detach().float()

    return take


def read_trunk(
    state: Mapping[str, Shaped[Tensor, " ..."]], take: Take, side: str, layout: Layout
) -> dict[str, Float[Tensor, " ..."]]:
    """Positions, norms and layers of ``layout`` under our names."""
    made = {}
    if layout.positions:
        positions = take(f"{layout.positions}.weight")
        made[f"{side}.positions.weight"] = positions[layout.first_position :].clone()
    if layout.relative:
        made[f"{side}.relative.table.weight"] = take(f"{layout.relative}.weight")
    depth = _depth(state, layout)
    for kind in layout.kinds:
        if layout.norm:
            made[f"{side}.norm.{kind}"] = take(f"{layout.norm}.{kind}")
        if layout.final_norm:
            made[f"{side}.final_norm.{kind}"] = take(f"{layout.final_norm}.{kind}")
        for index in range(depth):
            here, there = f"{side}.layers.{index}.", layout.layer.format(index)
            for name, theirs in layout.parts().items():
                made[f"{here}{name}.{kind}"] = torch.cat([take(f"{there}{n}.{kind}") for n in theirs])
    return made


def _depth(state: Mapping[str, Tensor], layout: Layout) -> int:
    prefix = layout.layer.split("{}")[0]
    found = [name.removeprefix(prefix).split(".")[0] for name in state if name.startswith(prefix)]
    return 1 + max((int(x) for x in found if x.isdecimal()), default=-1)
