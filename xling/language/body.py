"""The shape of the encoder that ``body=`` names, as the settings of the training that goes on from it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xling.core.commands.inputs import HUB_PREFIX
from xling.core.errors import UserError
from xling.hub import source
from xling.hub.configs import HF_SIZE_NAMES, check_config

TYPE = "bert"


def shape_of(body: str) -> dict[str, Any]:
    """Return ``model.*`` of a folder of transformers; nothing for a name on the Hub, which is not here yet.

    Raises:
        UserError: no such folder, or another kind of model than BERT.
    """
    folder = Path(body.removeprefix(HUB_PREFIX))
    path = folder / "config.json"
    if not path.is_file():
        if folder.is_dir() or body.startswith(("/", ".", f"{HUB_PREFIX}/", f"{HUB_PREFIX}.")):
            raise UserError(f"body={body}: no config.json there", "a folder of save_pretrained")
        return {}
    config = source.read_json(path)
    if (kind := config.get("model_type")) != TYPE:
        raise UserError(f"body={body} is of the type {kind}", f"{TYPE}, for example all-MiniLM-L6-v2")
    check_config(config, TYPE, folder)
    sizes = {ours: int(config[theirs]) for ours, theirs in HF_SIZE_NAMES.items()}
    more = {
        "segment_embeddings": True,
        "norm_eps": float(config.get("layer_norm_eps", 1e-12)),
        "dropout": 0.0,
    }
    return {**sizes, **more}


def num_parameters(shape: Mapping[str, Any]) -> int:
    """Return the weights of a shape's layers, without those of its embeddings."""
    dim = int(shape["dim"])
    return int(shape["layers"]) * (4 * dim * dim + 2 * dim * int(shape["ffn_dim"]))
