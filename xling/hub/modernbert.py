"""Conversion of ModernBERT and mmBERT to our encoder and back: the same parts under other names.

Source: Warner et al. 2024; Marone et al. 2025; ``ModernBertConfig`` of transformers, whose older files name
the bases of rotary positions and the kinds of layers differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from xling.core.errors import UserError
from xling.hub import configs, express, files, layouts
from xling.hub.source import read_json
from xling.models import windows
from xling.models.network.encoder import EncoderConfig

if TYPE_CHECKING:
    from jaxtyping import Float32, Shaped

TYPE = "modernbert"
FULL, SLIDING = "full_attention", "sliding_attention"
THETAS = {FULL: ("global_rope_theta", 160_000.0), SLIDING: ("local_rope_theta", 10_000.0)}
_PARTS = {
    "qkv": "attn.Wqkv", "out": "attn.Wo", "attn_norm": "attn_norm", "up": "mlp.Wi", "down": "mlp.Wo",
    "ffn_norm": "mlp_norm",
}  # fmt: skip
TOKENS = "model.embeddings.tok_embeddings.weight"
HEAD = {"dense.weight": "head.dense.weight", "head_norm.weight": "head.norm.weight"} | {
    f"classifier.{kind}": f"classifier.{kind}" for kind in ("weight", "bias")
}
"""Our names of a classifier's weights -> their names."""
TASK = "xling_task"
KINDS = {
    "ModernBertForSequenceClassification": "classify",
    "ModernBertForTokenClassification": "tag",
    "ModernBertForQuestionAnswering": "span",
}
"""Task of each class, used if ``config.json`` does not name ours under `TASK`."""


def names(layers: int) -> dict[str, str]:
    """Map our names of the weights of an encoder and its LM head to theirs."""
    theirs_of = {
        "encoder.tokens.weight": TOKENS,
        "encoder.norm.weight": "model.embeddings.norm.weight",
        "encoder.final_norm.weight": "model.final_norm.weight",
        "lm_head.dense.weight": "head.dense.weight",
        "lm_head.norm.weight": "head.norm.weight",
        "lm_head.bias": "decoder.bias",
    }
    for index in range(layers):
        for ours, theirs in _PARTS.items():
            if (index, ours) != (0, "attn_norm"):
                theirs_of[f"encoder.layers.{index}.{ours}.weight"] = f"model.layers.{index}.{theirs}.weight"
    return theirs_of


def shape_of(config: Mapping[str, Any], folder: Path) -> EncoderConfig:
    """Return the shape of a ``config.json``, in either spelling.

    Raises:
        UserError: the model has a part that ours lack.
    """
    configs.check(config, TYPE, folder)
    if (activation := config.get("hidden_activation", "gelu")) not in express.MODERNBERT_FFNS:
        raise UserError(
            f"{folder}/config.json: hidden_activation={activation!r}", ", ".join(express.MODERNBERT_FFNS)
        )
    thetas = {kind: _theta(config, kind, folder) for kind in THETAS}
    return EncoderConfig(
        **files.sizes(config),
        norm_eps=float(config.get("norm_eps", 1e-5)),
        ffn=express.MODERNBERT_FFNS[activation],
        attention=_attention(config, folder),
        global_theta=thetas[FULL],
        local_theta=thetas[SLIDING],
        init="megatron",
        **express.MODERNBERT,
    )


def _theta(config: Mapping[str, Any], kind: str, folder: Path) -> float:
    old, usual = THETAS[kind]
    told = (config.get("rope_parameters") or {}).get(kind) or {}
    scaling = config.get("rope_scaling") or {}
    types = {told.get("rope_type", "default"), scaling.get("rope_type", scaling.get("type", "default"))}
    if types != {"default"}:
        raise UserError(
            f"{folder}/config.json: rotary positions of type {max(types - {'default'})}",
            "rope_type default, which xling computes",
            "choose another model",
        )
    theta = told.get("rope_theta", config.get(old))
    return usual if theta is None else float(theta)


def _attention(config: Mapping[str, Any], folder: Path) -> str:
    """Convert the kinds of layers to our spelling; they must be global at every K-th layer from the first."""
    layers, width = config["num_hidden_layers"], int(config.get("local_attention", 128))
    kinds = config.get("layer_types")
    if kinds is None:
        every = int(config.get("global_attn_every_n_layers") or 3)
        kinds = [SLIDING if i % every else FULL for i in range(layers)]
    if SLIDING not in kinds:
        return windows.GLOBAL
    full = [i for i, kind in enumerate(kinds) if kind == FULL]
    every = full[1] if len(full) > 1 else layers
    spelling = f"local:{width}/global:{every}"
    if [FULL if window == 0 else SLIDING for window in windows.of(spelling, layers)] != list(kinds):
        raise UserError(
            f"{folder}/config.json: layer_types={', '.join(kinds)}",
            f"{FULL} at every K-th layer from the first, {SLIDING} elsewhere",
            "choose another model",
        )
    return spelling


