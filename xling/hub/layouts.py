"""Weight names of other programs: XLM-R, BERT and T5 in transformers, RoBERTa in fairseq, mBART in both.

All are BERT's encoder with other names. Query, key and value are separate projections there and a single one
here, and position tables start at another row. mBART and T5 have a decoder of the same parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from xling.core.errors import UserError

if TYPE_CHECKING:
    from jaxtyping import Float, Float32, Shaped

Take = Callable[[str], Tensor]


@dataclass(frozen=True)
class Layout:
    """Names of the parts of an encoder or a decoder.

    Attributes:
        tokens, positions, norm: names of the embeddings; the last two are empty if there are none.
        layer: prefix of layer ``{}``.
        query, key, value, out, attn_norm, up, down, ffn_norm: names within a layer; ``up`` may be several,
            the gate first.
        cross: attention to the source, with the same names as ours; empty in an encoder.
        final_norm: norm after the layers, if norms come before the blocks.
        dense, head_norm, bias: names of the LM head, empty if there is none.
        types: segment embeddings, empty if there are none.
        relative: biases of relative positions, empty if there are none; with ``{}`` one set in each layer.
        first_position: row of the position table that position 0 uses.
        kinds: kinds of weights of a part.
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
        """Map each part of an xling layer to the parts of the other library's layer that it is composed of."""
        up = (self.up,) if isinstance(self.up, str) else self.up
        named = {
            "qkv": (self.query, self.key, self.value),
            "out": (self.out,),
            "attn_norm": (self.attn_norm,),
        }
        named |= {"up": up, "down": (self.down,), "ffn_norm": (self.ffn_norm,)}
        cross = dict(self.cross)
        if cross:
            named["cross_kv"] = cross.pop("cross_key"), cross.pop("cross_value")
        return named | {name: (theirs,) for name, theirs in cross.items()}


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


_CROSS = {
    "cross_query": "encoder_attn.q_proj",
    "cross_key": "encoder_attn.k_proj",
    "cross_value": "encoder_attn.v_proj",
    "cross_out": "encoder_attn.out_proj",
    "cross_norm": "encoder_attn_layer_norm",
}


def bart(norm: bool = True, final_norm: bool = True, learnt: bool = True) -> dict[str, Layout]:
    """Return the two sides of mBART in fairseq; transformers has the same names after ``model.``.

    Args:
        norm: a norm of the embeddings, which M2M-100 lacks.
        final_norm: norms after the layers, which BART lacks.
        learnt: learnt positions, which M2M-100 lacks.
    """
    return {
        side: Layout(
            tokens=f"{side}.embed_tokens",
            positions=f"{side}.embed_positions" if learnt else "",
            norm=f"{side}.layernorm_embedding" if norm else "",
            layer=f"{side}.layers.{{}}.",
            final_norm=f"{side}.layer_norm" if final_norm else "",
            first_position=2,
            cross=_CROSS if side == "decoder" else {},
            **_FAIRSEQ_LAYER,
        )
        for side in ("encoder", "decoder")
    }


MBART = bart()


def t5(gated: bool, layer_biases: bool = False) -> dict[str, Layout]:
    """Return the two sides of T5 and mT5 in transformers; umT5 has biases of positions in every layer."""
    cross = {
        name: f"1.EncDecAttention.{theirs}"
        for name, theirs in zip(("cross_query", "cross_key", "cross_value", "cross_out"), "qkvo", strict=True)
    }
    layouts = {}
    for side, last in (("encoder", 1), ("decoder", 2)):
        dense = f"{last}.DenseReluDense."
        layouts[side] = Layout(
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
            relative=f"{side}.block.{'{}' if layer_biases else 0}.layer.0.SelfAttention.relative_attention_bias",
            kinds=("weight",),
        )
    return layouts


SEGMENTS = "encoder.segments.weight"


def num_layers(state: Mapping[str, Shaped[Tensor, " ..."]], side: str = "encoder") -> int:
    """Count the layers of a side in our weights."""
    return 1 + max(
        (int(name.split(".")[2]) for name in state if name.startswith(f"{side}.layers.")), default=-1
    )


def outwards(
    state: Mapping[str, Shaped[Tensor, " ..."]], layout: Layout
) -> dict[str, Float32[Tensor, " ..."]]:
    """Rename the weights of our encoder and LM head to the names of ``layout``.

    Args:
        state: names as in `xling.models.network.encoder.EncoderModel`; the LM head may be missing.
        layout: the names to use.

    Returns:
        Contiguous float32 tensors; if only the layout has segment embeddings, they are one row of zeros.
    """
    renamed = {f"{layout.tokens}.weight": state["encoder.tokens.weight"]} | trunk(state, "encoder", layout)
    if layout.types:
        positions = state["encoder.positions.weight"]
        none = positions.new_zeros(1, positions.shape[1])
        renamed[f"{layout.types}.weight"] = state.get(SEGMENTS, none)
    if "lm_head.bias" in state:
        for kind in layout.kinds:
            renamed[f"{layout.dense}.{kind}"] = state[f"lm_head.dense.{kind}"]
            renamed[f"{layout.head_norm}.{kind}"] = state[f"lm_head.norm.{kind}"]
        renamed[layout.bias] = state["lm_head.bias"]
    return plain(renamed)


def plain(state: Mapping[str, Shaped[Tensor, " ..."]]) -> dict[str, Float32[Tensor, " ..."]]:
    """Copy each tensor to float32 with its own memory."""
    return {name: tensor.detach().float().contiguous().clone() for name, tensor in state.items()}


