"""The ``config.json`` of a model of transformers: its writer and its checks, without torch."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from xling.core.errors import UserError

TensorShapes = Mapping[str, tuple[int, ...]]

HF_SIZE_NAMES = {
    "layers": "num_hidden_layers",
    "dim": "hidden_size",
    "heads": "num_attention_heads",
    "ffn_dim": "intermediate_size",
    "max_positions": "max_position_embeddings",
}
"""Our shape settings, and their names in the ``config.json`` of BERT-like models."""
_ENCODER_SETTINGS = {"hidden_act": "gelu", "position_embedding_type": "absolute", "is_decoder": False}
_T5_SETTINGS = {
    "is_encoder_decoder": True, "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128,
}  # fmt: skip
_TIED_SETTINGS = {
    "is_encoder_decoder": True,
    "tie_word_embeddings": True,
    "static_position_embeddings": False,
}
_NORM_SETTINGS = {"activation_function": "gelu", "normalize_embedding": True}
REQUIRED_SETTINGS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("xlm-roberta", "bert"), _ENCODER_SETTINGS),
    "modernbert": {
        "norm_bias": False, "attention_bias": False, "mlp_bias": False, "decoder_bias": True,
        "classifier_bias": False, "classifier_activation": "gelu", "tie_word_embeddings": True,
    },
    "mbart": {**_TIED_SETTINGS, **_NORM_SETTINGS, "add_final_layer_norm": True, "normalize_before": True},
    "bart": {**_TIED_SETTINGS, **_NORM_SETTINGS, "add_final_layer_norm": False, "normalize_before": False},
    "m2m_100": {"is_encoder_decoder": True, "tie_word_embeddings": True, "activation_function": "relu"},
    **dict.fromkeys(("t5", "mt5", "umt5"), _T5_SETTINGS),
}  # fmt: skip
"""Settings by type that a model of ours cannot have otherwise."""
_BART_SIZES = (
    "d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads",
    "encoder_ffn_dim", "decoder_ffn_dim", "max_position_embeddings",
)  # fmt: skip
REQUIRED_SIZES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("xlm-roberta", "bert", "modernbert"), tuple(HF_SIZE_NAMES.values())),
    **dict.fromkeys(("mbart", "bart", "m2m_100"), _BART_SIZES),
    **dict.fromkeys(("t5", "mt5", "umt5"), ("d_model", "d_kv", "d_ff", "num_layers", "num_heads")),
}
"""Sizes by type that have to be given."""
SETTING_TYPES: dict[str, tuple[Any, str]] = {
    **dict.fromkeys(
        ("layer_norm_eps", "layer_norm_epsilon", "norm_eps", "global_rope_theta", "local_rope_theta"),
        ((int, float), "a number"),
    ),
    **dict.fromkeys(
        ("n_positions", "num_decoder_layers", "local_attention", "global_attn_every_n_layers"),
        (int, "a whole number"),
    ),
    **dict.fromkeys(("feed_forward_proj", "hidden_activation"), (str, "a text")),
    **dict.fromkeys(("rope_parameters", "rope_scaling", "id2label"), (dict, "an object")),
    "layer_types": (list, "a list"),
}
"""Types of optional settings that are read, with the type in words."""
WIDTH_SETTINGS = ("hidden_size", "d_model", "intermediate_size", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim")
LAYER_SETTINGS = {
    "encoder": ("encoder_layers", "num_layers", "num_hidden_layers", "n_layers"),
    "decoder": ("decoder_layers", "num_decoder_layers"),
}
_LAYER_NUMBER = re.compile(r"(?:^|\.)(?:layers?|block)\.(\d+)\.")


def check_config(config: Mapping[str, Any], model_type: str, folder: Path) -> None:
    """Reject values of a wrong type, what our models lack, and sizes that are missing or do not fit together.

    Raises:
        UserError: the message names the setting.
    """
    for name, (types, valid) in SETTING_TYPES.items():
        if (value := config.get(name)) is not None and not isinstance(value, types):
            raise UserError(f"{folder}/config.json: {name}={value!r}", valid, "copy it again")
    if config.get("quantization_config"):
        raise UserError(
            f"{folder} holds quantised weights",
            "weights in float32, float16 or bfloat16",
            "take the model as it was before",
        )
    code = config.get("auto_map")
    if isinstance(code, Mapping) and {"AutoModel", "AutoModelForMaskedLM"} & {*code}:
        raise UserError(
            f"{folder} is computed by code of its own (auto_map of its config.json), which is not run here",
            f"a model that transformers computes as {model_type}",
            "leave auto_map out of config.json if that code computes the same",
        )
    check_settings(config, REQUIRED_SETTINGS.get(model_type, {}), REQUIRED_SIZES.get(model_type, ()), folder)
    if model_type not in ("xlm-roberta", "bert"):
        return
    check_heads(config[HF_SIZE_NAMES["dim"]], config[HF_SIZE_NAMES["heads"]], 0, folder)


def check_heads(width: int, heads: int, head_dim: int, model_name: Path) -> None:
    """Reject a width that heads without a width of their own cannot share.

    Raises:
        UserError: the heads do not divide it.
    """
    if heads < 1 or head_dim < 0 or (not head_dim and width % heads):
        raise UserError(
            f"{model_name}: its configuration has width {width} and {heads} heads",
            "a width that is a multiple of the heads",
            "copy its config.json again",
        )


def check_layers(side: str, num_layers: int, expected: int, model_name: Path) -> None:
    """Reject weights with more or fewer layers than the configuration says.

    Raises:
        UserError: they differ.
    """
    if num_layers != expected:
        finding = (
            f"no {side}.layers.{num_layers}"
            if num_layers < expected
            else f"{num_layers} layers in its {side}"
        )
        raise UserError(
            f"{model_name} has {finding}",
            f"{expected} layers, as its configuration says",
            "copy weights and configuration of one model",
        )


def check_settings(
    config: Mapping[str, Any], required: Mapping[str, Any], sizes: Iterable[str], folder: Path
) -> None:
    """Reject settings that differ from ``required``, if they are given, and missing ``sizes``.

    Raises:
        UserError: the message names the first setting that our models lack, or the missing sizes.
    """
    for name, value in required.items():
        if config.get(name, value) != value:
            raise UserError(
                f"{folder}/config.json: {name}={config[name]!r}", repr(value), "choose a model of that shape"
            )
    if missing := [name for name in sizes if not isinstance(config.get(name), int)]:
        raise UserError(f"{folder}/config.json does not say {', '.join(missing)}", fix="copy it again")


def read_tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor of a safetensors file; only its header is read.

    Raises:
        UserError: the file is damaged.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            names = file.keys()
            return {name: tuple(file.get_slice(name).get_shape()) for name in names}
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is damaged: {error}", fix="copy it again") from None


def check_weights(config: Mapping[str, Any], shapes: TensorShapes, folder: Path) -> None:
    """Compare the widths and the layers that a ``config.json`` gives with the shapes of all tensors.

    Raises:
        UserError: no tensor has such a width, or there are more or fewer layers.
    """
    sizes = {size for shape in shapes.values() for size in shape}
    for name in WIDTH_SETTINGS:
        if isinstance(config.get(name), int) and config[name] not in sizes:
            raise UserError(
                f"{folder}/config.json: {name}={config[name]}, and no tensor of its weights has that size",
                "weights and configuration of one model",
                "copy both again",
            )
    num_layers = {"encoder": 0, "decoder": 0}
    for name in shapes:
        if layer := _LAYER_NUMBER.search(name):
            side = "decoder" if "decoder." in name[: layer.start() + 1] else "encoder"
            num_layers[side] = max(num_layers[side], int(layer[1]) + 1)
    for side, names in LAYER_SETTINGS.items():
        expected_layers = next((config[name] for name in names if isinstance(config.get(name), int)), 0)
        if expected_layers and num_layers[side]:
            check_layers(side, num_layers[side], expected_layers, folder)


def label_settings(labels: Sequence[str]) -> dict[str, Any]:
    """Return the entries of a ``config.json`` about the labels of a task; none for a task without labels."""
    if not labels:
        return {}
    return {
        "id2label": {str(number): name for number, name in enumerate(labels)},
        "label2id": {name: number for number, name in enumerate(labels)},
    }


def write_json(path: Path, content: Any) -> None:
    """Write settings for other programs into a file."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