def inwards(
    state: Mapping[str, Shaped[Tensor, " ..."]], shape: EncoderConfig, what: str
) -> dict[str, Float32[Tensor, " ..."]]:
    """Rename their weights to our names, float32; a model without an LM head gets an untrained identity.

    Raises:
        UserError: a weight is missing.
    """
    if TOKENS not in state and TOKENS.removeprefix("model.") in state:
        state = {
            name if name.startswith(("head.", "decoder.")) else f"model.{name}": t
            for name, t in state.items()
        }
    tied = state.get("decoder.weight", state.get(TOKENS))
    if TOKENS in state and tied is not None and not tied.equal(state[TOKENS]):
        raise UserError(
            f"the output layer of {what} has a matrix of its own",
            "one that shares its matrix with the embeddings",
            "xling has no such models: choose another",
        )
    renamed = {}
    for ours, theirs in names(shape.layers).items():
        if theirs in state:
            renamed[ours] = state[theirs].detach().float()
        elif not ours.startswith("lm_head."):
            raise UserError(
                f"{what} has no weight {theirs}", "all weights of a ModernBERT", "copy the complete model"
            )
    # A classifier's head is not an LM head: it is one only with the output's bias.
    if "lm_head.bias" not in renamed:
        none = layouts.no_head(renamed["encoder.tokens.weight"])
        renamed |= {name: none[name] for name in names(0) if name.startswith("lm_head.")}
    return renamed


def has_other_tokenizer(folder: Path) -> bool:
    """Return whether the tokenizer is none that a SentencePiece model with XLM-R's specials can express."""
    path = folder / "tokenizer.json"
    if any((folder / name).is_file() for name in files.SPM_NAMES) or not path.is_file():
        return False
    return read_json(path).get("model", {}).get("type") != "Unigram"


def in_order(
    weights: Mapping[str, Shaped[Tensor, " ..."]], order: list[int], what: str
) -> dict[str, Shaped[Tensor, " ..."]]:
    """Return the weights with the rows of ids in another order; rows without an id are left out.

    Args:
        weights: our names, rows in their order.
        order: their id for each of ours.
        what: name of the model, for messages.

    Raises:
        UserError: an id has no row.
    """
    rows = len(weights["encoder.tokens.weight"])
    if max(order) >= rows:
        raise UserError(
            f"{what} has {rows} embeddings, and its tokenizer the id {max(order)}",
            "weights and tokenizer of one model",
        )
    moved = {name: weights[name][order].clone() for name in ("encoder.tokens.weight", "lm_head.bias")}
    return {**weights, **moved}


def task_of(config: Mapping[str, Any]) -> tuple[str, list[str]] | None:
    """Return our task and the labels of a classifier, None for a language model."""
    kind = KINDS.get(str((config.get("architectures") or [""])[0]))
    if kind is None:
        return None
    names_of = config.get("id2label") or {}
    labels = [] if kind == "span" else [names_of[key] for key in sorted(names_of, key=int)]
    return str(config.get(TASK, kind)), labels


def head_of(state: Mapping[str, Shaped[Tensor, " ..."]], what: str) -> dict[str, Float32[Tensor, " ..."]]:
    """Rename the weights of a classifier to our names.

    Raises:
        UserError: one is missing.
    """
    if missing := [theirs for theirs in HEAD.values() if theirs not in state]:
        raise UserError(
            f"{what} has no weight {missing[0]}", "all weights of its class", "copy the complete model"
        )
    return {ours: state[theirs].detach().float() for ours, theirs in HEAD.items()}


def outwards(
    state: Mapping[str, Shaped[Tensor, " ..."]], shape: EncoderConfig
) -> dict[str, Float32[Tensor, " ..."]]:
    """Rename our weights to their names, float32, with the LM head or classifier that exists."""
    both = names(shape.layers) | HEAD
    return layouts.plain({theirs: state[ours] for ours, theirs in both.items() if ours in state})


def hf_config(shape: EncoderConfig, vocab_size: int, pad: int, bos: int, eos: int) -> dict[str, Any]:
    """Build a ``config.json`` in both spellings, so that older and newer transformers can read it."""
    kinds = [SLIDING if window else FULL for window in windows.of(shape.attention, shape.layers)]
    window, _, every = shape.attention.removeprefix("local:").partition("/global:")
    activations: dict[str, str] = {ours: theirs for theirs, ours in express.MODERNBERT_FFNS.items()}
    thetas = {FULL: shape.global_theta, SLIDING: shape.local_theta}
    return {
        "model_type": TYPE,
        "vocab_size": vocab_size,
        **{theirs: getattr(shape, ours) for ours, theirs in configs.SIZES.items()},
        "hidden_activation": activations[shape.ffn],
        "norm_eps": shape.norm_eps,
        "layer_types": kinds,
        "local_attention": int(window) if every else 128,
        "global_attn_every_n_layers": int(every or 1),
        "rope_parameters": {kind: {"rope_type": "default", "rope_theta": t} for kind, t in thetas.items()},
        "global_rope_theta": shape.global_theta,
        "local_rope_theta": shape.local_theta,
        "attention_dropout": shape.attention_dropout,
        "embedding_dropout": shape.dropout,
        "mlp_dropout": shape.dropout,
        "initializer_range": 0.02,
        **configs.WANTED[TYPE],
        "pad_token_id": pad,
        "bos_token_id": bos,
        "cls_token_id": bos,
        "eos_token_id": eos,
        "sep_token_id": eos,
        "dtype": "float32",
    }
