"""Import of XLM's own checkpoints, ``xling import xlm``: settings, weights and words by transformers' names.

A checkpoint has ``model``, the weights of the encoder with its output layer, ``params``, the settings of its training,
and ``dico_word2id``, its pieces with their ids. The merges of its BPE are a file of their own.

Source: trainer.py and model/transformer.py of facebookresearch/XLM.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from xling.array_types import Shaped
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.hub import files, imports, source
from xling.hub.settings import ImportConfig
from xling.models.files.model_weights import check_finite

CHECKPOINT_PARTS = ("model", "params", "dico_word2id")
FIRST_PIECE_ID = 14  # after the ends come ten <special...>
_CONTINUED_MARK, _WORD_END = "@@", "</w>"
_COPIED_SETTINGS = (
    "emb_dim", "n_layers", "n_heads", "dropout", "attention_dropout", "n_langs", "id2lang", "lang2id",
    "bos_index", "eos_index", "pad_index", "unk_index", "mask_index",
)  # fmt: skip
_DEFAULT_INDICES = {"bos_index": 0, "eos_index": 1, "pad_index": 2, "unk_index": 3, "mask_index": 5}
_UNSUPPORTED_PARTS = ("asm", "use_memory")
"""Parts of XLM that transformers lacks."""
_ARRAY_BUILDERS = {"_reconstruct": np.zeros(0).__reduce__()[0], "scalar": np.float64(0).__reduce__()[0]}
_SAFE_GLOBALS: list[Any] = [
    *_ARRAY_BUILDERS.values(),
    *((build, f"numpy.core.multiarray.{name}") for name, build in _ARRAY_BUILDERS.items()),
    np.ndarray,
    np.dtype,
    *(type(np.dtype(kind)) for kind in ("f4", "f8", "i4", "i8", "?")),
]
"""Arrays of numbers, which are among the settings: they hold no code."""


def run(cfg: ImportConfig) -> manifest.Manifest:
    """Import a directory with a ``.pth`` of XLM and the codes of its BPE as an encoder that transformers computes.

    Raises:
        UserError: a file is missing, damaged or of another program, or the model has a part that transformers lacks.
    """
    path, codes_path = source.find_xlm_files(cfg.source)
    with torch.serialization.safe_globals(_SAFE_GLOBALS):
        content = files.read_pickle(path)
    if missing := [name for name in CHECKPOINT_PARTS if not isinstance(content.get(name), Mapping)]:
        raise UserError(
            f"{path} has no {missing[0]}",
            f"a checkpoint of XLM with {', '.join(CHECKPOINT_PARTS)}",
            "give an encoder: models of XLM with a decoder are not read",
        )
    check_finite(content["model"], path)
    params, id_of_word = content["params"], content["dico_word2id"]
    with files.explain_file_errors(cfg.source), tempfile.TemporaryDirectory() as folder:
        state = to_hf_weights(content["model"])
        config = to_hf_config(params, state, path)
        write_tokenizer_files(id_of_word, codes_path, config, Path(folder))
        return imports.publish_transformers_encoder(cfg, "import xlm", config, state, Path(folder))


def to_hf_weights(
    state: Mapping[str, Shaped[torch.Tensor, " ..."]],
) -> dict[str, Shaped[torch.Tensor, " ..."]]:
    """Rename the weights of a checkpoint; those of a training on several GPUs begin with ``module.``."""
    return {
        name if name.startswith("pred_layer.") else f"transformer.{name}": tensor
        for name, tensor in files.without_wrappers(state).items()
    }


def to_hf_config(
    params: Mapping[str, Any], state: Mapping[str, Shaped[torch.Tensor, " ..."]], path: Path
) -> dict[str, Any]:
    """Return the ``config.json`` of a checkpoint.

    Raises:
        UserError: it has a part that transformers lacks.
    """
    if unsupported := [name for name in _UNSUPPORTED_PARTS if params.get(name)]:
        raise UserError(
            f"{path}: {unsupported[0]}={params[unsupported[0]]}",
            f"{unsupported[0]}=false",
            "choose another checkpoint",
        )
    output_matrix, table = state.get("pred_layer.proj.weight"), state["transformer.embeddings.weight"]
    copied = {name: params[name] for name in _COPIED_SETTINGS if name in params}
    for name in {"id2lang", "lang2id"} & copied.keys():
        copied[name] = {str(key): value for key, value in copied[name].items()}
    return {
        **_DEFAULT_INDICES,
        **copied,
        "model_type": "xlm",
        "architectures": ["XLMWithLMHeadModel"],
        "vocab_size": len(table),
        "max_position_embeddings": len(state["transformer.position_embeddings.weight"]),
        "gelu_activation": bool(params.get("gelu_activation", False)),
        "sinusoidal_embeddings": bool(params.get("sinusoidal_embeddings", False)),
        "use_lang_emb": "transformer.lang_embeddings.weight" in state,
        "tie_word_embeddings": output_matrix is None or torch.equal(output_matrix, table),
    }


def write_tokenizer_files(
    ids: Mapping[str, int], codes_path: Path, config: Mapping[str, Any], folder: Path
) -> None:
    """Write the files of a tokenizer of transformers.

    A piece that ends a word has no mark in XLM and ``</w>`` there; one that does not has ``@@`` in XLM. Text is
    lower-cased and its accents dropped if no piece has a capital.
    """
    vocabulary = {
        word
        if n < FIRST_PIECE_ID
        else word.replace(_CONTINUED_MARK, "")
        if _CONTINUED_MARK in word
        else word + _WORD_END: int(n)
        for word, n in ids.items()
    }
    is_lower_case = not any(word != word.lower() for word, n in ids.items() if n >= FIRST_PIECE_ID)
    settings = {"tokenizer_class": "XLMTokenizer", "do_lowercase_and_remove_accent": is_lower_case}
    merges = codes_path.read_text(encoding="utf-8").removesuffix("\n") + "\n"
    (folder / "merges.txt").write_text(merges, encoding="utf-8")
    for name, content in (("vocab", vocabulary), ("config", config), ("tokenizer_config", settings)):
        (folder / f"{name}.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