def trunk(
    state: Mapping[str, Shaped[Tensor, " ..."]], side: str, layout: Layout
) -> dict[str, Shaped[Tensor, " ..."]]:
    """Rename positions, norms and layers of one of our sides to the names of ``layout``."""
    renamed = {}
    if layout.positions:
        positions = state[f"{side}.positions.weight"]
        before = positions.new_zeros(layout.first_position, positions.shape[1])
        renamed[f"{layout.positions}.weight"] = torch.cat([before, positions])
    if layout.relative:
        sets = num_layers(state, side) if "{}" in layout.relative else 1
        tables = state[f"{side}.relative.table.weight"].chunk(sets, 1)
        renamed |= {f"{layout.relative.format(i)}.weight": table for i, table in enumerate(tables)}
    for kind in layout.kinds:
        if layout.norm:
            renamed[f"{layout.norm}.{kind}"] = state[f"{side}.norm.{kind}"]
        if layout.final_norm:
            renamed[f"{layout.final_norm}.{kind}"] = state[f"{side}.final_norm.{kind}"]
        for index in range(num_layers(state, side)):
            here, there = f"{side}.layers.{index}.", layout.layer.format(index)
            for name, theirs in layout.parts().items():
                pieces = state[f"{here}{name}.{kind}"].chunk(len(theirs))
                renamed |= {f"{there}{n}.{kind}": piece for n, piece in zip(theirs, pieces, strict=True)}
    return renamed


def inwards(
    state: Mapping[str, Shaped[Tensor, " ..."]], layout: Layout, what: str
) -> dict[str, Float32[Tensor, " ..."]]:
    """Rename weights of ``layout`` to our names, float32.

    A single segment embedding is added to the positions, since every token has it. A missing LM head is
    replaced by the identity: its scores are meaningless without training, but the encoder is complete.

    Raises:
        UserError: a weight of the layout is missing; ``what`` names the checkpoint.
    """
    take = taker(state, layout, what)
    renamed = {"encoder.tokens.weight": take(f"{layout.tokens}.weight").clone()}
    renamed |= read_trunk(state, take, "encoder", layout)
    if layout.types and f"{layout.types}.weight" in state:
        types = take(f"{layout.types}.weight")
        if len(types) == 1:
            renamed["encoder.positions.weight"] += types
        else:
            renamed[SEGMENTS] = types.clone()
    if layout.bias not in state:
        return renamed | no_head(renamed["encoder.tokens.weight"])
    for kind in layout.kinds:
        renamed[f"lm_head.dense.{kind}"] = take(f"{layout.dense}.{kind}")
        renamed[f"lm_head.norm.{kind}"] = take(f"{layout.head_norm}.{kind}")
    return renamed | {"lm_head.bias": take(layout.bias)}


def no_head(tokens: Float[Tensor, "vocab dim"]) -> dict[str, Float[Tensor, " ..."]]:
    """Return an untrained identity LM head over the embeddings (V, D) for a model without one."""
    size, width = tokens.shape
    head = {"lm_head.bias": torch.zeros(size)}
    head |= {"lm_head.dense.weight": torch.eye(width), "lm_head.dense.bias": torch.zeros(width)}
    return head | {"lm_head.norm.weight": torch.ones(width), "lm_head.norm.bias": torch.zeros(width)}


def taker(state: Mapping[str, Shaped[Tensor, " ..."]], layout: Layout, what: str) -> Take:
    """Return a function that returns the weights of ``state`` by name, float32, and raises if one is missing."""

    def take(name: str) -> Float32[Tensor, " ..."]:
        if name not in state:
            raise UserError(
                f"{what} has no weight {name}",
                f"all weights of a model with {layout.tokens}",
                "check that this is a complete language model of that type",
            )
        return state[name].detach().float()

    return take


def read_trunk(
    state: Mapping[str, Shaped[Tensor, " ..."]], take: Take, side: str, layout: Layout
) -> dict[str, Float[Tensor, " ..."]]:
    """Rename positions, norms and layers of ``layout`` to our names."""
    renamed, depth = {}, _depth(state, layout)
    if layout.positions:
        positions = take(f"{layout.positions}.weight")
        renamed[f"{side}.positions.weight"] = positions[layout.first_position :].clone()
    if layout.relative:
        sets = range(depth if "{}" in layout.relative else 1)
        tables = [take(f"{layout.relative.format(i)}.weight") for i in sets]
        renamed[f"{side}.relative.table.weight"] = torch.cat(tables, 1)
    for kind in layout.kinds:
        if layout.norm:
            renamed[f"{side}.norm.{kind}"] = take(f"{layout.norm}.{kind}")
        if layout.final_norm:
            renamed[f"{side}.final_norm.{kind}"] = take(f"{layout.final_norm}.{kind}")
        for index in range(depth):
            here, there = f"{side}.layers.{index}.", layout.layer.format(index)
            for name, theirs in layout.parts().items():
                renamed[f"{here}{name}.{kind}"] = torch.cat([take(f"{there}{n}.{kind}") for n in theirs])
    return renamed


def _depth(state: Mapping[str, Tensor], layout: Layout) -> int:
    prefix = layout.layer.split("{}")[0]
    numbers = [name.removeprefix(prefix).split(".")[0] for name in state if name.startswith(prefix)]
    return 1 + max((int(x) for x in numbers if x.isdecimal()), default=-1)
