"""Merging of models that started from the same checkpoint, by averages or by TIES: ``xling merge``.

Sources: Wortsman et al. 2022 (averages); Yadav et al. 2023 (TIES: trim, elect signs, average what agrees).
Marone et al. 2025 merge the decay phases of three language mixes by TIES.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from xling.core.output import manifest
from xling.hub import checks
from xling.hub.settings import MergeConfig
from xling.models.files import model_weights
from xling.text import vocab

if TYPE_CHECKING:
    from jaxtyping import Float

STAGE = "merge"


def run(cfg: MergeConfig) -> manifest.Manifest:
    """Merge models and publish the result, as ``xling pretrain`` does.

    Raises:
        UserError: different shapes, languages or vocabularies.
    """
    sources = [*cfg.checkpoints, *([cfg.base] if cfg.base else [])]
    if done := manifest.up_to_date(cfg.out, STAGE, cfg, sources):
        return done
    states = [model_weights.read_published(path / "model.pt", *model_weights.SHAPES) for path in sources]
    checks.alike(sources, states)
    weights = [state["weights"] for state in states]
    num = len(cfg.checkpoints)
    shares = torch.tensor(cfg.weights or [1.0] * num, dtype=torch.float64)
    shares = shares / shares.sum()
    if cfg.method == "ties":
        merged = ties(weights[:num], weights[num], shares, cfg.density, cfg.scale)
    else:
        merged = {name: _mean([w[name] for w in weights], shares) for name in weights[0]}
    with manifest.publish(cfg.out, STAGE, cfg, sources) as publication:
        torch.save(states[0] | {"weights": merged}, publication.path / "model.pt")
        vocab.copy_vocabulary(cfg.checkpoints[0], publication.path)
        publication.counts |= {"langs": states[0]["langs"], "models": num, "method": cfg.method}
    return manifest.read(cfg.out)


def _mean(tensors: Sequence[Tensor], shares: Tensor) -> Tensor:
    total = sum(share * tensor.double() for share, tensor in zip(shares.tolist(), tensors, strict=False))
    assert isinstance(total, Tensor)
    return total.float()


def ties(
    weights: Sequence[dict[str, Float[Tensor, " ..."]]],
    base: dict[str, Float[Tensor, " ..."]],
    shares: Float[Tensor, " models"],
    density: float,
    scale: float = 1.0,
) -> dict[str, Float[Tensor, " ..."]]:
    """Merge changes from ``base`` by TIES: trim them, elect a sign, and average the models that agree.

    Args:
        weights: weights of the models.
        base: weights of the model that all started from.
        shares: shares of the models, float64 (models,).
        density: share of each model's changes to keep, the largest over the whole model.
        scale: factor on the merged change.
    """
    cuts = []
    for model in weights:
        sizes = torch.cat([(model[name] - base[name]).abs().flatten() for name in base])
        kept = max(1, round(density * len(sizes)))
        cuts.append(sizes.kthvalue(len(sizes) - kept + 1).values)
    merged = {}
    for name, start in base.items():
        changes = torch.stack([model[name] - start for model in weights]).double()
        sizes = torch.stack(cuts).view(-1, *[1] * start.dim())
        changes = torch.where(changes.abs() >= sizes, changes, 0.0)
        by_model = shares.view(-1, *[1] * start.dim())
        agrees = (changes.sign() == (changes * by_model).sum(0).sign()) & (changes != 0)
        total = (changes * by_model * agrees).sum(0) / (by_model * agrees).sum(0).clamp(min=1e-12)
        merged[name] = (start.double() + scale * total).float()
    return merged
