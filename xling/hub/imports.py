"""``xling import hf|fairseq``: models that others have trained, as checkpoints that every command here goes on with."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from xling import compat
from xling.core import languages, manifest
from xling.core.errors import UserError
from xling.hub import layouts, tokenizer
from xling.hub.config import ImportConfig
from xling.models import checkpoint
from xling.models.encoder import EncoderConfig, EncoderModel

SPM_NAMES = ("sentencepiece.bpe.model", "sentencepiece.model", "spm.model")
SAFE, SAFE_INDEX, PICKLE = "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"


def run_hf(cfg: ImportConfig) -> manifest.Manifest:
    """Import a directory of Hugging Face of the type XLM-R (also InfoXLM and others of that shape).

    Raises:
        UserError: no such model, a damaged file, another type, a tokenizer of other weights, a pickle without
            ``allow_pickle`` or with code in it.
    """
    config = _json(cfg.source / "config.json")
    if config.get("model_type") != "xlm-roberta":
        raise UserError(
            f"{cfg.source} is of type {config.get('model_type')!r}",
            "xlm-roberta, whose vocabulary is a SentencePiece model",
            "choose a model of that type",
        )
    _refuse_odd(config, cfg.source)
    shape = EncoderConfig(
        layers=int(config["num_hidden_layers"]),
        dim=int(config["hidden_size"]),
        heads=int(config["num_attention_heads"]),
        ffn_dim=int(config["intermediate_size"]),
        max_positions=int(config["max_position_embeddings"]) - layouts.XLMR.first_position,
    )
    state = _hf_weights(cfg)
    if not any(name.startswith("roberta.") for name in state):
        state = {f"roberta.{name}": tensor for name, tensor in state.items()}
    tied = state.get("lm_head.decoder.weight")
    if tied is not None and not torch.equal(tied, state.get(f"{layouts.XLMR.tokens}.weight", tied)):
        raise UserError(f"{cfg.source} has an LM head with a matrix of its own", "one tied to the embeddings")
    pieces = _pieces(cfg.source)
    _check_tokenizer(cfg.source, pieces)
    return _publish(cfg, "import hf", shape, layouts.inwards(state, layouts.XLMR, str(cfg.source)), pieces)


def run_fairseq(cfg: ImportConfig) -> manifest.Manifest:
    """Import a directory with ``model.pt`` and ``dict.txt`` of stock fairseq's RoBERTa or XLM-R.

    Raises:
        UserError: as `run_hf`.
    """
    path = cfg.source / "model.pt"
    compat.install()
    found = _unpickle(path)
    told: Any = found.get("args")
    if isinstance(found.get("cfg"), Mapping):
        told = found["cfg"].get("model")
    args = dict(told) if isinstance(told, Mapping) else vars(told) if told is not None else {}
    if "model" not in found or "encoder_attention_heads" not in args:
        raise UserError(f"{path} is no RoBERTa of fairseq", "a checkpoint with `cfg` or `args` and `model`")
    state = {_renamed(name): tensor for name, tensor in found["model"].items()}
    names = layouts.FAIRSEQ
    weights = layouts.inwards(state, names, str(path))
    dim = weights["encoder.norm.weight"].shape[0]
    shape = EncoderConfig(
        layers=layouts.num_layers(weights),
        dim=dim,
        heads=int(args["encoder_attention_heads"]),
        ffn_dim=weights["encoder.layers.0.up.weight"].shape[0],
        max_positions=len(weights["encoder.positions.weight"]),
    )
    if args.get("encoder_normalize_before") or args.get("activation_fn", "gelu") != "gelu":
        raise UserError(f"{path} has layer norms before the blocks or no gelu", "XLM-R's own settings")
    pieces = _pieces(cfg.source)
    listed = (cfg.source / "dict.txt").read_text(encoding="utf-8").split("\n")[:-1]
    _compare([line.rsplit(" ", 1)[0] for line in listed], pieces, cfg.source / "dict.txt")
    return _publish(cfg, "import fairseq", shape, weights, pieces)


def _publish(
    cfg: ImportConfig, stage: str, shape: EncoderConfig, weights: dict[str, Tensor], pieces: list[str]
) -> manifest.Manifest:
    rows, wanted = len(weights["encoder.tokens.weight"]), len(pieces) + len(tokenizer.SPECIALS) + 1
    if rows != wanted:
        raise UserError(
            f"{cfg.source} has {rows} embeddings, and its tokenizer {wanted} ids",
            "weights and tokenizer of one model",
            "give the SentencePiece model that the weights were trained with",
        )
    for lang in cfg.langs:
        languages.get(lang)
    if done := manifest.up_to_date(cfg.out, stage, cfg, [cfg.source]):
        return done
    model = EncoderModel(shape, rows)
    ours = model.state_dict()
    for name, tensor in weights.items():
        if name not in ours or ours[name].shape != tensor.shape:
            wanted_shape = tuple(ours[name].shape) if name in ours else "nothing"
            raise UserError(
                f"{cfg.source}: {name} is {tuple(tensor.shape)}",
                f"{wanted_shape} by its configuration",
                "the file is of another model",
            )
    model.load_state_dict(weights, strict=False)
    with manifest.publish(cfg.out, stage, cfg, [cfg.source]) as made:
        (made.path / "dict.txt").write_text("".join(f"{p} 1\n" for p in pieces), encoding="utf-8")
        shutil.copy(_spm(cfg.source), made.path / "spm.model")
        checkpoint.save_model(made.path / "model.pt", model, list(cfg.langs), made.path)
        made.counts |= {"langs": list(cfg.langs), "vocabulary": rows, "shape": checkpoint.shape_of(shape)}
    return manifest.read(cfg.out)


def _refuse_odd(config: Mapping[str, Any], where: Path) -> None:
    wanted = {
        "hidden_act": "gelu",
        "position_embedding_type": "absolute",
        "layer_norm_eps": 1e-5,
        "type_vocab_size": 1,
        "is_decoder": False,
    }
    for name, value in wanted.items():
        if config.get(name, value) != value:
            raise UserError(f"{where}/config.json: {name}={config[name]!r}", f"{value!r}, as in XLM-R")
    sizes = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")
    if missing := [name for name in (*sizes, "max_position_embeddings") if name not in config]:
        raise UserError(f"{where}/config.json does not say {', '.join(missing)}")


def _hf_weights(cfg: ImportConfig) -> dict[str, Tensor]:
    """All tensors of the model, from safetensors, or from a pickle where that is allowed."""
    folder = cfg.source
    if (folder / SAFE_INDEX).is_file():
        names = sorted(set(_json(folder / SAFE_INDEX)["weight_map"].values()))
    else:
        names = [SAFE]
    if (folder / names[0]).is_file():
        state: dict[str, Tensor] = {}
        for name in names:
            try:
                state |= load_file(folder / name)
            except (SafetensorError, OSError) as error:
                raise UserError(
                    f"{folder / name} is damaged or missing: {error}", fix="copy it again"
                ) from None
        return state
    if not (folder / PICKLE).is_file():
        raise UserError(f"no weights in {folder}", f"{SAFE}, or {PICKLE} with allow_pickle=true")
    if not cfg.allow_pickle:
        raise UserError(
            f"{folder / PICKLE} is a pickle, which can hold code",
            SAFE,
            "allow_pickle=true reads tensors and plain values from it and refuses anything else",
        )
    return _unpickle(folder / PICKLE)


def _unpickle(path: Path) -> dict[str, Any]:
    """Tensors and plain values of a pickle; code in it is never run.

    Raises:
        UserError: no such file, none of torch's, or something else in it.
    """
    if not path.is_file():
        raise UserError(f"no file {path}", fix="check the path")
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise UserError(
            f"{path} is damaged or holds more than tensors, and was not read: {str(error).splitlines()[0]}",
            "a file of tensors and plain values",
            "ask its authors for safetensors",
        ) from None
    if not isinstance(found, dict):
        raise UserError(f"{path} holds no weights by name")
    return found


def _renamed(name: str) -> str:
    """Names of the released XLM-R, which are older than today's fairseq, as today's."""
    name = name.removeprefix("decoder.").removeprefix("encoder.")
    return "encoder." + name.replace(".emb_layer_norm.", ".layernorm_embedding.")


def _spm(folder: Path) -> Path:
    for name in SPM_NAMES:
        if (folder / name).is_file():
            return folder / name
    raise UserError(f"{folder} has no SentencePiece model", " or ".join(SPM_NAMES))


def _pieces(folder: Path) -> list[str]:
    """Pieces of the SentencePiece model without its three specials."""
    return [p.piece for p in tokenizer.read_model(_spm(folder)).pieces[tokenizer.NUM_SPM_SPECIALS :]]


def _check_tokenizer(folder: Path, pieces: list[str]) -> None:
    """Compare the pieces with those of ``tokenizer.json``, where there is one."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        return
    found = _json(path).get("model", {}).get("vocab", [])
    tokens = [t[0] for t in found] if isinstance(found, list) else sorted(found, key=found.get)
    first = len(tokenizer.SPECIALS)
    _compare(tokens[first : first + len(pieces)], pieces, path)


def _compare(listed: list[str], pieces: list[str], what: Path) -> None:
    if listed == pieces:
        return
    place = next((i for i, (a, b) in enumerate(zip(listed, pieces, strict=False)) if a != b), -1)
    seen = f"piece {place} is {listed[place]!r}" if place >= 0 else f"it has {len(listed)} pieces"
    raise UserError(
        f"{what} and {what.parent}'s SentencePiece model differ: {seen}",
        repr(pieces[place]) if place >= 0 else f"{len(pieces)}",
        "give the files of one model",
    )


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise UserError(f"no file {path}", "a directory as Hugging Face's save_pretrained writes it")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is not JSON: {error}", fix="copy it again") from None
    if not isinstance(found, dict):
        raise UserError(f"{path} holds no settings")
    return found
