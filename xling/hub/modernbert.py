"""Conversion of ModernBERT and mmBERT to our encoder and back: the same parts under other names.

Source: Warner et al. 2024; Marone et al. 2025; ``ModernBertConfig`` of transformers, whose older files name
the bases of rotary positions and the kinds of layers differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from xling.array_types import Float32, Shaped
from xling.core.errors import UserError
from xling.hub import configs, files, layouts, rebuild, unsupported_parts
from xling.hub.source import read_json
from xling.models.network.encoder import EncoderConfig
from xling.models.shape import GLOBAL_ATTENTION, windows_of

MODEL_TYPE = "modernbert"
FULL_ATTENTION, SLIDING_ATTENTION = "full_attention", "sliding_attention"
THETA_SETTINGS = {
    FULL_ATTENTION: ("global_rope_theta", 160_000.0),
    SLIDING_ATTENTION: ("local_rope_theta", 10_000.0),
}
_HF_PART_NAMES = {
    "qkv": "attn.Wqkv", "out": "attn.Wo", "attn_norm": "attn_norm", "up": "mlp.Wi", "down": "mlp.Wo",
    "ffn_norm": "mlp_norm",
}  # fmt: skip
TOKEN_EMBEDDINGS = "model.embeddings.tok_embeddings.weight"
HEAD_NAMES = {"dense.weight": "head.dense.weight", "head_norm.weight": "head.norm.weight"} | {
    f"classifier.{kind}": f"classifier.{kind}" for kind in ("weight", "bias")
}
"""Our names of a classifier's weights -> their names."""
TASK_KEY = "xling_task"
TASK_OF_CLASS = {
    "ModernBertForSequenceClassification": "classify",
    "ModernBertForTokenClassification": "tag",
    "ModernBertForQuestionAnswering": "span",
}
"""Task of each class, used if ``config.json`` does not name ours under `TASK_KEY`."""


def weight_names(layers: int) -> dict[str, str]:
    """Map our names of the weights of an encoder and its LM head to theirs."""
    hf_name_of = {
        "encoder.tokens.weight": TOKEN_EMBEDDINGS,
        "encoder.norm.weight": "model.embeddings.norm.weight",
        "encoder.final_norm.weight": "model.final_norm.weight",
        "lm_head.dense.weight": "head.dense.weight",
        "lm_head.norm.weight": "head.norm.weight",
        "lm_head.bias": "decoder.bias",
    }
    for index in range(layers):
        for ours, theirs in _HF_PART_NAMES.items():
            if (index, ours) != (0, "attn_norm"):
                hf_name_of[f"encoder.layers.{index}.{ours}.weight"] = f"model.layers.{index}.{theirs}.weight"
    return hf_name_of


def read_shape(config: Mapping[str, Any], folder: Path) -> EncoderConfig:
    """Return the shape of a ``config.json``, in either spelling.

    Raises:
        UserError: the model has a part that ours lack.
    """
    configs.check_config(config, MODEL_TYPE, folder)
    if (activation := config.get("hidden_activation", "gelu")) not in unsupported_parts.MODERNBERT_FFNS:
        raise UserError(
            f"{folder}/config.json: hidden_activation={activation!r}",
            ", ".join(unsupported_parts.MODERNBERT_FFNS),
        )
    thetas = {kind: _read_theta(config, kind, folder) for kind in THETA_SETTINGS}
    return EncoderConfig(
        **files.read_sizes(config),
        norm_eps=float(config.get("norm_eps", 1e-5)),
        ffn=unsupported_parts.MODERNBERT_FFNS[activation],
        attention=_read_attention(config, folder),
        global_theta=thetas[FULL_ATTENTION],
        local_theta=thetas[SLIDING_ATTENTION],
        init="megatron",
        **unsupported_parts.MODERNBERT_SETTINGS,
    )


def _read_theta(config: Mapping[str, Any], kind: str, folder: Path) -> float:
    old_setting, default = THETA_SETTINGS[kind]
    rope_settings = (config.get("rope_parameters") or {}).get(kind) or {}
    scaling = config.get("rope_scaling") or {}
    types = {
        rope_settings.get("rope_type", "default"),
        scaling.get("rope_type", scaling.get("type", "default")),
    }
    if types != {"default"}:
        raise UserError(
            f"{folder}/config.json: rotary positions of type {max(types - {'default'})}",
            "rope_type default, which xling computes",
            "choose another model",
        )
    theta = rope_settings.get("rope_theta", config.get(old_setting))
    return default if theta is None else float(theta)


def _read_attention(config: Mapping[str, Any], folder: Path) -> str:
    """Convert the kinds of layers to our spelling; they must be global at every K-th layer from the first."""
    layers, width = config["num_hidden_layers"], int(config.get("local_attention", 128))
    layer_types = config.get("layer_types")
    if layer_types is None:
        global_every = int(config.get("global_attn_every_n_layers") or 3)
        layer_types = [SLIDING_ATTENTION if i % global_every else FULL_ATTENTION for i in range(layers)]
    if SLIDING_ATTENTION not in layer_types:
        return GLOBAL_ATTENTION
    full_layers = [i for i, kind in enumerate(layer_types) if kind == FULL_ATTENTION]
    global_every = full_layers[1] if len(full_layers) > 1 else layers
    attention_setting = f"local:{width}/global:{global_every}"
    if [
        FULL_ATTENTION if window == 0 else SLIDING_ATTENTION
        for window in windows_of(attention_setting, layers)
    ] != list(layer_types):
        raise UserError(
            f"{folder}/config.json: layer_types={', '.join(layer_types)}",
            f"{FULL_ATTENTION} at every K-th layer from the first, {SLIDING_ATTENTION} elsewhere",
            "choose another model",
        )
    return attention_setting


