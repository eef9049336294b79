"""Files with which sentence-transformers computes the sentence vectors of our evaluation from an exported encoder.

Our mean leaves out the specials at both ends, and sentence-transformers' mean does not. So a module between
encoder and pooling gives them the weight 0. Source: sentence-transformers, ``WordWeights`` and ``Pooling``.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor, nn

from xling.hub import configs
from xling.hub.sentence_modules import POOLING_KEYS
from xling.transfer.sentence import SentenceSettings, read_head

_MODULE_PREFIX = "sentence_transformers.models."


def write_sentence_modules(
    out: Path, dim: int, token_names: Sequence[str], specials: Sequence[str], pooling: str, checkpoint: Path
) -> None:
    """Write ``modules.json`` and the settings of its modules beside an exported encoder.

    Args:
        out: directory of the export.
        dim: width of the encoder.
        token_names: name of each id.
        specials: names of the tokens that begin and end a text.
        pooling: ``mean`` over the sub-words without specials, or ``cls``, if the model declares nothing itself.
        checkpoint: the model, which may declare how it makes sentence vectors.
    """
    head = read_head(checkpoint, dim)
    settings = head.settings if head else SentenceSettings((pooling,), pools_specials=pooling != "mean")
    modules: list[tuple[str, dict[str, Any], dict[str, Tensor]]] = [("Transformer", {}, {})]
    if not settings.pools_specials:
        weights = dict.fromkeys(specials, 0.0)
        modules.append(("WordWeights", {"vocab": list(token_names), "word_weights": weights}, {}))
        modules[-1][1]["unknown_word_weight"] = 1.0
    modules.append(("Pooling", _pooling_config(settings, dim), {}))
    state = head.state_dict() if head else {}
    texts: dict[str, Any] = {}
    for number, layer in enumerate(settings.layers):
        if layer["kind"] == "truncate":
            texts["truncate_dim"] = layer["out"]
            continue
        prefix = f"layers.{number}."
        own = {name.removeprefix(prefix): each for name, each in state.items() if name.startswith(prefix)}
        modules.append(_layer_module(layer, own))
    module_list = []
    for number, (name, config, tensors) in enumerate(modules):
        folder = f"{number}_{name}" if number else ""
        module_list.append(
            {"idx": number, "name": str(number), "path": folder, "type": _MODULE_PREFIX + name}
        )
        if number:
            (out / folder).mkdir()
            configs.write_json(out / folder / "config.json", config)
        if tensors:
            save_file(tensors, out / folder / "model.safetensors")
    configs.write_json(out / "modules.json", module_list)
    if settings.max_length or settings.lower:
        length = {"max_seq_length": settings.max_length or None, "do_lower_case": settings.lower}
        configs.write_json(out / "sentence_bert_config.json", length)
    if settings.prompt:
        texts |= {"prompts": {"default": settings.prompt}, "default_prompt_name": "default"}
    if texts:
        configs.write_json(out / "config_sentence_transformers.json", texts)


def _pooling_config(settings: SentenceSettings, dim: int) -> dict[str, Any]:
    config: dict[str, Any] = {"word_embedding_dimension": dim}
    config |= {key: name in settings.poolings for key, name in POOLING_KEYS.items()}
    return config | ({} if settings.pools_prompt else {"include_prompt": False})


def _layer_module(
    layer: Mapping[str, Any], state: dict[str, Tensor]
) -> tuple[str, dict[str, Any], dict[str, Tensor]]:
    """Return the name of a module behind the pooling, its settings and its weights."""
    if layer["kind"] == "normalize":
        return "Normalize", {}, {}
    if layer["kind"] == "layer_norm":
        norm = {f"norm.{name}": tensor for name, tensor in state.items()}
        return "LayerNorm", {"dimension": len(state["weight"])}, norm
    activation = getattr(nn, layer["activation"])
    config = {
        "in_features": layer["in"],
        "out_features": layer["out"],
        "bias": layer["bias"],
        "activation_function": f"{activation.__module__}.{activation.__name__}",
    }
    return "Dense", config | ({"use_residual": True} if layer["residual"] else {}), state
