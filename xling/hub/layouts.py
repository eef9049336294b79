"""Names of the weights elsewhere: those of XLM-R in transformers, and of RoBERTa in fairseq.

Both are the encoder of BERT with another name on each part, one projection each for query, key and value where
ours is a single one, and position tables that start at another row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from xling.core.errors import UserError

HEAD = ("lm_head.dense", "lm_head.norm")


@dataclass(frozen=True)
class Layout:
    """Where each part stands.

    Attributes:
        tokens, positions, norm: of the embeddings.
        layer: prefix of layer ``{}``.
        query, key, value, out, attn_norm, up, down, ffn_norm: within a layer.
        dense, head_norm, bias: of the LM head.
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
    dense: str
    head_norm: str
    bias: str
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
FAIRSEQ = Layout(
    tokens="encoder.sentence_encoder.embed_tokens",
    positions="encoder.sentence_encoder.embed_positions",
    norm="encoder.sentence_encoder.layernorm_embedding",
    layer="encoder.sentence_encoder.layers.{}.",
    query="self_attn.q_proj",
    key="self_attn.k_proj",
    value="self_attn.v_proj",
    out="self_attn.out_proj",
    attn_norm="self_attn_layer_norm",
    up="fc1",
    down="fc2",
    ffn_norm="final_layer_norm",
    dense="encoder.lm_head.dense",
    head_norm="encoder.lm_head.layer_norm",
    bias="encoder.lm_head.bias",
    first_position=2,
)
_WHOLE = ("out", "attn_norm", "up", "down", "ffn_norm")
_KINDS = ("weight", "bias")


def num_layers(state: Mapping[str, Tensor]) -> int:
    """Layers in a state of ours."""
    return 1 + max(int(name.split(".")[2]) for name in state if name.startswith("encoder.layers."))


def outwards(state: Mapping[str, Tensor], layout: Layout) -> dict[str, Tensor]:
    """Our weights under the names of ``layout``.

    Args:
        state: names as in `xling.models.encoder.EncoderModel`; the LM head may be missing.
        layout: whose names.

    Returns:
        Contiguous float32 tensors; segment embeddings, where the layout has them, are one row of zeros.
    """
    made = {f"{layout.tokens}.weight": state["encoder.tokens.weight"]}
    positions = state["encoder.positions.weight"]
    before = positions.new_zeros(layout.first_position, positions.shape[1])
    made[f"{layout.positions}.weight"] = torch.cat([before, positions])
    if layout.types:
        made[f"{layout.types}.weight"] = positions.new_zeros(1, positions.shape[1])
    for kind in _KINDS:
        made[f"{layout.norm}.{kind}"] = state[f"encoder.norm.{kind}"]
        for index in range(num_layers(state)):
            here, there = f"encoder.layers.{index}.", layout.layer.format(index)
            parts = state[f"{here}qkv.{kind}"].chunk(3)
            for name, part in zip(("query", "key", "value"), parts, strict=True):
                made[f"{there}{getattr(layout, name)}.{kind}"] = part
            for name in _WHOLE:
                made[f"{there}{getattr(layout, name)}.{kind}"] = state[f"{here}{name}.{kind}"]
        if "lm_head.bias" in state:
            made[f"{layout.dense}.{kind}"] = state[f"lm_head.dense.{kind}"]
            made[f"{layout.head_norm}.{kind}"] = state[f"lm_head.norm.{kind}"]
    if "lm_head.bias" in state:
        made[layout.bias] = state["lm_head.bias"]
    return {name: tensor.detach().float().contiguous().clone() for name, tensor in made.items()}


def inwards(state: Mapping[str, Tensor], layout: Layout, what: str) -> dict[str, Tensor]:
    """The weights of ``layout`` under our names, float32.

    Segment embeddings become part of the positions: every token is then of the first segment, as everywhere here.
    A missing LM head is made of the identity: without training its scores mean nothing, the encoder is whole.

    Raises:
        UserError: a weight that the layout has is missing; ``what`` names the checkpoint.
    """
    depth = _depth(state, layout)
    taken: set[str] = set()

    def take(name: str) -> Tensor:
        if name not in state:
            raise UserError(
                f"{what} has no weight {name}",
                f"the weights of a {layout.tokens.split('.')[0]} encoder",
                "check that this is a masked language model of that type, and the whole of it",
            )
        taken.add(name)
        return state[name].detach().float()

    made = {"encoder.tokens.weight": take(f"{layout.tokens}.weight").clone()}
    positions = take(f"{layout.positions}.weight")[layout.first_position :]
    if layout.types and f"{layout.types}.weight" in state:
        positions = positions + take(f"{layout.types}.weight")[0]
    made["encoder.positions.weight"] = positions.clone()
    has_head = layout.bias in state
    for kind in _KINDS:
        made[f"encoder.norm.{kind}"] = take(f"{layout.norm}.{kind}")
        for index in range(depth):
            here, there = f"encoder.layers.{index}.", layout.layer.format(index)
            parts = [take(f"{there}{getattr(layout, name)}.{kind}") for name in ("query", "key", "value")]
            made[f"{here}qkv.{kind}"] = torch.cat(parts)
            for name in _WHOLE:
                made[f"{here}{name}.{kind}"] = take(f"{there}{getattr(layout, name)}.{kind}")
        if has_head:
            made[f"lm_head.dense.{kind}"] = take(f"{layout.dense}.{kind}")
            made[f"lm_head.norm.{kind}"] = take(f"{layout.head_norm}.{kind}")
    width = positions.shape[1]
    if has_head:
        made["lm_head.bias"] = take(layout.bias)
    else:
        made["lm_head.bias"] = torch.zeros(len(made["encoder.tokens.weight"]))
        made |= {"lm_head.dense.weight": torch.eye(width), "lm_head.dense.bias": torch.zeros(width)}
        made |= {"lm_head.norm.weight": torch.ones(width), "lm_head.norm.bias": torch.zeros(width)}
    return made


def _depth(state: Mapping[str, Tensor], layout: Layout) -> int:
    prefix = layout.layer.split("{}")[0]
    found = [name.removeprefix(prefix).split(".")[0] for name in state if name.startswith(prefix)]
    return 1 + max((int(x) for x in found if x.isdecimal()), default=-1)