def from_hf(
    state: Mapping[str, Shaped[Tensor, " ..."]], shape: EncoderConfig, model_name: str
) -> dict[str, Float32[Tensor, " ..."]]:
    """Rename their weights to our names, float32; a model without an LM head gets an untrained identity.

    Raises:
        UserError: a weight is missing.
    """
    if TOKEN_EMBEDDINGS not in state and TOKEN_EMBEDDINGS.removeprefix("model.") in state:
        state = {
            name if name.startswith(("head.", "decoder.")) else f"model.{name}": t
            for name, t in state.items()
        }
    files.check_tied(state.get("decoder.weight"), state.get(TOKEN_EMBEDDINGS), model_name)
    weights = {}
    for ours, hf_name in weight_names(shape.layers).items():
        if hf_name in state:
            weights[ours] = state[hf_name].detach().float()
        elif not ours.startswith("lm_head."):
            raise UserError(
                f"{model_name} has no weight {hf_name}",
                "all weights of a ModernBERT",
                "copy the complete model",
            )
    # A classifier's head is not an LM head: it is one only with the output's bias.
    if "lm_head.bias" not in weights:
        identity_head = layouts.identity_head(weights["encoder.tokens.weight"])
        weights |= {name: identity_head[name] for name in weight_names(0) if name.startswith("lm_head.")}
    return weights


def has_other_tokenizer(folder: Path) -> bool:
    """Return whether the tokenizer is none that a SentencePiece model with XLM-R's specials can express."""
    path = folder / "tokenizer.json"
    if files.spm_paths(folder) or not path.is_file():
        return False
    with suppress(UserError):
        return not rebuild.rebuild_sentencepiece(read_json(path), path)
    return True


def reorder_rows(
    weights: Mapping[str, Shaped[Tensor, " ..."]], order: list[int], model_name: str
) -> dict[str, Shaped[Tensor, " ..."]]:
    """Return the weights with the rows of ids in another order; rows without an id are left out.

    Args:
        order: their id for each of ours.

    Raises:
        UserError: an id has no row.
    """
    files.check_largest_id(order, len(weights["encoder.tokens.weight"]), model_name)
    reordered = {name: weights[name][order].clone() for name in ("encoder.tokens.weight", "lm_head.bias")}
    return {**weights, **reordered}


def read_task(config: Mapping[str, Any]) -> tuple[str, list[str]] | None:
    """Return our task and the labels of a classifier, None for a language model."""
    task = TASK_OF_CLASS.get(str((config.get("architectures") or [""])[0]))
    if task is None:
        return None
    label_of_id = config.get("id2label") or {}
    labels = [] if task == "span" else [label_of_id[key] for key in sorted(label_of_id, key=int)]
    return str(config.get(TASK_KEY, task)), labels


def head_from_hf(
    state: Mapping[str, Shaped[Tensor, " ..."]], model_name: str
) -> dict[str, Float32[Tensor, " ..."]]:
    """Rename the weights of a classifier to our names.

    Raises:
        UserError: one is missing.
    """
    if missing := [theirs for theirs in HEAD_NAMES.values() if theirs not in state]:
        raise UserError(
            f"{model_name} has no weight {missing[0]}", "all weights of its class", "copy the complete model"
        )
    return {ours: state[theirs].detach().float() for ours, theirs in HEAD_NAMES.items()}


def to_hf(
    state: Mapping[str, Shaped[Tensor, " ..."]], shape: EncoderConfig
) -> dict[str, Float32[Tensor, " ..."]]:
    """Rename our weights to their names, float32, with the LM head or classifier that exists."""
    hf_name_of = weight_names(shape.layers) | HEAD_NAMES
    return layouts.copy_float32({theirs: state[ours] for ours, theirs in hf_name_of.items() if ours in state})


def to_hf_config(shape: EncoderConfig, vocab_size: int, pad: int, bos: int, eos: int) -> dict[str, Any]:
    """Build a ``config.json`` in both spellings, so that older and newer transformers can read it."""
    layer_types = [
        SLIDING_ATTENTION if window else FULL_ATTENTION
        for window in windows_of(shape.attention, shape.layers)
    ]
    window, _, global_every = shape.attention.removeprefix("local:").partition("/global:")
    activations: dict[str, str] = {ours: theirs for theirs, ours in unsupported_parts.MODERNBERT_FFNS.items()}
    thetas = {FULL_ATTENTION: shape.global_theta, SLIDING_ATTENTION: shape.local_theta}
    return {
        "model_type": MODEL_TYPE,
        "vocab_size": vocab_size,
        **{theirs: getattr(shape, ours) for ours, theirs in configs.HF_SIZE_NAMES.items()},
        "hidden_activation": activations[shape.ffn],
        "norm_eps": shape.norm_eps,
        "layer_types": layer_types,
        "local_attention": int(window) if global_every else 128,
        "global_attn_every_n_layers": int(global_every or 1),
        "rope_parameters": {kind: {"rope_type": "default", "rope_theta": t} for kind, t in thetas.items()},
        "global_rope_theta": shape.global_theta,
        "local_rope_theta": shape.local_theta,
        "attention_dropout": shape.attention_dropout,
        "embedding_dropout": shape.dropout,
        "mlp_dropout": shape.dropout,
        "initializer_range": 0.02,
        **configs.REQUIRED_SETTINGS[MODEL_TYPE],
        "pad_token_id": pad,
        "bos_token_id": bos,
        "cls_token_id": bos,
        "eos_token_id": eos,
        "sep_token_id": eos,
        "dtype": "float32",
    }
