"""A larger encoder that starts from the weights of a smaller one.

The small weights stand in the middle of the large ones and repeat towards the sides. A matrix is divided by how often
its inputs repeat, so that every sum keeps its size: where widths are multiples and depths are equal, the large encoder
computes what the small one does. A little noise parts the copies of a neuron, which would otherwise learn the same.

Source: Warner et al. 2024, section 2.3 (ModernBERT large starts from base: centred tiles, layers repeated as in Rae et
al. 2021). Our choice: queries, keys, values, heads and the halves of a gate are tiled apart; sums keep their size; the
noise.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from xling.array_types import Int, Shaped
from xling.core.errors import UserError
from xling.models.files.model_folder import check_vocabulary
from xling.models.files.model_weights import BY_TOKEN, load_model, tied_of
from xling.models.network.encoder import EncoderModel, is_gated
from xling.models.shape import names
from xling.text.vocab import vocab_digest

_LINEAR = re.compile(r"\.(qkv|out|up|down|dense)\.")
_LAYER = re.compile(r"encoder\.layers\.(\d+)\.(.*)")


def start_tiled(model: EncoderModel, directory: Path, data: Path, noise: float) -> None:
    """Fill the weights of ``model`` with those of a published smaller encoder.

    Args:
        noise: deviation of the noise, as a share of that of each weight.

    Raises:
        UserError: the vocabulary differs, or the shape does not enlarge the small one.
    """
    small, _ = load_model(directory)
    check_vocabulary(vocab_digest(directory), data, directory)
    _check(model, small, directory)
    tied = tied_of(model.cfg)
    ours = {name: weight for name, weight in model.state_dict().items() if name not in tied}
    theirs, filled = small.state_dict(), {}
    for name, weight in ours.items():
        source = _source_of(name, model.cfg.layers, small.cfg.layers)
        if source not in theirs and name.endswith("attn_norm.weight"):
            continue  # the first layer of ModernBERT has no such norm, its copies do
        if source not in theirs:
            raise UserError(
                f"init={directory} has no weight {source}",
                "a smaller model of the same kind",
                "give the model.* settings of that run, but for its sizes",
            )
        tiled = _tiled(name, theirs[source], model.cfg, small.cfg)
        if tiled is None or tiled.shape != weight.shape:
            raise UserError(
                f"init={directory}: {name} of {tuple(theirs[source].shape)} does not become {tuple(weight.shape)}",
                "the model.* settings of that run, but for layers, dim, heads and ffn_dim",
            )
        if tiled.shape != theirs[source].shape and noise:
            tiled = tiled + noise * tiled.std() * torch.randn(tiled.shape)
        filled[name] = tiled.to(weight.dtype)
    model.load_state_dict(filled, strict=False)


def _check(model: Any, small: Any, directory: Path) -> None:
    """Reject shapes that do not enlarge the small one, and settings that give weights another meaning."""
    if not isinstance(model, EncoderModel) or not isinstance(small, EncoderModel):
        raise UserError(f"init={directory} with init_tiled=true", "two encoders of xling without a decoder")
    for name in ("layers", "dim", "heads", "ffn_dim"):
        mine, theirs = getattr(model.cfg, name), getattr(small.cfg, name)
        if mine < theirs:
            raise UserError(f"model.{name}={mine}, init={directory} has {theirs}", f"at least {theirs}")
    for name in names(only=(None,), same=True):
        mine, theirs = getattr(model.cfg, name), getattr(small.cfg, name)
        if mine != theirs and name != "heads":
            raise UserError(
                f"init={directory} has model.{name}={str(theirs).lower()}, not {str(mine).lower()}",
                "the same",
            )
    if _width(model.cfg) != _width(small.cfg):
        raise UserError(
            f"model.heads={model.cfg.heads} of {_width(model.cfg)}, init={directory} has heads of {_width(small.cfg)}",
            f"heads as wide: model.dim / model.heads, or model.head_dim={_width(small.cfg)}",
        )


def _width(cfg: Any) -> int:
    return int(cfg.head_dim or cfg.dim // cfg.heads)


def _source_of(name: str, layers: int, small: int) -> str:
    """Return which weight of the small model a weight comes from; layer i of L from layer i l / L of l."""
    if (layer := _LAYER.fullmatch(name)) is None:
        return name
    return f"encoder.layers.{int(layer[1]) * small // layers}.{layer[2]}"


def _tiled(name: str, weight: Shaped[Tensor, " ..."], cfg: Any, small: Any) -> Shaped[Tensor, " ..."] | None:
    """Return one weight in the size that it has in the large model, None if it is of a kind that is not tiled."""
    axes = _axes(name, len(weight), cfg, small)[: weight.dim()]
    if tuple(math.prod(old for old, _ in axis) for axis in axes) != tuple(weight.shape):
        return None
    large = weight.reshape([old for axis in axes for old, _ in axis])
    for place, (old, new) in enumerate(pair for axis in axes for pair in axis):
        large = large.index_select(place, _centred(old, new))
    large = large.reshape([math.prod(new for _, new in axis) for axis in axes])
    if len(axes) == 2 and _LINEAR.search(name):
        large = large * math.prod(old / new for old, new in axes[1])
    if name.startswith("lm_head.norm."):
        large = large * (small.dim / cfg.dim)  # the product with the embeddings sums over the repeated width
    return large


def _axes(name: str, rows: int, cfg: Any, small: Any) -> list[list[tuple[int, int]]]:
    """Return for each axis of a weight what it counts: (small, large) sizes, of which the axis is the product."""
    dim, inner = (small.dim, cfg.dim), (small.ffn_dim, cfg.ffn_dim)
    heads, width = (small.heads, cfg.heads), (_width(small), _width(small))
    gates = 1 + is_gated(small.ffn)
    if ".qkv." in name:
        return [[(3, 3), heads, width], [dim]]
    if ".out." in name:
        return [[dim], [heads, width]]
    if ".up." in name:
        return [[(gates, gates), inner], [dim]]
    if ".down." in name:
        return [[dim], [inner]]
    if ".qk_norms." in name:
        return [[width]]
    if name.startswith("encoder.relative."):
        return [[(rows, rows)], [heads]]
    if name in BY_TOKEN or name.startswith(("encoder.positions.", "encoder.langs.", "encoder.segments.")):
        return [[(rows, rows)], [dim]]
    return [[dim], [dim]]


def _centred(old: int, new: int) -> Int[Tensor, " {new}"]:
    """Return for each place of the new size the old one that fills it: the old ones in the middle, repeated."""
    return (torch.arange(new) - (new - old) // 2) % old
