"""Reading of what sentence-transformers writes beside a model: its modules, their weights, and prompts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xling.array_types import Shaped
from xling.core.errors import UserError
from xling.core.output.command_result import tell
from xling.hub import source

if TYPE_CHECKING:
    from torch import Tensor

MODULES_FILE, PROMPTS_FILE = "modules.json", "config_sentence_transformers.json"
LENGTH_FILES = (
    "sentence_bert_config.json", "sentence_roberta_config.json", "sentence_distilbert_config.json",
    "sentence_camembert_config.json", "sentence_xlm-roberta_config.json", "sentence_mpnet_config.json",
)  # fmt: skip
MODULES = ("Transformer", "Pooling", "Dense", "LayerNorm", "Normalize", "Dropout", "WordWeights")
"""Modules that are read; of WordWeights only those that leave the specials out, as `xling export hf` writes them."""
LOADING_SETTINGS = (
    "model_args", "model_kwargs", "config_args", "config_kwargs", "tokenizer_args", "processor_kwargs",
    "processing_kwargs",
)  # fmt: skip
"""Settings by which sentence-transformers reads model and tokenizer otherwise than their own files say."""
HARMLESS = frozenset({
    "trust_remote_code", "attn_implementation", "dtype", "torch_dtype", "revision", "token", "cache_dir", "device_map",
    "local_files_only", "use_fast", "add_pooling_layer", "low_cpu_mem_usage", "use_safetensors",
})  # fmt: skip
"""Those of them that leave the vectors of a text as they are."""
_PACKAGE = "sentence_transformers."
ACTIVATIONS = ("Tanh", "Identity", "ReLU", "GELU", "SiLU", "Sigmoid", "LeakyReLU", "ELU", "Mish", "Softplus")
"""Activations of a dense layer: classes of torch.nn, with their defaults."""
POOLING_KEYS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Old settings of Pooling, in the order in which their vectors are joined."""


@dataclass(frozen=True)
class ReadModules:
    """Settings for `xling.transfer.sentence.SentenceSettings`, and the folder of each layer that has weights."""

    settings: dict[str, Any]
    folders: dict[int, Path]


def read_modules(folder: Path) -> ReadModules | None:
    """Read ``modules.json`` and the settings of its modules; None if there is no such file.

    Raises:
        UserError: a module or a setting that is not computed here.
    """
    path = folder / MODULES_FILE
    if not path.is_file():
        return None
    types = [(str(each.get("type")), str(each.get("path"))) for each in _read_list(path)]
    modules = [
        (kind.rsplit(".", 1)[-1] if kind.startswith(_PACKAGE) else kind, place) for kind, place in types
    ]
    names = [name for name, _ in modules]
    if unknown := [name for name in names if name not in MODULES]:
        raise _refusal(path, f"has the module {unknown[0]}", f"the modules {', '.join(MODULES)}")
    if names[:1] != ["Transformer"] or names.count("Transformer") != 1 or names.count("Pooling") != 1:
        raise _refusal(path, f"has the modules {', '.join(names)}", "one Transformer, then one Pooling")
    if modules[0][1]:
        raise _refusal(path, f"keeps its encoder in {modules[0][1]}/", 'the path "" of its Transformer')
    settings: dict[str, Any] = {"layers": ()}
    folders: dict[int, Path] = {}
    for name, place in modules[1:]:
        config = folder / place / "config.json"
        values = source.read_json(config) if config.is_file() else {}
        if name == "Pooling":
            settings |= _read_pooling(values, config)
        elif ("poolings" in settings) == (name == "WordWeights"):
            raise _refusal(path, f"has {name} on the other side of its pooling", "layers and norms behind it")
        elif name == "WordWeights":
            settings["pools_specials"] = _read_weights(values, config)
        elif name != "Dropout":
            if name != "Normalize":
                folders[len(settings["layers"])] = folder / place
            settings["layers"] = (*settings["layers"], _read_layer(name, values, config))
    texts = _read_texts(folder)
    if (dim := texts.pop("truncate_dim")) is not None:
        settings["layers"] = (*settings["layers"], {"kind": "truncate", "out": int(dim)})
    return ReadModules(settings | texts, folders)


