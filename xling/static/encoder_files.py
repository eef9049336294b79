"""Files of a static encoder, and its control with a random table; `xling.static.vectors` computes the vectors.

Files of a model: ``static.json`` (`StaticConfig`) and ``static.safetensors``. That has ``table``, rows by dim, in
float16, or in int8 with ``scale``, float32, one factor a row. The words frequent enough to have a lower
weight are there too: ``frequent``, their hashes, and ``share``, their share of all words. The weights of all
words are learned from ``weight_direction``, float32, which older files lack.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from xling.array_types import Float32
from xling.core.errors import UserError
from xling.core.settings.config import from_dict
from xling.static.shape import StaticConfig
from xling.static.vectors import StaticEncoder
from xling.text.words.features import READABLE_VERSIONS

CONFIG_FILE, WEIGHTS_FILE = "static.json", "static.safetensors"
MIN_WEIGHT_REDUCTION = 0.1
"""Words whose weight is lower than 1 by more than this are stored with the model."""


def random_encoder(cfg: StaticConfig, share: dict[int, float], seed: int = 1) -> StaticEncoder:
    """Create a control with the same shape and word weights but a random table."""
    generator = torch.Generator().manual_seed(seed)
    return StaticEncoder(cfg, random_table(cfg, generator), share)


def random_table(cfg: StaticConfig, generator: torch.Generator) -> Float32[Tensor, "rows dim"]:
    """Return the table that a training starts from, float32 (2 ** bits, dim)."""
    return torch.randn(1 << cfg.bits, cfg.dim, generator=generator) * 0.1


def save_encoder(encoder: StaticEncoder, folder: Path) -> None:
    """Write the two files of a model into ``folder``."""
    frequent_hashes = sorted(encoder.share)
    tensors = {
        "table": encoder.table.half().contiguous(),
        "weight_direction": encoder.weight_direction.contiguous(),
        "frequent": torch.tensor(frequent_hashes, dtype=torch.int64),
        "share": torch.tensor([encoder.share[key] for key in frequent_hashes], dtype=torch.float32),
    }
    save_file(tensors, folder / WEIGHTS_FILE)
    (folder / CONFIG_FILE).write_text(json.dumps(asdict(encoder.cfg), indent=1) + "\n", encoding="utf-8")


def quantize_encoder(folder: Path, out: Path) -> None:
    """Write the files of a model with its table in 8-bit integers, half the size, into the folder ``out``.

    Raises:
        UserError: as `load_encoder`, or its table is in 8 bits already.
    """
    table = load_encoder(folder).table
    tensors = load_file(folder / WEIGHTS_FILE)
    if "scale" in tensors:
        raise UserError(f"{folder} is in 8 bits already", "a static encoder in float16")
    scale = table.abs().amax(1).clamp_min(1e-12) / 127
    integers = (table / scale[:, None]).round().to(torch.int8)
    save_file(tensors | {"table": integers, "scale": scale}, out / WEIGHTS_FILE)
    shutil.copyfile(folder / CONFIG_FILE, out / CONFIG_FILE)


def is_static_encoder(folder: Path) -> bool:
    """Return whether ``folder`` contains a static encoder."""
    return (folder / CONFIG_FILE).is_file()


def load_encoder(folder: Path, random_init: bool = False) -> StaticEncoder:
    """Read a model, or its control with a random table.

    Raises:
        UserError: a file is missing or damaged.
    """
    cfg = read_shape(folder)
    with _damage_reported(folder):
        tensors = load_file(folder / WEIGHTS_FILE)
        if not torch.isfinite(tensors["table"].float()).all():
            raise ValueError("its table has values that are not finite (NaN or infinite)")
        share = dict(zip(tensors["frequent"].tolist(), tensors["share"].tolist(), strict=True))
        if random_init:
            return random_encoder(cfg, share)
        table = tensors["table"].float() * tensors.get("scale", torch.ones(1))[:, None]
        return StaticEncoder(cfg, table, share, tensors.get("weight_direction"))


def read_shape(folder: Path) -> StaticConfig:
    """Read the shape of a model; raises UserError as `load_encoder`."""
    with _damage_reported(folder):
        settings = {"features": 1} | json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
        if settings["features"] not in READABLE_VERSIONS:
            raise UserError(
                f"{folder} uses version {settings['features']} of the word features",
                f"version {' or '.join(map(str, READABLE_VERSIONS))}",
                "run xling corpus nway and xling pretrain static again",
            )
        return from_dict(StaticConfig, settings)


@contextmanager
def _damage_reported(folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, AssertionError, SafetensorError) as error:
        raise UserError(
            f"{folder} is not a static encoder: {type(error).__name__} {error}",
            "an output of xling pretrain static",
            "run it again",
        ) from None
