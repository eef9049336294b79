"""Names of the weights elsewhere: of XLM-R and BERT in transformers, of RoBERTa in fairseq, of mBART in both.

All are the encoder of BERT with another name on each part, one projection each for query, key and value where
ours is a single one, and position tables that start at another row; mBART has a decoder of the same parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from xling.core.errors import UserError

Take = Callable[[str], Tensor]


@dataclass(frozen=True)
class Layout:
    """Where each part of an encoder or a decoder stands.

    Attributes:
        tokens, positions, norm: of the embeddings.
        layer: prefix of layer ``{}``.
        query, key, value, out, attn_norm, up, down, ffn_norm: within a layer.
        cross: of the attention to the source, the same names as ours; empty in an encoder.
        final_norm: behind the layers, where norms stand before the blocks.
        dense, head_norm, bias: of the LM head, empty where there is none.
        types: segment embeddings, empty where there are none.
        first_position: row of the position table that position 0 reads.
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
    up: str
    down: str
    ffn_norm: str
    cross: Mapping[str, str] = field(default_factory=dict)
    final_norm: str = ""
    dense: str = ""
    head_norm: str = ""
    bias: str = ""
    types: str = ""
    first_position: int = 0


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
_WHOLE = ("out", "attn_norm", "up", "down", "ffn_norm")
_KINDS = ("weight", "bias")
SEGMENTS = "encoder.segments.weight"


def num_layers(state: Mapping[str, Tensor], side: str = "encoder") -> int:
    """Layers of a side in a state of ours."""
    return 1 + max(int(name.split(".")[2]) for name in state if name.startswith(f"{side}.layers."))


def outwards(state: Mapping[str, Tensor], layout: Layout) -> dict[str, Tensor]:
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
        for kind in _KINDS:
            made[f"{layout.dense}.{kind}"] = state[f"lm_head.dense.{kind}"]
            made[f"{layout.head_norm}.{kind}"] = state[f"lm_head.norm.{kind}"]
        made[layout.bias] = state["lm_head.bias"]
    return plain(made)


def plain(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Each tensor as float32 with memory of its own."""
    return {name: tensor.detach().float().contiguous().clone() for name, tensor in state.items()}


def trunk(state: Mapping[str, Tensor], side: str, layout: Layout) -> dict[str, Tensor]:
    """Positions, norms and layers of a side of ours under the names of ``layout``."""
    positions = state[f"{side}.positions.weight"]
    before = positions.new_zeros(layout.first_position, positions.shape[1])
    made = {f"{layout.positions}.weight": torch.cat([before, positions])}
    for kind in _KINDS:
        made[f"{layout.norm}.{kind}"] = state[f"{side}.norm.{kind}"]
        if layout.final_norm:
            made[f"{layout.final_norm}.{kind}"] = state[f"{side}.final_norm.{kind}"]
        for index in range(num_layers(state, side)):
            here, there = f"{side}.layers.{index}.", layout.layer.format(index)
            parts = dict(zip(("query", "key", "value"), state[f"{here}qkv.{kind}"].chunk(3), strict=True)) | {
                name: state[f"{here}{name}.{kind}"] for name in _WHOLE
            }
            for name, part in parts.items():
                made[f"{there}{getattr(layout, name)}.{kind}"] = part
            if layout.cross:
                key, value = state[f"{here}cross_kv.{kind}"].chunk(2)
                both = {"cross_key": key, "cross_value": value}
                for name, theirs in layout.cross.items():
                    part = both[name] if name in both else state[f"{here}{name}.{kind}"]
                    made[f"{there}{theirs}.{kind}"] = part
    return made


def inwards(state: Mapping[str, Tensor], layout: Layout, what: str) -> dict[str, Tensor]:
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
    for kind in _KINDS:
        made[f"lm_head.dense.{kind}"] = take(f"{layout.dense}.{kind}")
        made[f"lm_head.norm.{kind}"] = take(f"{layout.head_norm}.{kind}")
    return made | {"lm_head.bias": take(layout.bias)}


def no_head(tokens: Tensor) -> dict[str, Tensor]:
    """An LM head over the embeddings (V, D) where a model has none: the identity, without training."""
    size, width = tokens.shape
    made = {"lm_head.bias": torch.zeros(size)}
    made |= {"lm_head.dense.weight": torch.eye(width), "lm_head.dense.bias": torch.zeros(width)}
    return made | {"lm_head.norm.weight": torch.ones(width), "lm_head.norm.bias": torch.zeros(width)}


def taker(state: Mapping[str, Tensor], layout: Layout, what: str) -> Take:
    """A function that gives the weights of ``state`` by name, float32, and refuses to go without one."""

    def take(name: str) -> Tensor:
        if name not in state:
            raise UserError(
                f"{what} has no weight {name}",
                f"the weights of a {layout.tokens.split('.')[0]} encoder",
                "check that this is a language model of that type, and the whole of it",
            )
        return state[name].detach().float()

    return take


def read_trunk(state: Mapping[str, Tensor], take: Take, side: str, layout: Layout) -> dict[str, Tensor]:
    """Positions, norms and layers of ``layout`` under our names."""
    made = {f"{side}.positions.weight": take(f"{layout.positions}.weight")[layout.first_position :].clone()}
    depth = _depth(state, layout)
    for kind in _KINDS:
        made[f"{side}.norm.{kind}"] = take(f"{layout.norm}.{kind}")
        if layout.final_norm:
            made[f"{side}.final_norm.{kind}"] = take(f"{layout.final_norm}.{kind}")
        for index in range(depth):
            here, there = f"{side}.layers.{index}.", layout.layer.format(index)
            parts = [take(f"{there}{getattr(layout, name)}.{kind}") for name in ("query", "key", "value")]
            made[f"{here}qkv.{kind}"] = torch.cat(parts)
            for name in _WHOLE:
                made[f"{here}{name}.{kind}"] = take(f"{there}{getattr(layout, name)}.{kind}")
            if layout.cross:
                found = {name: take(f"{there}{theirs}.{kind}") for name, theirs in layout.cross.items()}
                kv = torch.cat([found.pop("cross_key"), found.pop("cross_value")])
                made[f"{here}cross_kv.{kind}"] = kv
                made |= {f"{here}{name}.{kind}": part for name, part in found.items()}
    return made


def _depth(state: Mapping[str, Tensor], layout: Layout) -> int:
    prefix = layout.layer.split("{}")[0]
    found = [name.removeprefix(prefix).split(".")[0] for name in state if name.startswith(prefix)]
    return 1 + max((int(x) for x in found if x.isdecimal()), default=-1)