def _refusal(path: Path, problem: str, valid: str) -> UserError:
    return UserError(
        f"{path} {problem}, which is not computed here",
        valid,
        f"for the encoder alone, import a copy of the folder without {MODULES_FILE}",
    )


def _read_list(path: Path) -> list[Mapping[str, Any]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is not JSON: {error}", fix="copy it again") from None
    if not isinstance(content, list) or not all(isinstance(each, dict) for each in content):
        raise UserError(f"{path} holds no list of modules", fix="copy it again")
    return content


def _read_pooling(values: Mapping[str, Any], path: Path) -> dict[str, Any]:
    given = values.get("pooling_mode")
    if given is None:
        source.check_file(path, "the settings of the pooling")
        poolings = [name for key, name in POOLING_KEYS.items() if values.get(key)] or ["mean"]
    else:
        poolings = [given] if isinstance(given, str) else list(given)
    if unknown := [str(name) for name in poolings if name not in POOLING_KEYS.values()]:
        raise _refusal(path, f"has the pooling {unknown[0]}", ", ".join(POOLING_KEYS.values()))
    return {
        "poolings": tuple(poolings),
        "pools_prompt": bool(values.get("include_prompt", True)),
        "dim": values.get("word_embedding_dimension", values.get("embedding_dimension")),
    }


def _read_weights(values: Mapping[str, Any], path: Path) -> bool:
    """Return False: of the weights of words only 1, and 0 for the specials, are computed here."""
    weights = values.get("word_weights")
    if (
        not isinstance(weights, Mapping)
        or len(weights) != 2
        or any(weights.values())
        or values.get("unknown_word_weight", 1) != 1
    ):
        raise _refusal(path, "weighs words", "weights of 0 for begin and end of a text alone")
    return False


def _read_layer(name: str, values: Mapping[str, Any], path: Path) -> dict[str, Any]:
    if {values.get("module_input_name"), values.get("module_output_name")} - {None, "sentence_embedding"}:
        raise _refusal(path, f"reads {values['module_input_name']}", "sentence_embedding")
    if name != "Dense":
        return {"kind": "normalize" if name == "Normalize" else "layer_norm"}
    activation = str(values.get("activation_function", "torch.nn.modules.activation.Tanh"))
    short_name = activation.rsplit(".", 1)[-1]
    if not activation.startswith("torch.nn.") or short_name not in ACTIVATIONS:
        raise _refusal(path, f"has the activation {activation}", f"of torch.nn: {', '.join(ACTIVATIONS)}")
    return {
        "kind": "dense",
        "in": int(values["in_features"]),
        "out": int(values["out_features"]),
        "bias": bool(values.get("bias", True)),
        "activation": short_name,
        "residual": bool(values.get("use_residual", False)),
    }


def _read_texts(folder: Path) -> dict[str, Any]:
    """Return how texts are read, that is length, case and default prompt, and the numbers of a vector that are kept."""
    length_file = next((folder / name for name in LENGTH_FILES if (folder / name).is_file()), None)
    lengths = source.read_json(length_file) if length_file else {}
    if length_file:
        _check_transformer(lengths, length_file)
    tokenizer = folder / "tokenizer_config.json"
    limits = [lengths.get("max_seq_length")]
    if limits == [None] and tokenizer.is_file():
        limits = [source.read_json(tokenizer).get("model_max_length")]
    max_length = int(limits[0]) if limits[0] is not None and limits[0] < 2**31 else 0
    prompts_path = folder / PROMPTS_FILE
    config = source.read_json(prompts_path) if prompts_path.is_file() else {}
    prompts, default = config.get("prompts") or {}, config.get("default_prompt_name")
    if default is not None and default not in prompts:
        raise _refusal(prompts_path, f"has the default prompt {default!r}", ", ".join(prompts) or "prompts")
    if (similarity := config.get("similarity_fn_name")) not in (None, "cosine"):
        tell(f"xling: {folder} compares vectors by {similarity}, and suites of retrieval by distance=cosine")
    if unused := [name for name, text in prompts.items() if text and name != default]:
        tell(
            f"xling: {folder} has the prompts {', '.join(unused)}, which are not put before texts: "
            + (f"its default is {default}" if default else "none is its default")
        )
    return {
        "max_length": max_length,
        "prompt": prompts.get(default, ""),
        "lower": bool(lengths.get("do_lower_case")),
        "truncate_dim": config.get("truncate_dim"),
    }


def _check_transformer(values: Mapping[str, Any], path: Path) -> None:
    """Reject settings of the first module by which the states of a text are others than the encoder's last ones."""
    if values.get("transformer_task") not in (None, "feature-extraction"):
        raise _refusal(path, f"has the task {values['transformer_task']}", "feature-extraction")
    text = (values.get("modality_config") or {}).get("text") or {}
    output = text.get("method_output_name") if isinstance(text, Mapping) else text
    for given, valid in (
        (output, "last_hidden_state"),
        (values.get("module_output_name"), "token_embeddings"),
    ):
        if given not in (None, valid):
            raise _refusal(path, f"takes {given}", valid)
    for name in LOADING_SETTINGS:
        given = values.get(name) or {}
        changed = {
            key: value for key, value in given.items() if key not in HARMLESS and value not in (None, {}, [])
        }
        if changed:
            raise _refusal(
                path, f"has {name} with {', '.join(map(str, changed))}", f"{name} that change no vector"
            )


def make_writer(modules: ReadModules, folder: Path, shape: Any, allow_pickle: bool) -> Callable[[Path], None]:
    """Return what writes the sentence vectors of a model into a directory, see `xling.transfer.sentence`.

    Args:
        shape: of its encoder, with ``dim`` and ``max_positions``.
        allow_pickle: whether weights may be read from ``pytorch_model.bin``.

    Raises:
        UserError: the weights of a layer are missing or have another shape, or specials are put around a text in
            another way than here.
    """
    from xling.hub import files
    from xling.transfer.sentence import SentenceHead, SentenceSettings, write_head

    settings, dim = dict(modules.settings), shape.dim
    if settings["max_length"] >= shape.max_positions:
        settings["max_length"] = 0
    declared = settings.pop("dim")
    if declared is not None and int(declared) != dim:
        raise UserError(
            f"{folder}: its pooling reads vectors of {declared}", f"{dim}, the width of its encoder"
        )
    _check_specials(folder)
    sentence_settings = SentenceSettings(**settings)
    expected = {
        name: tuple(each.shape) for name, each in SentenceHead(sentence_settings, dim).state_dict().items()
    }
    weights: dict[str, Shaped[Tensor, " ..."]] = {}
    for number, place in modules.folders.items():
        prefix = f"layers.{number}."
        for name, tensor in files.read_hf_weights(place, allow_pickle).items():
            weights[prefix + name.removeprefix("norm.")] = tensor
    shapes = {name: tuple(each.shape) for name, each in weights.items()}
    if shapes != expected:
        name = sorted(dict(shapes.items() ^ expected.items()))[0]
        raise UserError(
            f"{folder}: {name} is {shapes.get(name, 'missing')}",
            f"{expected.get(name, 'nothing')} by the settings of its modules",
            "copy its folders again",
        )
    return lambda out: write_head(sentence_settings, weights, out)


def _check_specials(folder: Path) -> None:
    """Reject a tokenizer that cuts the begin of texts, or puts not one special before and one behind a text."""
    from xling.hub.files import read_tokenizer

    path = folder / "tokenizer.json"
    side = source.read_optional_json(folder / "tokenizer_config.json").get("truncation_side")
    direction = (source.read_optional_json(path).get("truncation") or {}).get("direction", "Right")
    if str(side or direction).lower() == "left":
        place = folder / "tokenizer_config.json" if side else path
        raise _refusal(place, "cuts long texts at their begin", "truncation_side=right")
    if not path.is_file():
        return
    tokenizer = read_tokenizer(path)
    tokenizer.no_padding()
    mask = tokenizer.encode("a b").special_tokens_mask
    if mask[:1] != [1] or mask[-1:] != [1] or sum(mask) != 2:
        raise _refusal(path, f"puts {sum(mask)} specials around a text", "one before and one behind it")
