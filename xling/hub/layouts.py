"""Weight names of other programs: XLM-R, BERT and T5 in transformers, RoBERTa in fairseq, mBART in both.

All are BERT's encoder with other names. Query, key and value are separate projections there and a single one
here, and position tables start at another row. mBART and T5 have a decoder of the same parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from xling.array_types import Float, Float32, Shaped
from xling.core.errors import UserError

TakeWeight = Callable[[str], Tensor]


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

    def weight_names(self, side: str, num_layers: int) -> dict[str, tuple[str, ...]]:
        """Map each weight of our norms and layers on a side to those of the other library that it is composed of."""
        parts: dict[str, tuple[str, ...]] = {
            "qkv": (self.query, self.key, self.value),
            "out": (self.out,),
            "attn_norm": (self.attn_norm,),
            "up": (self.up,) if isinstance(self.up, str) else self.up,
            "down": (self.down,),
            "ffn_norm": (self.ffn_norm,),
        }
        if cross := dict(self.cross):
            parts["cross_kv"] = cross.pop("cross_key"), cross.pop("cross_value")
            parts |= {name: (theirs,) for name, theirs in cross.items()}
        names: dict[str, tuple[str, ...]] = {"norm": (self.norm,), "final_norm": (self.final_norm,)}
        for index in range(num_layers):
            for part, theirs in parts.items():
                names[f"layers.{index}.{part}"] = tuple(self.layer.format(index) + name for name in theirs)
        return {
            f"{side}.{ours}.{kind}": tuple(f"{name}.{kind}" for name in theirs)
            for kind in self.kinds
            for ours, theirs in names.items()
            if theirs[0]
        }


_HF_LAYER_NAMES: dict[str, Any] = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "out": "attention.output.dense",
    "attn_norm": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "ffn_norm": "output.LayerNorm",
}
_FAIRSEQ_LAYER_NAMES: dict[str, Any] = {
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
    **_HF_LAYER_NAMES,
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
    **_HF_LAYER_NAMES,
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
    **_FAIRSEQ_LAYER_NAMES,
)


_CROSS_NAMES = {
    "cross_query": "encoder_attn.q_proj",
    "cross_key": "encoder_attn.k_proj",
    "cross_value": "encoder_attn.v_proj",
    "cross_out": "encoder_attn.out_proj",
    "cross_norm": "encoder_attn_layer_norm",
}


def bart_layouts(
    has_norm: bool = True, has_final_norm: bool = True, has_positions: bool = True
) -> dict[str, Layout]:
    """Return the two sides of mBART in fairseq; transformers has the same names after ``model.``.

    Args:
        has_norm: a norm of the embeddings, which M2M-100 lacks.
        has_final_norm: norms after the layers, which BART lacks.
        has_positions: learnt positions, which M2M-100 lacks.
    """
    return {
        side: Layout(
            tokens=f"{side}.embed_tokens",
            positions=f"{side}.embed_positions" if has_positions else "",
            norm=f"{side}.layernorm_embedding" if has_norm else "",
            layer=f"{side}.layers.{{}}.",
            final_norm=f"{side}.layer_norm" if has_final_norm else "",
            first_position=2,
            cross=_CROSS_NAMES if side == "decoder" else {},
            **_FAIRSEQ_LAYER_NAMES,
        )
        for side in ("encoder", "decoder")
    }


MBART = bart_layouts()


def t5_layouts(is_gated: bool, layer_biases: bool = False) -> dict[str, Layout]:
    """Return the two sides of T5 and mT5 in transformers; umT5 has biases of positions in every layer."""
    cross = {
        name: f"1.EncDecAttention.{theirs}"
        for name, theirs in zip(("cross_query", "cross_key", "cross_value", "cross_out"), "qkvo", strict=True)
    }
    layouts = {}
    for side, ffn_index in (("encoder", 1), ("decoder", 2)):
        ffn_prefix = f"{ffn_index}.DenseReluDense."
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
            up=(f"{ffn_prefix}wi_0", f"{ffn_prefix}wi_1") if is_gated else f"{ffn_prefix}wi",
            down=f"{ffn_prefix}wo",
            ffn_norm=f"{ffn_index}.layer_norm",
            cross=cross | {"cross_norm": "1.layer_norm"} if side == "decoder" else {},
            final_norm=f"{side}.final_layer_norm",
            relative=f"{side}.block.{'{}' if layer_biases else 0}.layer.0.SelfAttention.relative_attention_bias",
            kinds=("weight",),
        )
    return layouts


SEGMENT_EMBEDDINGS = "encoder.segments.weight"


def count_layers(state: Mapping[str, Shaped[Tensor, " ..."]], side: str = "encoder") -> int:
    """Count the layers of a side in our weights."""
    return 1 + max(
        (int(name.split(".")[2]) for name in state if name.startswith(f"{side}.layers.")), default=-1
    )


def to_layout(
    state: Mapping[str, Shaped[Tensor, " ..."]], layout: Layout
) -> dict[str, Float32[Tensor, " ..."]]:
    """Rename the weights of our encoder and LM head to the names of ``layout``.

    Args:
        state: names as in `xling.models.network.encoder.EncoderModel`; the LM head may be missing.
        layout: the names to use.

    Returns:
        Contiguous float32 tensors; if only the layout has segment embeddings, they are one row of zeros.
    """
    renamed = {f"{layout.tokens}.weight": state["encoder.tokens.weight"]} | trunk_to_layout(
        state, "encoder", layout
    )
    if layout.types:
        positions = state["encoder.positions.weight"]
        no_segments = positions.new_zeros(1, positions.shape[1])
        renamed[f"{layout.types}.weight"] = state.get(SEGMENT_EMBEDDINGS, no_segments)
    if "lm_head.bias" in state:
        for kind in layout.kinds:
            renamed[f"{layout.dense}.{kind}"] = state[f"lm_head.dense.{kind}"]
            renamed[f"{layout.head_norm}.{kind}"] = state[f"lm_head.norm.{kind}"]
        renamed[layout.bias] = state["lm_head.bias"]
    return copy_float32(renamed)


def copy_float32(state: Mapping[str, Shaped[Tensor, " ..."]]) -> dict[str, Float32[Tensor, " ..."]]:
    """Copy each tensor to float32 with its own memory."""
    return {name: tensor.detach().float().contiguous().clone() for name, tensor in state.items()}


def trunk_to_layout(
    state: Mapping[str, Shaped[Tensor, " ..."]], side: str, layout: Layout
) -> dict[str, Shaped[Tensor, " ..."]]:
    """Rename positions, norms and layers of one of our sides to the names of ``layout``."""
    renamed = {}
    if layout.positions:
        positions = state[f"{side}.positions.weight"]
        unused_rows = positions.new_zeros(layout.first_position, positions.shape[1])
        renamed[f"{layout.positions}.weight"] = torch.cat([unused_rows, positions])
    if layout.relative:
        num_sets = count_layers(state, side) if "{}" in layout.relative else 1
        tables = state[f"{side}.relative.table.weight"].chunk(num_sets, 1)
        renamed |= {f"{layout.relative.format(i)}.weight": table for i, table in enumerate(tables)}
    for ours, theirs in layout.weight_names(side, count_layers(state, side)).items():
        renamed |= zip(theirs, state[ours].chunk(len(theirs)), strict=True)
    return renamed


def from_layout(
    state: Mapping[str, Shaped[Tensor, " ..."]], layout: Layout, model_name: str
) -> dict[str, Float32[Tensor, " ..."]]:
    """Rename weights of ``layout`` to our names, float32.

    A single segment embedding is added to the positions, since every token has it. A missing LM head is
    replaced by the identity: its scores are meaningless without training, but the encoder is complete.

    Raises:
        UserError: a weight of the layout is missing; ``model_name`` names the checkpoint.
    """
    take = make_take_weight(state, layout, model_name)
    renamed = {"encoder.tokens.weight": take(f"{layout.tokens}.weight").clone()}
    renamed |= trunk_from_layout(state, take, "encoder", layout)
    if layout.types:
        segment_embeddings = take(f"{layout.types}.weight")
        if len(segment_embeddings) == 1:
            renamed["encoder.positions.weight"] += segment_embeddings
        else:
            renamed[SEGMENT_EMBEDDINGS] = segment_embeddings.clone()
    if layout.bias not in state:
        return renamed | identity_head(renamed["encoder.tokens.weight"])
    for kind in layout.kinds:
        renamed[f"lm_head.dense.{kind}"] = take(f"{layout.dense}.{kind}")
        renamed[f"lm_head.norm.{kind}"] = take(f"{layout.head_norm}.{kind}")
    return renamed | {"lm_head.bias": take(layout.bias)}


def identity_head(tokens: Float[Tensor, "vocab dim"]) -> dict[str, Float[Tensor, " ..."]]:
    """Return an untrained identity LM head over the embeddings (V, D) for a model without one."""
    size, width = tokens.shape
    head = {"lm_head.bias": torch.zeros(size)}
    head |= {"lm_head.dense.weight": torch.eye(width), "lm_head.dense.bias": torch.zeros(width)}
    return head | {"lm_head.norm.weight": torch.ones(width), "lm_head.norm.bias": torch.zeros(width)}


def make_take_weight(
    state: Mapping[str, Shaped[Tensor, " ..."]], layout: Layout, model_name: str
) -> TakeWeight:
    """Return a function that returns the weights of ``state`` by name, float32, and raises if one is missing."""

    def take(name: str) -> Float32[Tensor, " ..."]:
        if name not in state:
            raise UserError(
                f"{model_name} has no weight {name}",
                f"all weights of a model with {layout.tokens}",
                "check that this is a complete language model of that type",
            )
        return state[name].detach().float()

    return take


def trunk_from_layout(
    state: Mapping[str, Shaped[Tensor, " ..."]], take: TakeWeight, side: str, layout: Layout
) -> dict[str, Float[Tensor, " ..."]]:
    """Rename positions, norms and layers of ``layout`` to our names."""
    renamed, num_layers = {}, _count_layers(state, layout)
    if layout.positions:
        positions = take(f"{layout.positions}.weight")
        renamed[f"{side}.positions.weight"] = positions[layout.first_position :].clone()
    if layout.relative:
        num_sets = range(num_layers if "{}" in layout.relative else 1)
        tables = [take(f"{layout.relative.format(i)}.weight") for i in num_sets]
        renamed[f"{side}.relative.table.weight"] = torch.cat(tables, 1)
    for ours, theirs in layout.weight_names(side, num_layers).items():
        renamed[ours] = torch.cat([take(name) for name in theirs])
    return renamed


def _count_layers(state: Mapping[str, Tensor], layout: Layout) -> int:
    prefix = layout.layer.split("{}")[0]
    numbers = [name.removeprefix(prefix).split(".")[0] for name in state if name.startswith(prefix)]
    return 1 + max((int(x) for x in numbers if x.isdecimal()), default=-1)
